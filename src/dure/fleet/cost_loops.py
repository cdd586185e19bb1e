"""The compiled loop behind a round's costs: every candidate at every site and start, at once.

It adds up the same terms as `dure.fleet.terms`, cell by cell, and leaves out what cannot matter:
sites a job may not use, later starts of jobs that may not wait, rates of zero.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dure.fleet.compiled import compiled, counting_nothing

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]

_DAY_H = 24
_TINY_H = 1e-6
"""As in `dure.fleet.terms`."""
_CERTAIN = 40.0
"""Mean overruns of slack beyond which being late is out of the question: exp(-40) < 1e-17."""


class Jobs(NamedTuple):
    """J candidates."""

    need: Integers
    """[J]: row of `unit`."""
    unit: Floats
    """[N, P]: devices of one instance by class, of each distinct shape."""
    instances: Floats
    """[J]"""
    run_h: Floats
    """[J, P]: of what is left of them."""
    eligible: Bools
    """[J, M]; false is set where they cannot run."""
    due_h: Floats
    """[J]: from now."""
    rate: Floats
    """[J]: penalty per hour late."""
    cap: Floats
    carried: Integers
    """[J]: row of what they need brought."""
    may_wait: Bools
    patience_h: Floats
    """[J]: latest start worth planning."""


class Weights(NamedTuple):
    """What each job's terms count for, [J]."""

    money: Floats
    tonne: Floats
    sla: Floats
    near: Floats


class Places(NamedTuple):
    """M sites."""

    kind: Integers
    free_on_used: Floats
    node_devices: Floats
    fill: Floats
    remaining_h: Floats
    idle_w: Floats
    peak_w: Floats
    base_w: Floats
    pue: Floats
    slip_h: Floats


class Carried(NamedTuple):
    """What it takes to bring what jobs need, [K, M]."""

    money: Floats
    hours: Floats
    there: Bools


class Hours(NamedTuple):
    """Rates of the hours ahead as sums [M, H + 1], and the starts [T]."""

    rent: Floats
    power: Floats
    carbon: Floats
    first_h: float
    """How far into the first hour it is now."""
    starts_h: Floats


class Margins(NamedTuple):
    """Of planning."""

    overrun: float
    """Expected, as a share of the run."""
    wait_share_per_h: float


class Costs(NamedTuple):
    """What comes out."""

    total: Floats
    """[J, M, T]"""
    rent: Floats
    energy: Floats
    grams: Floats
    risk: Floats
    spend: Floats
    """[J, M, T]: money that will be billed: rent, energy, transfer."""
    run_h: Floats
    """[J, M]"""
    delay_h: Floats
    sharing: Floats
    """[J, M]: the total of the first start if nodes in use had room for all of it."""
    shortest_h: Floats
    """[J]: at the fastest site it may use; infinite: none."""


@counting_nothing
def _sum_at(sums: Floats, row: int, hours: float) -> float:
    """The sum of a row at a fractional hour; beyond the end the last day repeats."""
    last = sums.shape[1] - 1
    if hours >= last:
        day = (sums[row, last] - sums[row, last - _DAY_H]) / _DAY_H
        return float(sums[row, last] + (hours - last) * day)
    low = int(hours)
    return float(sums[row, low] + (hours - low) * (sums[row, low + 1] - sums[row, low]))


@compiled
def means(sums: Floats, start_h: Floats, run_h: Floats) -> Floats:
    """[J, M, T]: mean rates over runs of `run_h` [J, M] from each of `start_h` [T] on."""
    jobs, sites = run_h.shape
    result = np.empty((jobs, sites, start_h.size))
    begun = _begun_at(sums, start_h)
    for job in range(jobs):
        for site in range(sites):
            length = max(run_h[job, site], 1e-3)
            for slot in range(start_h.size):
                end = _sum_at(sums, site, start_h[slot] + length)
                result[job, site, slot] = (end - begun[site, slot]) / length
    return result


