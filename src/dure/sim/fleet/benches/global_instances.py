"""Made rounds of the global stage: jobs, sites and tenants with the shapes of published traces.

`plain` has one start slot and two capacities. `full` has six start slots, four dimensions, gangs of
up to 64 devices, 40 tenants with caps on their dominant share, money and carbon budgets. Everything
comes from the seed.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dure.fleet.assignment.problem import Demand, Problem, Sites, Tenancy

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

START_SLOTS = {"plain": 1, "full": 6}
"""Hours a job may start in."""
INSTANCES = tuple(START_SLOTS)
LOADS = {"plain": np.array([1.1, 1.1]), "full": np.array([1.1, 1.0, 0.9, 0.8])}
"""Demand over capacity of devices, device memory, cores and host memory: some jobs get no place.
Nodes come with more cores and memory than devices need; as sites differ, each binds somewhere."""
_DEVICES = np.array([1, 2, 4, 8, 16, 32, 64])
_DEVICE_ODDS = {
    "plain": np.array([0.74, 0.09, 0.08, 0.09, 0.0, 0.0, 0.0]),
    "full": np.array([0.72, 0.09, 0.07, 0.08, 0.025, 0.01, 0.005]),
}
"""How many devices jobs ask for: the shape of the Philly trace, most one, then powers of two up to
a node; `full` adds gangs over nodes."""
_PROFILE_GB = np.array([80.0, 40.0, 24.0])
"""Device memory of the three classes of profile: as A100/H100 80 GB, A100 40 GB, L4 24 GB."""
_PROFILE_PRICE = np.array([3.0, 1.6, 0.8])
"""Money per device-hour, in the order of the classes; about what clouds ask for those devices."""
_PROFILE_ODDS = np.array([0.4, 0.35, 0.25])
_PROFILE_KW = np.array([0.7, 0.4, 0.1])
"""Power of a busy device with its part of the node."""
_SLOT_H = 1.0
"""Hours of a start slot in `full`: an hour each."""
_TENANTS = 40


@dataclass(frozen=True, slots=True)
class _Jobs:
    """Jobs as drawn."""

    devices: Floats
    """[J, P]: whole devices on each class of profile: more where device memory is small."""
    usage: Floats
    """[J, P, D]"""
    hours: Floats
    span: Integers


@dataclass(frozen=True, slots=True)
class _Places:
    """Sites as drawn, before capacities are scaled to the load."""

    profile: Integers
    weight: Floats
    """[M]: relative number of devices."""
    region: Floats
    """[M]: price level of the region, around 1."""
    intensity: Floats
    """[M]: gCO2 per kWh."""


def make_problem(instance: str, jobs: int, sites: int, seed: int) -> Problem:
    """A round; the same for the same arguments."""
    rng = np.random.default_rng([INSTANCES.index(instance), jobs, sites, seed])
    slots = START_SLOTS[instance]
    drawn = _draw_jobs(rng, instance, jobs, slots)
    places = _draw_places(rng, sites)
    base = _base_cost(rng, drawn, places)
    cost, waits = _slot_costs(rng, base, slots)
    capacity = _capacity(rng, drawn, places, cost) / LOADS[instance]
    capacity[:, :, 0] = np.ceil(capacity[:, :, 0])
    skip_cost = base.mean(axis=1) * rng.uniform(1.5, 5.0, jobs) + waits * slots
    demand = Demand(drawn.usage, drawn.span)
    if instance == "plain":
        return Problem(cost, skip_cost, demand, Sites(places.profile, capacity))
    free = capacity[:, 0, 0]
    largest = np.maximum(8.0, free * rng.uniform(0.5, 1.0, sites))
    tenancy = _tenancy(rng, drawn, places, cost, capacity)
    return Problem(cost, skip_cost, demand, Sites(places.profile, capacity, largest), tenancy)


def next_round(problem: Problem, instance: str, seed: int) -> tuple[Problem, NDArray[np.bool_]]:
    """The round after: 5 % of jobs replaced by new ones, prices moved by 3 %; and who is new."""
    jobs, sites = problem.cost.shape[:2]
    rng = np.random.default_rng([99, INSTANCES.index(instance), jobs, sites, seed])
    fresh = make_problem(instance, jobs, sites, seed + 1_000_000)
    new = np.zeros(jobs, dtype=np.bool_)
    new[rng.choice(jobs, max(1, jobs // 20), replace=False)] = True
    moved = 1.0 + 0.03 * rng.choice([-1.0, 1.0], sites)
    cost = np.where(new[:, None, None], fresh.cost, problem.cost) * moved[None, :, None]
    demand = Demand(
        np.where(new[:, None, None], fresh.demand.usage, problem.demand.usage),
        np.where(new, fresh.demand.span, problem.demand.span),
    )
    skip_cost = np.where(new, fresh.skip_cost, problem.skip_cost)
    tenancy = problem.tenancy
    if tenancy is not None and fresh.tenancy is not None:
        pick = new[:, None, None]
        tenancy = Tenancy(
            tenant=np.where(new, fresh.tenancy.tenant, tenancy.tenant),
            share=np.where(new[:, None], fresh.tenancy.share, tenancy.share),
            share_cap=tenancy.share_cap,
            spend=np.where(pick, fresh.tenancy.spend, tenancy.spend) * moved[None, :, None],
            money_budget=tenancy.money_budget,
            grams=np.where(pick, fresh.tenancy.grams, tenancy.grams),
            carbon_budget=tenancy.carbon_budget,
        )
    return Problem(cost, skip_cost, demand, problem.sites, tenancy), new


def _draw_jobs(rng: np.random.Generator, instance: str, jobs: int, slots: int) -> _Jobs:
    asked = rng.choice(_DEVICES, jobs, p=_DEVICE_ODDS[instance]).astype(np.float64)
    memory_gb = np.clip(rng.lognormal(np.log(18.0), 0.7, jobs), 2.0, 76.0)
    per_device = np.ceil(memory_gb[:, None] / _PROFILE_GB[None, :])
    devices = asked[:, None] * per_device
    memory = np.broadcast_to((asked * memory_gb)[:, None], devices.shape)
    cores = asked * rng.choice([2.0, 4.0, 8.0, 16.0], jobs, p=[0.2, 0.4, 0.3, 0.1])
    host_gb = asked * np.clip(rng.lognormal(np.log(48.0), 0.8, jobs), 4.0, 400.0)
    dimensions = [devices, memory]
    if instance == "full":
        dimensions += [np.broadcast_to(part[:, None], devices.shape) for part in (cores, host_gb)]
    hours = np.clip(rng.lognormal(np.log(2.0), 1.2, jobs), 0.2, 24.0)
    span = np.clip(np.ceil(hours / _SLOT_H), 1, slots).astype(np.int64)
    return _Jobs(devices, np.stack(dimensions, axis=2), hours, span)


def _draw_places(rng: np.random.Generator, sites: int) -> _Places:
    profile = rng.choice(_PROFILE_GB.size, sites, p=_PROFILE_ODDS)
    profile[: _PROFILE_GB.size] = np.arange(_PROFILE_GB.size)[:sites]
    return _Places(
        profile.astype(np.int64),
        weight=rng.lognormal(0.0, 0.6, sites),
        region=rng.lognormal(0.0, 0.2, sites),
        intensity=rng.uniform(30.0, 700.0, sites),
    )


def _base_cost(rng: np.random.Generator, jobs: _Jobs, places: _Places) -> Floats:
    """[J, M]: rent, times how near the data of each job are."""
    unit = _PROFILE_PRICE[places.profile] * places.region
    rent = jobs.devices[:, places.profile] * unit[None, :] * jobs.hours[:, None]
    return rent * rng.uniform(0.8, 1.3, rent.shape)


def _slot_costs(rng: np.random.Generator, base: Floats, slots: int) -> tuple[Floats, Floats]:
    """[J, M, T] with tariffs by the hour, waiting and deadlines; and what waiting a slot costs."""
    jobs, sites = base.shape
    if slots == 1:
        return np.ascontiguousarray(base[:, :, None]), np.zeros(jobs)
    phase: Floats = rng.uniform(0.0, 2.0 * np.pi, (sites,))
    swing: Floats = rng.uniform(0.0, 0.2, (sites,))
    angle = 2.0 * np.pi * np.arange(slots)[None, :] / slots + phase[:, None]
    curve = 1.0 + swing[:, None] * np.sin(angle)
    waits: Floats = base.mean(axis=1) * rng.uniform(0.01, 0.15, jobs)
    cost = base[:, :, None] * curve[None, :, :] + waits[:, None, None] * np.arange(slots)
    last: Integers = rng.choice(np.arange(slots), jobs, p=[0.3, 0.1, 0.1, 0.1, 0.1, 0.3])
    late = np.arange(slots)[None, :] > last[:, None]
    cost[np.broadcast_to(late[:, None, :], cost.shape)] = np.inf
    return cost, waits


def _capacity(rng: np.random.Generator, jobs: _Jobs, places: _Places, cost: Floats) -> Floats:
    """[M, T, D] that jobs that start at random would just fill."""
    slots = cost.shape[2]
    may = np.isfinite(cost[:, 0, :])
    busy = np.minimum(jobs.span[:, None], slots - np.arange(slots)[None, :])
    slots_busy = (busy * may).sum(axis=1) / may.sum(axis=1)
    usage = jobs.usage[:, places.profile, :]
    part = places.weight / places.weight.sum()
    asked = (usage * slots_busy[:, None, None]).mean(axis=1).sum(axis=0)
    make = rng.uniform(0.85, 1.15, (places.profile.size, jobs.usage.shape[2]))
    shares = part[:, None] * make
    shares /= shares.sum(axis=0)
    amounts = asked[None, :] / slots * shares
    return np.ascontiguousarray(np.repeat(amounts[:, None, :], slots, axis=1))


def _tenancy(
    rng: np.random.Generator, jobs: _Jobs, places: _Places, cost: Floats, capacity: Floats
) -> Tenancy:
    """Tenants of very different size; caps and budgets that some of them run into."""
    count, slots = cost.shape[0], cost.shape[2]
    odds = 1.0 / np.arange(1, _TENANTS + 1) ** 0.8
    tenant: Integers = rng.choice(np.arange(_TENANTS), count, p=odds / odds.sum())
    fleet = capacity[:, 0, :].sum(axis=0)
    share = (jobs.usage / fleet[None, None, :]).max(axis=2)
    asked = np.bincount(tenant, share.mean(axis=1) * jobs.span / slots, _TENANTS)
    room = rng.uniform(0.6, 2.0, _TENANTS)
    share_cap = np.repeat((asked * room)[:, None], slots, axis=1)
    spend = cost[:, :, :1].copy()
    kwh = jobs.devices[:, places.profile] * _PROFILE_KW[places.profile] * jobs.hours[:, None]
    grams = (kwh * places.intensity[None, :])[:, :, None]
    return Tenancy(
        tenant=tenant,
        share=share,
        share_cap=share_cap,
        spend=spend,
        money_budget=_budgets(rng, tenant, spend),
        grams=grams,
        carbon_budget=_budgets(rng, tenant, grams),
    )


def _budgets(rng: np.random.Generator, tenant: Integers, amount: Floats) -> Floats:
    """[K + 1]: half of the tenants have one, of 0.3 to 1.0 times what they would take unled."""
    taken = np.bincount(tenant, amount[:, :, 0].mean(axis=1), _TENANTS)
    limits = taken * rng.uniform(0.3, 1.0, _TENANTS)
    limits[rng.random(_TENANTS) < 0.5] = np.inf
    return np.append(limits, np.inf)
