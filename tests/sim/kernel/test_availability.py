"""Availability of a run is judged by its definition, second by second."""

from dataclasses import replace

import pytest

from dure.domain.tenant import AvailabilitySlo, Slo, Tenant
from dure.domain.units import NS_PER_MS, NS_PER_S
from dure.sim.kernel.load import TenantLoad
from dure.sim.kernel.modes import baseline, managed
from dure.sim.kernel.results import summarise
from dure.sim.kernel.run import Setting, run
from tests.kernel.factories import H200, A, B, C
from tests.sim.kernel.worlds import endless, program, requests

WORK = program(kernels=4, kernel_ns=500_000, units=132 * 4)


def promised(load: TenantLoad, floor_share: float) -> TenantLoad:
    slo = Slo(availability=AvailabilitySlo(0.99, floor_share, max_hold_ns=100 * NS_PER_MS))
    return replace(load, tenant=Tenant(load.tenant.id, slo=slo))


def attained(mode: str, loads: tuple[TenantLoad, ...], seconds: int = 3) -> float | None:
    how = managed("slo", side_by_side=False) if mode == "slo" else baseline(mode)
    result = summarise(run(how, Setting(H200, loads, seconds * NS_PER_S)))
    return result.tenants[0].availability_attainment


def test_who_was_promised_nothing_has_no_availability() -> None:
    assert attained("time-slice", (endless(A, WORK),), 1) is None


def test_seconds_in_which_the_floor_was_received_count() -> None:
    """Three in time slices: a third of the device each."""
    loads = (promised(endless(A, WORK), 0.1), endless(B, WORK), endless(C, WORK))
    assert attained("time-slice", loads) == 1.0


@pytest.mark.parametrize("mode", ["time-slice", "mps"])
def test_seconds_in_which_the_floor_was_missed_do_not_count(mode: str) -> None:
    loads = (promised(endless(A, WORK), 0.6), endless(B, WORK), endless(C, WORK))
    assert attained(mode, loads) == 0.0


def test_a_promised_floor_is_kept_under_slo() -> None:
    loads = (promised(endless(A, WORK), 0.5), endless(B, WORK), endless(C, WORK))
    assert attained("slo", loads) == 1.0


def test_seconds_without_work_do_not_count() -> None:
    long = replace(WORK, sequence=WORK.sequence * 100)
    assert attained("time-slice", (promised(requests(A, long, [2 * NS_PER_S]), 0.9),)) == 1.0


def test_who_had_the_device_to_itself_was_available() -> None:
    assert attained("time-slice", (promised(requests(A, WORK, [2 * NS_PER_S]), 0.9),)) == 1.0