@compiled
def _begun_at(sums: Floats, start_h: Floats) -> Floats:
    """[M, T]: sums at the starts."""
    sites = sums.shape[0]
    begun = np.empty((sites, start_h.size))
    for site in range(sites):
        for slot in range(start_h.size):
            begun[site, slot] = _sum_at(sums, site, start_h[slot])
    return begun


@counting_nothing
def _late_h(slack: float, slip: float) -> float:
    """Expected hours past the deadline, as `terms.expected_lateness_h`."""
    if slack <= 0.0:
        return slip - slack
    if slack > _CERTAIN * slip:
        return 0.0
    return slip * math.exp(-slack / slip)


@counting_nothing
def _opened(devices: float, room: float, place: tuple[float, float, float]) -> float:
    """Devices whose nodes are kept on because of a job, as `terms.opened_devices`."""
    node, fill, anyway = place
    shared = min(devices, room)
    fresh = devices - shared
    spare = math.ceil(fresh / node - 1e-9) * node - fresh
    return shared * (1.0 - anyway) + fresh + spare * (1.0 - fill)


class _Run(NamedTuple):
    """One job at one site."""

    length_h: float
    opened: float
    """Devices whose nodes are kept on because of it,"""
    least: float
    """and if nodes in use had room for all of it."""
    busy_w: float
    """Of its devices beyond idle."""
    node_w: float
    """Of each device that is kept on."""
    kwh_per_w: float
    brought: float
    """Money for what has to be brought."""
    slack_h: float
    """Before the deadline, started now."""
    slip_h: float


class _Starts(NamedTuple):
    """Sums of rates at the starts, [M, T], and which sites have such rates at all, [M]."""

    begin_h: Floats
    rent: Floats
    power: Floats
    carbon: Floats
    rented: Bools
    powered: Bools


@compiled
def _starts(hours: Hours) -> _Starts:
    sites = hours.rent.shape[0]
    rented, powered = np.zeros(sites, np.bool_), np.zeros(sites, np.bool_)
    for site in range(sites):
        rented[site], powered[site] = hours.rent[site].any(), hours.power[site].any()
    begin = hours.starts_h + hours.first_h
    return _Starts(
        begin,
        _begun_at(hours.rent, begin),
        _begun_at(hours.power, begin),
        _begun_at(hours.carbon, begin),
        rented,
        powered,
    )


@counting_nothing
def _run(jobs: Jobs, job: int, places: Places, site: int, overrun: float) -> _Run:
    """What does not depend on the start; nothing brought yet."""
    kind = places.kind[site]
    length = jobs.run_h[job, kind]
    devices = jobs.unit[jobs.need[job], kind] * jobs.instances[job]
    left_h = places.remaining_h[site]
    anyway = left_h / (left_h + max(length, _TINY_H))
    place = (places.node_devices[site], places.fill[site], anyway)
    idle_w = places.idle_w[site]
    return _Run(
        length,
        _opened(devices, places.free_on_used[site], place),
        devices * (1.0 - anyway),
        devices * (places.peak_w[site] - idle_w),
        idle_w + places.base_w[site],
        length * places.pue[site] / 1000.0,
        0.0,
        jobs.due_h[job] - (places.slip_h[site] + length),
        max(overrun * length + places.slip_h[site], _TINY_H),
    )


@counting_nothing
def _rates(
    hours: Hours, starts: _Starts, site: int, slot: int, length_h: float
) -> tuple[float, float, float]:
    """Mean rent, electricity price and carbon over a run."""
    span = max(length_h, 1e-3)
    end = starts.begin_h[slot] + span
    rent = power = 0.0
    if starts.rented[site]:
        rent = (_sum_at(hours.rent, site, end) - starts.rent[site, slot]) / span
    if starts.powered[site]:
        power = (_sum_at(hours.power, site, end) - starts.power[site, slot]) / span
    carbon = (_sum_at(hours.carbon, site, end) - starts.carbon[site, slot]) / span
    return rent, power, carbon


@counting_nothing
def _bill(
    run: _Run, opened: float, rates: tuple[float, float, float]
) -> tuple[float, float, float]:
    """Rent, energy and grams with so many devices kept on."""
    kwh = (run.busy_w + opened * run.node_w) * run.kwh_per_w
    return opened * rates[0] * run.length_h, kwh * rates[1], kwh * rates[2]


