import numpy as np
import pytest

from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.events import UsageObserved
from dure.domain.fleet.slices import ShareMode
from dure.domain.fleet.workloads import Demand, Workload, WorkloadKind
from dure.domain.ids import TenantId, WorkloadId
from dure.domain.units import GIB
from dure.fleet.rightsizing import SizingRules, UseBook

ASKED = 40 * GIB


def service(name: str = "w", service_name: str = "", memory: int = ASKED) -> Workload:
    return Workload(
        WorkloadId(name),
        TenantId("ann"),
        WorkloadKind.SERVING,
        Demand(memory_bytes=memory, compute_tops=100.0),
        service_name=service_name,
    )


def watch(book: UseBook, workload: Workload, memory: float, compute: float, times: int) -> None:
    used = int(memory * workload.demand.memory_bytes)
    for number in range(times):
        book.observe(workload, UsageObserved(number, workload.id, used, compute))


def test_a_workload_that_uses_little_is_told_to_ask_for_less() -> None:
    book = UseBook()
    watch(book, service(), memory=0.25, compute=0.5, times=200)
    found = book.recommend(service())
    assert found is not None
    assert found.demand.memory_bytes == pytest.approx(0.25 * 1.15 * ASKED, rel=0.005)
    assert found.demand.compute_tops == pytest.approx(0.5 * 1.15 * 100, rel=0.005)
    assert not found.larger
    assert found.template(device_profile("a100"), ShareMode.MIG) == "2g.20gb"


def test_a_workload_that_outgrows_its_request_is_told_to_ask_for_more() -> None:
    book = UseBook()
    watch(book, service(), memory=1.1, compute=0.95, times=200)
    found = book.recommend(service())
    assert found is not None
    assert found.larger
    assert found.demand.memory_bytes > 1.1 * ASKED
    assert found.demand.compute_tops == 100.0, "a change of 9 % is not worth telling"


def test_nothing_is_recommended_before_enough_was_seen() -> None:
    book = UseBook()
    watch(book, service(), memory=0.25, compute=0.5, times=50)
    assert book.recommend(service()) is None
    assert 0.5 < book.confidence(service()) < 0.8
    watch(book, service(), memory=0.25, compute=0.5, times=60)
    assert book.recommend(service()) is not None


def test_a_right_size_is_left_alone() -> None:
    book = UseBook()
    watch(book, service(), memory=0.85, compute=0.9, times=200)
    assert book.recommend(service()) is None


def test_peaks_count_and_a_rare_one_does_not() -> None:
    book = UseBook(SizingRules(percentile=0.9))
    watch(book, service(), memory=0.3, compute=0.3, times=170)
    watch(book, service(), memory=0.6, compute=0.3, times=25)
    watch(book, service(), memory=1.0, compute=0.3, times=5)
    found = book.recommend(service())
    assert found is not None
    assert found.memory_share == pytest.approx(0.6)


def test_the_percentile_is_never_below_the_real_one() -> None:
    rng = np.random.default_rng(5)
    book = UseBook()
    shares = rng.uniform(0.1, 0.6, 500)
    for share in shares:
        watch(book, service(), memory=float(share), compute=0.5, times=1)
    found = book.recommend(service())
    assert found is not None
    real = float(np.quantile(shares, 0.98, method="inverted_cdf"))
    assert real <= found.memory_share + 1e-9 < real + 0.026


def test_a_service_remembers_over_its_runs_and_a_nameless_job_does_not() -> None:
    book = UseBook()
    for run in range(4):
        named = service(f"run{run}", "chat")
        watch(book, named, memory=0.25, compute=0.5, times=50)
        book.forget(named)
    assert book.recommend(service("run4", "chat")) is not None
    watch(book, service("alone"), memory=0.25, compute=0.5, times=200)
    book.forget(service("alone"))
    assert book.recommend(service("alone")) is None


def test_another_request_starts_anew() -> None:
    book = UseBook()
    watch(book, service(), memory=0.25, compute=0.5, times=200)
    watch(book, service(memory=20 * GIB), memory=0.5, compute=0.5, times=1)
    assert book.recommend(service(memory=20 * GIB)) is None


def test_the_warning_says_what_is_used_and_what_to_ask_for() -> None:
    book = UseBook()
    watch(book, service(), memory=0.25, compute=0.5, times=200)
    found = book.recommend(service())
    assert found is not None
    warning = found.warning()
    assert warning.about == "w"
    assert warning.what == "uses 25% of its 40 GiB of memory and 50% of its 100 TOPS " + (
        "(200 observations)"
    )
    assert warning.remedy == "ask for 11.5 GiB of memory and 57.5 TOPS"


def test_advice_names_only_what_is_to_change_in_the_unit_it_was_asked_in() -> None:
    book, asked = UseBook(), service(memory=40 * 10**9)
    watch(book, asked, memory=0.25, compute=0.87, times=200)
    found = book.recommend(asked)
    assert found is not None
    warning = found.warning()
    assert warning.what.startswith("uses 25% of its 40 GB of memory (")
    assert warning.remedy == "ask for 11.5 GB of memory"
