"""What the centre is told of people's jobs, and what their objects show; no cluster, no centre."""

from typing import Any

import pytest

from dure.domain.fleet.lifecycle import JobPhase
from dure.domain.fleet.protocol.wishes import Standing, WishRefusal
from dure.member.door.book import ASK_AGAIN_S, PENDING_S, DoorBook, Entry
from dure.member.door.kinds import FINALIZER
from dure.member.door.wording import EVERY_S, moment

MOST = 100


def thing(uid: str = "u-1", generation: int = 1, **more: Any) -> dict[str, Any]:
    metadata = {
        "uid": uid,
        "name": f"name-{uid}",
        "namespace": "team",
        "generation": generation,
        "finalizers": [FINALIZER] if more.pop("held", True) else [],
        **more.pop("metadata", {}),
    }
    return {"metadata": metadata, "spec": {"kind": "batch"}, **more}


def placed(uid: str = "u-1", generation: int = 1, cost: float = 2.0, **more: Any) -> Standing:
    return Standing(
        uid,
        generation,
        job="j-1",
        phase=more.pop("phase", JobPhase.RUNNING),
        cluster="east",
        slice="whole",
        cost_per_hour=cost,
        currency="USD",
        g_co2_per_hour=100.0,
        **more,
    )


def test_nothing_is_said_of_an_object_that_could_vanish_unseen() -> None:
    book = DoorBook()
    book.put(thing(held=False), 0.0)
    assert not book.wishes(0.0, MOST)
    book.put(thing(), 0.0)
    assert [wish.uid for wish in book.wishes(0.0, MOST)] == ["u-1"]
    assert not book.wishes(0.0, MOST), "once for each link"


def test_a_new_link_hears_all_that_is_not_over_and_documents_only_where_they_are_not_stored() -> (
    None
):
    book = DoorBook()
    book.put(thing("known"), 0.0)
    book.put(thing("new"), 0.0)
    book.put(thing("over", status={"phase": "Succeeded"}), 0.0)
    book.wishes(0.0, MOST)
    book.hear(placed("known"))
    book.linked()
    said = {wish.uid: bool(wish.document) for wish in book.wishes(1.0, MOST)}
    assert said == {"known": False, "new": True}


def test_a_member_that_starts_anew_says_documents_only_of_what_no_status_tells_is_stored() -> None:
    book = DoorBook()
    book.put(thing("told", status={"phase": "Running", "jobId": "j", "observedGeneration": 1}), 0.0)
    book.put(thing("edited", 2, status={"jobId": "j", "observedGeneration": 1}), 0.0)
    said = {wish.uid: bool(wish.document) for wish in book.wishes(0.0, MOST)}
    assert said == {"told": False, "edited": True}


def test_a_centre_that_knows_nothing_of_an_object_is_told_it_whole() -> None:
    book = DoorBook()
    book.put(thing(status={"jobId": "j", "observedGeneration": 1}), 0.0)
    assert not book.wishes(0.0, MOST)[0].document
    book.hear(Standing("u-1", 0))
    assert book.wishes(0.0, MOST)[0].document


def test_an_edit_is_said_and_says_the_whole_object() -> None:
    book = DoorBook()
    book.put(thing(), 0.0)
    book.wishes(0.0, MOST)
    book.hear(placed())
    book.put(thing(generation=2), 0.0)
    (wish,) = book.wishes(0.0, MOST)
    assert (wish.generation, bool(wish.document)) == (2, True)


@pytest.mark.parametrize("final", [True, False])
def test_only_what_was_refused_for_reasons_that_may_pass_is_asked_again(final: bool) -> None:
    book = DoorBook()
    book.put(thing(), 0.0)
    book.wishes(0.0, MOST)
    book.hear(Standing("u-1", 1, refusal=WishRefusal("Quota", "tenant", "full", "wait", final)))
    assert not book.wishes(ASK_AGAIN_S - 1, MOST)
    assert bool(book.wishes(ASK_AGAIN_S, MOST)) is not final


