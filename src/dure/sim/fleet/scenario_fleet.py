"""Clusters, networks and tenants of a scenario: from what the file says to the fleet model."""

import zlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dure.domain.errors import InputError
from dure.domain.fleet.catalogue import CATALOGUE, device_profile
from dure.domain.fleet.clusters import Cluster, ClusterClass, Fleet, NodeGroup, Tariff
from dure.domain.fleet.money import ExchangeRates
from dure.domain.fleet.profiles import DeviceProfile, LinkKind
from dure.domain.fleet.series import HOUR_NS, Series
from dure.domain.fleet.slices import ShareMode
from dure.domain.ids import ClusterId
from dure.domain.units import NS_PER_S
from dure.kit.files import FieldPath
from dure.kit.words import nearest
from dure.sim.documents import Source
from dure.sim.fleet import network, prices
from dure.sim.fleet.csv_files import MOST
from dure.sim.fleet.generators import Curve, curve
from dure.sim.fleet.scenario_file import (
    ClusterPart,
    GroupPart,
    ScenarioFile,
    SeriesPart,
    TariffPart,
)
from dure.sim.fleet.series_files import HourlyTable, Span, read_hourly

MOST_DEVICES = 1_000_000
"""Of one fleet: twenty times the largest the simulator was made for; each takes memory."""
_SPARE_HOURS = 48
"""Beyond the end of the run, for work that is planned past it."""


@dataclass(frozen=True, slots=True)
class DataFolder:
    """Where traces, prices and series are read; None: nowhere."""

    path: Path | None
    _tables: dict[Path, HourlyTable] = field(default_factory=dict, repr=False)
    _prices: dict[Path, prices.PriceLists] = field(default_factory=dict, repr=False)

    def file(self, name: str, source: Source, where: FieldPath) -> Path:
        """A file of the folder; a complaint at that place of the scenario if there is no folder."""
        if self.path is None:
            raise source.wrong(
                where, f"needs data ({name})", "run with --data DIR, the folder that holds it"
            )
        return self.path / name

    def hourly(self, path: Path) -> HourlyTable:
        """An hourly table, read once."""
        if path not in self._tables:
            self._tables[path] = read_hourly(path)
        return self._tables[path]

    def price_lists(self, folder: Path) -> prices.PriceLists:
        """Price lists, each read once."""
        return self._prices.setdefault(folder, prices.PriceLists(folder))


def known_profile(name: str, source: Source, where: FieldPath) -> DeviceProfile:
    """A profile by name; an unknown one is refused with the nearest there is."""
    if name.lower() not in CATALOGUE:
        raise source.wrong(where, f"'{name}' is not a known accelerator", nearest(name, CATALOGUE))
    return device_profile(name)


