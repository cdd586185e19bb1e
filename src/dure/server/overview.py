"""Every cluster at a glance: what a device-hour costs and emits now, what is held and free."""

from collections.abc import Mapping, Sequence

from dure.api.base import maybe_moment, moment_text
from dure.api.clusters import ClusterKind
from dure.api.overview import AcceleratorPlace, ClusterPlace, OverviewDocument
from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.clusters import Cluster
from dure.domain.fleet.decisions import SiteSummary
from dure.domain.fleet.lifecycle import AttemptState, JobPhase
from dure.domain.fleet.money import ExchangeRates
from dure.domain.units import NS_PER_S
from dure.server import specs
from dure.server.auth import Caller
from dure.server.declared import Declared, Member, read_declared
from dure.stores.transaction import Transaction

_W_PER_KW = 1000.0
_KWH_PER_MWH = 1000.0
_MILLI = 1000
_DIGITS = 6


async def read_overview(tx: Transaction, caller: Caller, lost_after_s: float) -> OverviewDocument:
    """The fleet as an asker may see it."""
    declared = await read_declared(tx)
    prices = {row.site: row.per_device_hour for row in await tx.prices.all()}
    running: dict[str, int] | None = None
    if caller.tenant is None:
        running = {
            cluster: count
            for (cluster, state), count in (await tx.attempts.counts()).items()
            if state is AttemptState.RUNNING
        }
    phases = await tx.jobs.counts(caller.root) if caller.whole_tenant else {}
    heard_since_ns = await tx.database_now_ns() - round(lost_after_s * NS_PER_S)
    glance = _Glance(declared, prices, running, tx.now_ns, heard_since_ns)
    return OverviewDocument(
        at=moment_text(tx.now_ns),
        currency=declared.fleet.rates.base,
        policy=specs.fleet_spec(await tx.policies.all()).policy,
        jobs={phase.value: phases.get(phase, 0) for phase in JobPhase if phases.get(phase, 0)},
        clusters=[glance.cluster(declared.members[name]) for name in sorted(declared.members)],
    )


class _Glance:
    """What all clusters are looked at with."""

    def __init__(
        self,
        declared: Declared,
        prices: Mapping[str, float],
        running: Mapping[str, int] | None,
        now_ns: int,
        heard_since_ns: int,
    ) -> None:
        self._rates = declared.fleet.rates
        self._prices = prices
        self._running = running
        self._now_ns = now_ns
        self._heard_since_ns = heard_since_ns

    def cluster(self, member: Member) -> ClusterPlace:
        """One of them."""
        row, sites, cluster = member.row, member.heard.sites, member.cluster
        spec = specs.cluster_spec(row)
        kinds = [] if cluster is None else _accelerators(cluster, sites, self._rates, self._now_ns)
        devices = sum(each.devices for each in sites)
        last = row.last_contact_ns
        congestion = [self._prices.get(str(each.site), 0.0) for each in sites]
        return ClusterPlace(
            name=row.name,
            region=spec.region,
            provider=spec.provider,
            cluster_class=spec.cluster_class,
            kind=ClusterKind(row.kind),
            state=row.state,
            connected=last is not None and last >= self._heard_since_ns,
            last_contact_at=maybe_moment(last),
            devices=devices,
            free_devices=sum(each.free_devices for each in sites),
            waiting_devices=sum(each.waiting_devices for each in sites),
            utilisation=_utilisation(sites),
            fragmentation=_fragmentation(sites),
            price=_mean([(each.price, each.devices) for each in kinds]),
            congestion=round(sum(congestion) / len(congestion), _DIGITS) if congestion else 0.0,
            carbon=0.0 if cluster is None else cluster.carbon_g_per_kwh.at(self._now_ns),
            electricity=0.0 if cluster is None else cluster.electricity_per_mwh.at(self._now_ns),
            running=None if self._running is None else self._running.get(row.name, 0),
            accelerators=kinds,
        )


def _accelerators(
    cluster: Cluster, sites: Sequence[SiteSummary], rates: ExchangeRates, now_ns: int
) -> list[AcceleratorPlace]:
    found = []
    for name in sorted({each.profile for each in sites}):
        here = [each for each in sites if each.profile == name]
        rent = cluster.tariff.device_hour.get(name)
        kwh = device_profile(name).power_w(1.0) / _W_PER_KW * cluster.pue
        cost = (
            kwh * cluster.electricity_per_mwh.at(now_ns) / _KWH_PER_MWH
            if rent is None
            else rent * cluster.tariff.factor(now_ns)
        )
        found.append(
            AcceleratorPlace(
                profile=name,
                devices=sum(each.devices for each in here),
                free_devices=sum(each.free_devices for each in here),
                owned=rent is None,
                price=round(rates.to_base(cost, cluster.tariff.currency), _DIGITS),
                g_co2=round(kwh * cluster.carbon_g_per_kwh.at(now_ns), _DIGITS),
            )
        )
    return found


def _utilisation(sites: Sequence[SiteSummary]) -> float | None:
    devices = sum(each.devices for each in sites)
    if not devices:
        return None
    free_milli = sum(each.free_compute_milli for each in sites)
    return round(min(1.0, max(0.0, 1.0 - free_milli / (devices * _MILLI))), _DIGITS)


def _fragmentation(sites: Sequence[SiteSummary]) -> float | None:
    """By free capacity; 0 where nothing is free."""
    if not sites:
        return None
    free_milli = sum(each.free_compute_milli for each in sites)
    if not free_milli:
        return 0.0
    lost = sum(each.fragmentation * each.free_compute_milli for each in sites)
    return round(lost / free_milli, _DIGITS)


def _mean(weighed: Sequence[tuple[float, int]]) -> float | None:
    devices = sum(count for _, count in weighed)
    if not devices:
        return None
    return round(sum(value * count for value, count in weighed) / devices, _DIGITS)