def test_an_end_is_said_on_every_link_until_the_centre_knows_it() -> None:
    book = DoorBook()
    entry = book.put(thing(), 0.0)
    book.bury([entry.tombstone()])
    book.gone("u-1")
    for _ in range(2):
        (wish,) = book.wishes(0.0, MOST)
        assert (wish.uid, wish.withdrawn) == ("u-1", True)
        assert not book.wishes(0.0, MOST)
        book.linked()
    assert book.known_gone([Standing("u-1", 1, withdrawn=True)]) == ["u-1"]
    assert not book.wishes(0.0, MOST)


def test_of_a_deleted_object_only_its_end_is_said() -> None:
    book = DoorBook()
    book.put(thing(metadata={"deletionTimestamp": moment(0)}), 0.0)
    assert not book.wishes(0.0, MOST)


# What is shown


def shown(book: DoorBook, entry: Entry, now_s: float) -> dict[str, Any]:
    """Write what is to be shown, as the cluster would; what was written."""
    changes = book.shown(entry, now_s)
    status = {**entry.status, **changes}
    entry.thing["status"] = {name: each for name, each in status.items() if each is not None}
    return changes


def test_an_object_says_that_it_waits_for_the_centre_only_when_that_takes_a_while() -> None:
    book = DoorBook()
    entry = book.put(thing(), 0.0)
    assert not shown(book, entry, PENDING_S - 1)
    assert shown(book, entry, PENDING_S)["phase"] == "Pending"
    assert not shown(book, entry, PENDING_S + 100)


def test_prices_are_written_on_a_change_of_more_than_five_percent_or_once_a_minute() -> None:
    book = DoorBook()
    entry = book.put(thing(), 0.0)
    book.hear(placed(cost=2.0))
    assert shown(book, entry, 0.0)["costPerHour"] == 2.0
    book.hear(placed(cost=2.08))
    assert not shown(book, entry, EVERY_S - 1)
    assert shown(book, entry, EVERY_S) == {"costPerHour": 2.08, "pricedAt": moment(EVERY_S)}
    book.hear(placed(cost=2.2))
    assert shown(book, entry, EVERY_S + 1)["costPerHour"] == 2.2
    assert not shown(book, entry, 3 * EVERY_S), "what did not change is not written"


def test_a_change_of_place_is_shown_at_once_also_where_the_price_is_nearly_the_same() -> None:
    book = DoorBook()
    entry = book.put(thing(), 0.0)
    book.hear(placed(cost=2.0))
    shown(book, entry, 0.0)
    book.hear(placed(cost=2.01, phase=JobPhase.QUEUED, suspended=True, why="its owner"))
    changes = shown(book, entry, 1.0)
    assert changes == {"phase": "Suspended", "message": "its owner"}


def test_a_job_that_has_left_its_place_shows_no_price() -> None:
    book = DoorBook()
    entry = book.put(thing(), 0.0)
    book.hear(placed())
    shown(book, entry, 0.0)
    book.hear(Standing("u-1", 1, job="j-1", phase=JobPhase.SUCCEEDED, cluster="east"))
    shown(book, entry, 1.0)
    assert entry.status["phase"] == "Succeeded"
    assert not {"costPerHour", "gCO2PerHour", "currency", "slice"} & set(entry.status)
    assert entry.over


def test_a_refusal_tells_field_reason_and_remedy_and_since_when() -> None:
    book = DoorBook()
    entry = book.put(thing(), 0.0)
    refusal = WishRefusal("Invalid", "resources.memory", "is too much", "write less")
    book.hear(Standing("u-1", 1, refusal=refusal))
    shown(book, entry, 5.0)
    assert entry.status["phase"] == "Refused"
    (condition,) = entry.status["conditions"]
    assert condition == {
        "type": "Accepted",
        "status": "False",
        "reason": "Invalid",
        "message": "resources.memory: is too much; write less",
        "lastTransitionTime": moment(5.0),
        "observedGeneration": 1,
    }
    assert not shown(book, entry, 500.0)
    book.hear(placed())
    shown(book, entry, 600.0)
    assert entry.status["conditions"][0]["lastTransitionTime"] == moment(600.0)
