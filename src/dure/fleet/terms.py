"""Every term of the global objective, in one place: what a placement costs in money and in grams.

Sum for a workload at a site and start:

    rent + energy + carbon + transfer + locality + lateness (jobs) or violations (services)
    [+ migration] + congestion

All functions take floats or numpy arrays that broadcast (workloads x sites x starts) and return
the fleet's currency unless their name says otherwise (`_g`, `_kwh`, `_h`, `_w`). Weights are for
the caller to apply, so that an explanation can show a term as it is and as it counted.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Amount: TypeAlias = NDArray[np.float64]
"""A number or an array of them."""

GRAMS_PER_TONNE = 1e6
BYTES_PER_GB = 1e9
W_PER_KW = 1000.0
MINUTES_PER_HOUR = 60.0

_TINY_H = 1e-6
"""Least uncertainty of a start, in hours; keeps the exponential below defined."""


# --- resources -------------------------------------------------------------------------------


def opened_devices(
    devices: Amount, free_on_used: Amount, node_devices: Amount, fill: Amount, anyway: Amount
) -> Amount:
    """Devices whose nodes are kept on because of this workload: what it is billed for.

    Devices on nodes that are in use cost nothing as long as somebody else keeps the node (the share
    `anyway` of the run). The others open nodes, which are billed whole; of the rest of such a node
    the share `fill` is expected to be used, and so paid, by others.
    """
    shared = np.minimum(devices, free_on_used)
    fresh = devices - shared
    spare = np.ceil(fresh / node_devices - 1e-9) * node_devices - fresh
    return np.asarray(shared * (1.0 - anyway) + fresh + spare * (1.0 - fill))


def closed_devices(devices: Amount, node_devices: Amount, fill: Amount, anyway: Amount) -> Amount:
    """Devices that are no longer billed when this running workload leaves: never more than its own.

    Nodes it fills close at once. What it has on a further node (of which others use `fill` of the
    rest, each device by itself) ends at once where nobody else is there, else when the others have
    gone: for the share `anyway` of its run the node stays billed without it.
    """
    whole = np.floor(devices / node_devices + 1e-9) * node_devices
    part = devices - whole
    alone = (1.0 - fill) ** (node_devices - part)
    return np.asarray(whole + part * (alone + (1.0 - alone) * (1.0 - anyway)))


def kept_on_anyway(remaining_h: Amount, run_h: Amount) -> Amount:
    """Share of a run during which its node would be in use without it.

    `remaining_h` is how long work at the site still runs on average; ends are taken as memoryless,
    so that the node outlives a run of `run_h` with remaining / (remaining + run).
    """
    return np.asarray(remaining_h / (remaining_h + np.maximum(run_h, _TINY_H)))


def rent(opened: Amount, price_per_device_hour: Amount, run_h: Amount) -> Amount:
    """Node-hours of rented devices. The price is the mean of the tariff over the run."""
    return np.asarray(opened * price_per_device_hour * run_h)


def added_power_w(
    opened: Amount, busy: Amount, idle_w: Amount, peak_w: Amount, base_w_per_device: Amount
) -> Amount:
    """Electric power that this workload adds: its devices busy instead of idle, its nodes on."""
    return np.asarray(busy * (peak_w - idle_w) + opened * (idle_w + base_w_per_device))


def energy_kwh(power_w: Amount, run_h: Amount, pue: Amount) -> Amount:
    """Energy of the whole site for that power over the run."""
    return np.asarray(power_w / W_PER_KW * run_h * pue)


def energy(kwh: Amount, price_per_kwh: Amount) -> Amount:
    """Electricity of owned devices; the rent of others includes it (their price is 0)."""
    return np.asarray(kwh * price_per_kwh)


# --- carbon ----------------------------------------------------------------------------------


def carbon_g(kwh: Amount, g_per_kwh: Amount) -> Amount:
    """Grams of CO2 for that energy, at the mean intensity over the run."""
    return np.asarray(kwh * g_per_kwh)


def carbon(grams: Amount, price_per_tonne: Amount) -> Amount:
    """What these grams count for: shadow price, or the price that keeps a budget."""
    return np.asarray(grams * price_per_tonne / GRAMS_PER_TONNE)


# --- locality --------------------------------------------------------------------------------


def transfer(size_bytes: Amount, egress_per_gb: Amount) -> Amount:
    """Moving weights, data or a checkpoint to a cluster from the cheapest place that has it."""
    return np.asarray(size_bytes / BYTES_PER_GB * egress_per_gb)


def transfer_h(size_bytes: Amount, bytes_per_s: Amount) -> Amount:
    """How long that takes, in hours."""
    return np.asarray(size_bytes / bytes_per_s / 3600.0)


def locality(brought: Amount, weight: Amount) -> Amount:
    """What a transfer counts for beyond its price.

    A weight above 1 says that weights or data are used so often that keeping work near them saves
    more than this one transfer; one below 1, that the transfer matters less than it costs.
    """
    return np.asarray(brought * (weight - 1.0))


# --- promises --------------------------------------------------------------------------------


def expected_lateness_h(slack_h: Amount, slip_h: Amount) -> Amount:
    """Expected hours past the deadline of a run planned to end `slack_h` before it.

    The end slips by an exponential amount of mean `slip_h` (starts that wait, runs that overrun):
    E[max(0, slip - slack)] = slip * exp(-slack / slip), and slip - slack once it is late anyway.
    """
    slip = np.maximum(slip_h, _TINY_H)
    before = slip * np.exp(-np.maximum(slack_h, 0.0) / slip)
    return np.asarray(before + np.maximum(-slack_h, 0.0))


def late_penalty(lateness_h: Amount, per_hour: Amount, cap: Amount) -> Amount:
    """The penalty of a job that ends late, to its cap."""
    return np.asarray(np.minimum(lateness_h * per_hour, cap))


def violation_penalty(
    violated_share: Amount, per_minute: Amount, cap_per_day: Amount, hours: float
) -> Amount:
    """The penalty of a service that misses its target for a share of the time, to its daily cap."""
    per_day = np.minimum(violated_share * 24.0 * MINUTES_PER_HOUR * per_minute, cap_per_day)
    return np.asarray(per_day * hours / 24.0)


# --- moving and crowding ---------------------------------------------------------------------


def migration(lost_h: Amount, devices: Amount, price_per_device_hour: Amount) -> Amount:
    """Work done twice and devices held twice while something moves, beside its transfer."""
    return np.asarray(lost_h * devices * price_per_device_hour)


def congestion(device_hours: Amount, price_per_device_hour: Amount) -> Amount:
    """What it pays for being where others want to be; nobody receives it, so no bill shows it."""
    return np.asarray(device_hours * price_per_device_hour)