@compiled
def weigh(
    jobs: Jobs, weights: Weights, places: Places, carried: Carried, hours: Hours, margins: Margins
) -> Costs:
    """Costs of all candidates; infinite totals where and when they may not go."""
    count, sites = jobs.eligible.shape
    shape = (count, sites, hours.starts_h.size)
    out = Costs(
        np.full(shape, np.inf),
        np.zeros(shape),
        np.zeros(shape),
        np.zeros(shape),
        np.zeros(shape),
        np.zeros(shape),
        np.ones((count, sites)),
        np.zeros((count, sites)),
        np.full((count, sites), np.inf),
        np.full(count, np.inf),
    )
    _weigh_all(out, (jobs, weights, margins), places, carried, (hours, _starts(hours)))
    return out


@counting_nothing
def _weigh_all(
    out: Costs,
    job_side: tuple[Jobs, Weights, Margins],
    places: Places,
    carried: Carried,
    time_side: tuple[Hours, _Starts],
) -> None:
    """Fill in every job at every site that it may use."""
    jobs, _, margins = job_side
    count, sites = jobs.eligible.shape
    for job in range(count):
        row = jobs.carried[job]
        for site in range(sites):
            hours_h = carried.hours[row, site]
            out.delay_h[job, site] = hours_h + places.slip_h[site]
            length = jobs.run_h[job, places.kind[site]]
            if not jobs.eligible[job, site] or not length < np.inf:
                jobs.eligible[job, site] = False
                continue
            out.run_h[job, site] = length
            out.shortest_h[job] = min(out.shortest_h[job], length)
            run = _run(jobs, job, places, site, margins.overrun)
            brought = 0.0 if carried.there[row, site] else carried.money[row, site]
            run = _brought(run, brought, hours_h)
            _weigh_starts(out, (job, site), run, job_side, time_side)


@counting_nothing
def _brought(run: _Run, money: float, hours_h: float) -> _Run:
    """The same with what has to be brought first."""
    return _Run(
        run.length_h,
        run.opened,
        run.least,
        run.busy_w,
        run.node_w,
        run.kwh_per_w,
        money,
        run.slack_h - hours_h,
        run.slip_h,
    )


@counting_nothing
def _weigh_starts(
    out: Costs,
    where: tuple[int, int],
    run: _Run,
    job_side: tuple[Jobs, Weights, Margins],
    time_side: tuple[Hours, _Starts],
) -> None:
    """Fill in all starts of one job at one site."""
    job, site = where
    jobs, weights, margins = job_side
    hours, starts = time_side
    money, tonnes = weights.money[job], weights.tonne[job] / 1e6
    bring = run.brought * weights.near[job] * money
    first = 0.0
    for slot in range(hours.starts_h.size if jobs.may_wait[job] else 1):
        start_h = hours.starts_h[slot]
        slack = run.slack_h - start_h
        if slot > 0 and (
            slack < 2.0 * margins.overrun * min(slack + 1.0, 24.0) or start_h > jobs.patience_h[job]
        ):
            continue
        rates = _rates(hours, starts, site, slot, run.length_h)
        late = 0.0
        if jobs.rate[job] > 0.0:
            late = min(_late_h(slack, run.slip_h) * jobs.rate[job], jobs.cap[job])
        rent, energy, grams = _bill(run, run.opened, rates)
        out.rent[job, site, slot] = rent
        out.energy[job, site, slot] = energy
        out.grams[job, site, slot] = grams
        out.risk[job, site, slot] = late
        out.spend[job, site, slot] = rent + energy + run.brought
        fixed = bring + late * weights.sla[job]
        value = (rent + energy) * money + grams * tonnes + fixed
        if slot == 0:
            first = abs(value)
            rent, energy, grams = _bill(run, run.least, rates)
            out.sharing[job, site] = (rent + energy) * money + grams * tonnes + fixed
        out.total[job, site, slot] = value + first * margins.wait_share_per_h * start_h
