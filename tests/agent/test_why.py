from dure.agent.books import Book, Deeds
from dure.agent.why import Scene, explain
from dure.domain.ids import TenantId
from dure.domain.tenant import LatencySlo, Slo, Tenant
from dure.domain.units import NS_PER_MS, NS_PER_S

WEB = Tenant(TenantId("web"), slo=Slo(latency=LatencySlo(20 * NS_PER_MS)))
BATCH = Tenant(TenantId("batch"))


def _scene(deeds: Deeds, clients: int = 1, note: str | None = None) -> Scene:
    return Scene("train", deeds, {0: WEB, 1: BATCH}, "slo", clients, note)


def test_it_names_who_how_long_and_which_promise() -> None:
    deeds = Deeds(
        elapsed_ns=10 * NS_PER_S,
        gpu_ns=4 * NS_PER_S,
        gated_ns=5 * NS_PER_S,
        gated_by_ns=[0, 0, NS_PER_S, 3 * NS_PER_S, NS_PER_S],
        held_for_ns={0: 3 * NS_PER_S, 1: NS_PER_S, 63: 5},
        longest_hold_ns=7 * NS_PER_MS,
    )
    answer = explain(_scene(deeds))
    assert answer.held_ns == 4 * NS_PER_S
    assert [each.reason for each in answer.reasons] == ["promise", "order", "in-flight"]
    assert [(each.tenant, each.promise) for each in answer.holders] == [
        ("web", "p99 within 20 ms"),
        ("batch", None),
    ]
    assert answer.sentences[0] == (
        "train was held for 4 s of the last 10 s (at most 7 ms at a time) under 'slo', mostly "
        "waiting for web (3 s, promised p99 within 20 ms) and batch (1 s); it had 40 % of the "
        "device's time."
    )


def test_waiting_for_its_own_work_is_not_being_held() -> None:
    deeds = Deeds(elapsed_ns=NS_PER_S, gated_ns=NS_PER_S, gated_by_ns=[0, 0, 0, 0, NS_PER_S])
    assert "was not held by others" in explain(_scene(deeds)).sentences[0]


def test_an_open_gate_and_an_absent_tenant_are_reasons_too() -> None:
    note = "only one tenant has a process here"
    assert note in explain(_scene(Deeds(elapsed_ns=NS_PER_S), note=note)).sentences[0]
    absent = explain(_scene(Deeds(), clients=0))
    assert absent.sentences == ("train has no process on this GPU.",)


def test_a_book_forgets_what_is_long_past_and_keeps_totals() -> None:
    book = Book()
    for _ in range(2000):
        book.add(Deeds(elapsed_ns=20 * NS_PER_MS, launches=1, latencies={3: 1}))
    assert book.total.launches == 2000
    recent = book.last(NS_PER_S)
    assert NS_PER_S <= recent.elapsed_ns <= NS_PER_S + 120 * NS_PER_MS
    assert recent.launches == recent.elapsed_ns // (20 * NS_PER_MS)
    assert book.last().elapsed_ns <= 10.1 * NS_PER_S