class FleetBuilder:
    """Makes the fleet of one scenario."""

    def __init__(self, source: Source, document: ScenarioFile, data: DataFolder) -> None:
        self._source = source
        self._file = document
        self._data = data
        self._span = Span(document.start, document.duration)
        self.rates = self._rates()

    def fleet(self) -> Fleet:
        """All clusters, and what lies between them."""
        names: set[str] = set()
        clusters = []
        for number, part in enumerate(self._file.clusters):
            where: FieldPath = ("clusters", number)
            if part.name in names:
                raise self._source.wrong(
                    (*where, "name"), f"'{part.name}' is already taken", "name clusters differently"
                )
            names.add(part.name)
            clusters.append(self._cluster(part, where))
        self._check_size()
        latency = self._file.network.latency
        for user, row in latency.users.items():
            for cluster in row:
                self.known_cluster(cluster, ("network", "latency", "users", user, cluster))
        return Fleet(
            clusters=tuple(clusters),
            rates=self.rates,
            egress_per_gb=self._egress(),
            egress_default_per_gb=self._file.network.egress.default,
            bytes_per_s=float(self._file.network.bandwidth),
            latency_ms={
                (user, cluster): ms
                for user, row in latency.users.items()
                for cluster, ms in row.items()
            },
            latency_default_ms=latency.default,
        )

    def _check_size(self) -> None:
        """Refuse what no memory would hold, at the group that is too much."""
        total = 0
        for number, part in enumerate(self._file.clusters):
            for index, group in enumerate(part.groups):
                total += group.nodes * group.devices
                if total > MOST_DEVICES:
                    raise self._source.wrong(
                        ("clusters", number, "groups", index, "nodes"),
                        f"makes {total:,} devices, more than can be simulated",
                        f"stay within {MOST_DEVICES:,} devices in all",
                    )

    def known_cluster(self, name: str, where: FieldPath) -> ClusterId:
        """A cluster by name; an unknown one is refused with the nearest there is."""
        names = [part.name for part in self._file.clusters]
        if name not in names:
            raise self._source.wrong(where, f"there is no cluster '{name}'", nearest(name, names))
        return ClusterId(name)

    def known_clusters(
        self, names: list[str] | None, where: FieldPath
    ) -> frozenset[ClusterId] | None:
        """Clusters by name; None stays None."""
        if names is None:
            return None
        return frozenset(
            self.known_cluster(name, (*where, number)) for number, name in enumerate(names)
        )

    # Money

    def _rates(self) -> ExchangeRates:
        for code, rate in self._file.rates.items():
            if rate <= 0:
                raise self._source.wrong(
                    ("rates", code), f"is {rate:g}", f"write what 1 {code} is worth, above 0"
                )
            if code == self._file.currency and rate != 1.0:
                raise self._source.wrong(
                    ("rates", code),
                    f"is {rate:g}, but {code} is the fleet's own currency",
                    "leave it out, it is worth 1",
                )
        return ExchangeRates(self._file.currency, self._file.rates)

    def _known_currency(self, code: str, where: FieldPath) -> str:
        try:
            self.rates.to_base(1.0, code)
        except InputError as error:
            known = sorted({self.rates.base, *self.rates.worth})
            near = nearest(code.upper(), known)
            raise self._source.wrong(
                where, error.what, f"add `{code}` to `rates`, or {near}"
            ) from error
        return code

    def _converted(self, amount: float, currency: str, target: str) -> float:
        return self.rates.to_base(amount, currency) / self.rates.to_base(1.0, target)

    # Clusters

    def _cluster(self, part: ClusterPart, where: FieldPath) -> Cluster:
        groups = tuple(
            self._group(group, (*where, "groups", number))
            for number, group in enumerate(part.groups)
        )
        names = [group.name for group in groups]
        for number, name in enumerate(names):
            if name in names[:number]:
                raise self._source.wrong(
                    (*where, "groups", number),
                    f"there is already a group '{name}'",
                    "give it a `name` of its own",
                )
        tariff = self._tariff(part, groups, (*where, "tariff"))
        electricity = self._series(part.electricity, "electricity", part.name, where)
        if part.electricity.zone is not None:
            factor = self._electricity_factor(tariff.currency)
            electricity = Series(
                electricity.values * factor, electricity.start_ns, electricity.step_ns
            )
        return Cluster(
            id=ClusterId(part.name),
            region=part.region,
            provider=part.provider,
            cluster_class=ClusterClass(part.cluster_class),
            groups=groups,
            tariff=tariff,
            carbon_g_per_kwh=self._series(part.carbon, "carbon", part.name, where),
            electricity_per_mwh=electricity,
            pue=part.pue,
        )

    def _group(self, part: GroupPart, where: FieldPath) -> NodeGroup:
        profile = known_profile(part.profile, self._source, (*where, "profile"))
        mode = ShareMode(part.mode)
        if mode not in profile.modes:
            raise self._source.wrong(
                (*where, "mode"),
                f"a {profile.name} cannot be divided by '{part.mode}'",
                f"use one of {', '.join(each.value for each in profile.modes)}",
            )
        domain = part.link_domain or _link_domain(profile, part)
        if domain > part.devices:
            raise self._source.wrong(
                (*where, "link_domain"),
                f"joins {domain} of {part.devices} devices",
                f"write at most {part.devices}",
            )
        return NodeGroup(
            name=part.name or profile.name,
            count=part.nodes,
            profile=profile.name,
            devices=part.devices,
            cpu_milli=round(part.cpu * 1000),
            host_memory_bytes=part.memory,
            link_domain=domain,
            numa_domains=part.numa_domains,
            base_power_w=part.base_power,
            mode=mode,
            boot_s=part.boot / NS_PER_S,
        )

    def _tariff(self, part: ClusterPart, groups: tuple[NodeGroup, ...], where: FieldPath) -> Tariff:
        tariff = part.tariff
        currency = self._known_currency(tariff.currency or self.rates.base, (*where, "currency"))
        device_hour = {}
        for name, price in tariff.device_hour.items():
            profile = known_profile(name, self._source, (*where, "device_hour", name))
            device_hour[profile.name] = price
        if tariff.price_list is not None:
            for group in groups:
                if group.profile not in device_hour:
                    price = self._listed(part, tariff, group, where)
                    device_hour[group.profile] = self._converted(price, prices.CURRENCY, currency)
        return Tariff(currency, device_hour, tuple(tariff.calendar))

    def _listed(
        self, part: ClusterPart, tariff: TariffPart, group: NodeGroup, where: FieldPath
    ) -> float:
        wanted = tariff.price_list
        assert wanted is not None
        where = (*where, "price_list")
        self._known_currency(prices.CURRENCY, where)
        folder = self._data.file(prices.FOLDER, self._source, where)
        try:
            return self._data.price_lists(folder).device_hour(
                wanted.provider or part.provider,
                wanted.region or part.region,
                group.profile,
                devices=group.devices,
                spot=wanted.spot,
            )
        except InputError as error:
            raise self._source.located(error, where) from error

    # Series

    def _series(self, part: SeriesPart, kind: str, cluster: str, where: FieldPath) -> Series:
        where = (*where, kind)
        given = [name for name in SeriesPart.model_fields if getattr(part, name) is not None]
        if len(given) != 1:
            raise self._source.wrong(
                where,
                f"says {' and '.join(given)}" if given else "is empty",
                "give a number, or exactly one of zone, generated",
            )
        if part.constant is not None:
            if kind == "carbon" and part.constant < 0:
                raise self._source.wrong(where, f"is {part.constant:g}", "write grams of 0 or more")
            return Series.constant(part.constant)
        if part.generated is not None:
            made = part.generated
            rng = np.random.default_rng([self._file.seed, zlib.crc32(f"{cluster}/{kind}".encode())])
            hours = -(-self._file.duration // HOUR_NS) + _SPARE_HOURS
            what = Curve(made.mean, made.shape, made.swing, made.noise, made.utc_offset)
            return curve(rng, what, hours=hours, start_ns=self._file.start)
        assert part.zone is not None
        name = getattr(self._file.tables, kind)
        path = self._data.file(name, self._source, (*where, "zone"))
        try:
            least = 0.0 if kind == "carbon" else -MOST
            return self._data.hourly(path).series(part.zone, self._span, least=least)
        except InputError as error:
            raise self._source.located(error, (*where, "zone")) from error

    def _electricity_factor(self, currency: str) -> float:
        listed = self._known_currency(
            self._file.tables.electricity_currency, ("tables", "electricity_currency")
        )
        return self._converted(1.0, listed, currency)

    # Network

    def _egress(self) -> dict[tuple[str, str], float]:
        part = self._file.network.egress
        found: dict[tuple[str, str], float] = {}
        for number, provider in enumerate(part.providers):
            found |= self._matrix(provider, ("network", "egress", "providers", number))
        written: set[tuple[str, str]] = set()
        for number, pair in enumerate(part.pairs):
            where: FieldPath = ("network", "egress", "pairs", number)
            source = self.known_cluster(pair.source, (*where, "from"))
            target = self.known_cluster(pair.target, (*where, "to"))
            if source == target:
                raise self._source.wrong(
                    (*where, "to"),
                    f"leads from '{source}' to itself",
                    "leave it out: inside a cluster nothing is paid",
                )
            if (source, target) in written:
                raise self._source.wrong(
                    where, f"'{source}' to '{target}' is given twice", "keep one of the two"
                )
            written.add((source, target))
            found[source, target] = pair.per_gb
        return found

    def _matrix(self, provider: str, where: FieldPath) -> dict[tuple[str, str], float]:
        members = [part for part in self._file.clusters if part.provider == provider]
        if not members:
            raise self._source.wrong(
                where,
                f"no cluster is of '{provider}'",
                nearest(provider, sorted({part.provider for part in self._file.clusters})),
            )
        self._data.file(network.FOLDER, self._source, where)
        assert self._data.path is not None
        try:
            matrix = network.read_egress(network.matrix_file(self._data.path, provider))
            return {
                (one.name, other.name): self._converted(
                    matrix.per_gb(one.region, other.region), network.CURRENCY, self.rates.base
                )
                for one in members
                for other in members
                if one is not other
            }
        except InputError as error:
            raise self._source.located(error, where) from error


def _link_domain(profile: DeviceProfile, part: GroupPart) -> int:
    """A fast link joins all devices of a node; PCIe those of one NUMA domain."""
    if profile.link.kind is LinkKind.PCIE:
        return max(1, part.devices // part.numa_domains)
    return part.devices
