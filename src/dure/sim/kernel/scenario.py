"""A scenario: a file that says which GPU, whose work and which modes, made ready to run.

Everything that can be wrong is found here, before anything runs, as one `InputError`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from dure.domain.accelerator import AcceleratorProfile
from dure.domain.catalogue import accelerator
from dure.domain.errors import InputError
from dure.domain.events import PolicyParameters
from dure.domain.risks import WeightsBy
from dure.domain.units import NS_PER_MS, format_duration
from dure.kernel.policies.registry import POLICIES, make_policy
from dure.kernel.resources import disjoint
from dure.kit.files import FieldPath
from dure.kit.words import nearest
from dure.sim.documents import Source
from dure.sim.kernel.load import TenantLoad
from dure.sim.kernel.modes import BASELINES, SWITCHING, Mode, Switch, baseline, managed, mode_names
from dure.sim.kernel.run import Setting
from dure.sim.kernel.scenario_checks import check_tenants
from dure.sim.kernel.scenario_file import ModePart, Parameters, ScenarioFile
from dure.sim.kernel.scenario_tenants import TenantBuilder

_PICTURE_NS = 20 * NS_PER_MS
_BEFORE_SWITCH_NS = 8 * NS_PER_MS
"""Of the picture's default window, what lies before the first switch of policy."""
_LONGEST_PICTURE_NS = 500 * NS_PER_MS


@dataclass(frozen=True, slots=True)
class Scenario:
    """What to run and compare."""

    title: str
    file: Path
    seed: int
    setting: Setting
    modes: tuple[Mode, ...]
    notes: tuple[str, ...] = ()
    """What a reader of the results should know."""


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the command line says instead of the file."""

    seed: int | None = None
    duration_ns: int | None = None
    modes: tuple[str, ...] = ()


def read_scenario(path: Path, overrides: Overrides | None = None) -> Scenario:
    """Read and check a scenario file; raises `InputError` for whatever cannot be run."""
    overrides = overrides or Overrides()
    source = Source.read(path)
    document = source.parse(ScenarioFile)
    changes = {"seed": overrides.seed, "duration": overrides.duration_ns}
    document = document.model_copy(
        update={name: value for name, value in changes.items() if value is not None}
    )
    return _Reader(source, document).scenario(overrides.modes)


class _Reader:
    """Turns one file into a scenario."""

    def __init__(self, source: Source, document: ScenarioFile) -> None:
        self._source = source
        self._file = document

    def scenario(self, wanted: tuple[str, ...]) -> Scenario:
        gpu = self._gpu()
        builder = TenantBuilder(self._source, self._file, gpu)
        loads = tuple(builder.load(number) for number in range(len(self._file.tenants)))
        check_tenants(self._source, gpu, loads)
        modes = self._modes(wanted)
        self._check_partition(gpu, loads, modes)
        setting = Setting(
            gpu,
            loads,
            self._file.duration,
            self._file.drain,
            picture_ns=self._picture(modes),
        )
        return Scenario(
            title=self._file.title or self._source.yaml.path.stem,
            file=self._source.yaml.path,
            seed=self._file.seed,
            setting=setting,
            modes=modes,
            notes=tuple(builder.notes),
        )

    def _gpu(self) -> AcceleratorProfile:
        wanted = self._file.gpu
        try:
            known = accelerator(wanted.name)
        except InputError as error:
            raise self._source.located(error, ("gpu",)) from error
        sms = known.sms if wanted.sms is None else wanted.sms
        memory = known.memory_bytes if wanted.memory is None else wanted.memory
        bandwidth = known.bandwidth_bytes_per_s if wanted.bandwidth is None else wanted.bandwidth
        for field, value, least in (
            ("sms", sms, known.sm_minimum),
            ("memory", memory, 1),
            ("bandwidth", bandwidth, 1),
        ):
            if value < least:
                raise self._source.wrong(
                    ("gpu", field), f"{value:g} is too little", f"write at least {least}"
                )
        return replace(known, sms=sms, memory_bytes=memory, bandwidth_bytes_per_s=float(bandwidth))

    # Modes

    def _modes(self, wanted: tuple[str, ...]) -> tuple[Mode, ...]:
        """The rows: as asked on the command line, as the file says, else everything."""
        switches = self._switches()
        listed = self._file.modes
        if listed is None:
            names = [*BASELINES, *POLICIES, *([SWITCHING] if switches else [])]
            modes = [self._mode(ModePart(mode=name), ("modes",), switches) for name in names]
        else:
            modes = [
                self._mode(part, ("modes", number), switches) for number, part in enumerate(listed)
            ]
            self._refuse_doubles(modes)
            if switches and not any(mode.switches for mode in modes):
                raise self._source.wrong(
                    ("switches",), "no mode makes use of them", f"add `{SWITCHING}` to `modes`"
                )
        return self._chosen(modes, wanted, switches)

    def _chosen(
        self, modes: list[Mode], wanted: tuple[str, ...], switches: tuple[Switch, ...]
    ) -> tuple[Mode, ...]:
        """Of the file's modes, and of those everybody has, the ones asked for by name."""
        if not wanted:
            return tuple(modes)
        known = {mode.name: mode for mode in modes}
        chosen = []
        for name in dict.fromkeys(wanted):
            if name in known:
                chosen.append(known[name])
            elif name in mode_names():
                chosen.append(self._mode(ModePart(mode=name), ("modes",), switches))
            else:
                names = dict.fromkeys((*known, *mode_names()))
                raise InputError(f"'{name}' is not a mode", nearest(name, names), field="--modes")
        return tuple(chosen)

    def _mode(self, part: ModePart, where: FieldPath, switches: tuple[Switch, ...]) -> Mode:
        side_by_side = self._file.sharing == "mps"
        if part.name in mode_names() and part.name != part.mode:
            raise self._source.wrong(
                (*where, "name"), f"'{part.name}' is another mode's name", "choose a new one"
            )
        if part.mode in BASELINES:
            if part.parameters or part.name or part.weights:
                raise self._source.wrong(
                    where, f"'{part.mode}' takes no name or parameters", "write its name alone"
                )
            return baseline(part.mode)
        if part.mode in POLICIES:
            mode = managed(
                part.mode,
                side_by_side=side_by_side,
                parameters=self._parameters(part.mode, part.parameters, where),
                name=part.name or "",
            )
            return replace(mode, weights=_weights(part))
        if part.mode != SWITCHING:
            raise self._source.wrong(
                where, f"'{part.mode}' is not a mode", nearest(part.mode, mode_names())
            )
        if not switches:
            raise self._source.wrong(
                where, "there are no policy switches", "add `switches` or leave out this mode"
            )
        start = self._parameters(self._file.policy, self._file.parameters, (), "policy")
        mode = managed(
            self._file.policy,
            side_by_side=side_by_side,
            parameters=start,
            name=part.name or SWITCHING,
        )
        return replace(mode, switches=switches, weights=_weights(part))

    def _parameters(
        self, policy: str, parameters: Parameters, where: FieldPath, key: str = "parameters"
    ) -> PolicyParameters:
        values = tuple(sorted(parameters.items()))
        try:
            make_policy(policy, values)
        except InputError as error:
            field = key if policy not in POLICIES else "parameters"
            raise self._source.located(error, (*where, field)) from error
        return values

    def _refuse_doubles(self, modes: Iterable[Mode]) -> None:
        seen: set[str] = set()
        for number, mode in enumerate(modes):
            if mode.name in seen:
                raise self._source.wrong(
                    ("modes", number),
                    f"'{mode.name}' is there twice",
                    "remove one or give it a `name` of its own",
                )
            seen.add(mode.name)

    def _switches(self) -> tuple[Switch, ...]:
        found: list[Switch] = []
        for number, part in enumerate(self._file.switches):
            where: FieldPath = ("switches", number)
            if found and part.at <= found[-1].at_ns:
                before, now = format_duration(found[-1].at_ns), format_duration(part.at)
                what = (
                    f"there is already a switch at {now}"
                    if part.at == found[-1].at_ns
                    else f"goes back in time, from {before} to {now}"
                )
                raise self._source.wrong(
                    (*where, "at"), what, "list switches in order, each at a time of its own"
                )
            if part.at >= self._file.duration:
                raise self._source.wrong(
                    (*where, "at"),
                    f"{format_duration(part.at)} lies beyond the run's duration of "
                    f"{format_duration(self._file.duration)}",
                    "switch earlier or lengthen `duration`",
                )
            parameters = self._parameters(part.policy, part.parameters, where, "policy")
            found.append(Switch(part.at, part.policy, parameters))
        return tuple(found)

    def _check_partition(
        self, gpu: AcceleratorProfile, loads: tuple[TenantLoad, ...], modes: tuple[Mode, ...]
    ) -> None:
        """Refuse fixed parts for more tenants than the GPU can be split among."""
        if not any(mode.name == "static-partition" for mode in modes):
            return
        try:
            disjoint(gpu, tuple(load.tenant.weight for load in loads))
        except InputError as error:
            remedy = f"{error.remedy}, or choose `modes` without 'static-partition'"
            where: FieldPath = ("modes",) if self._file.modes else ("tenants",)
            raise self._source.wrong(where, error.what, remedy) from error

    # The picture

    def _picture(self, modes: tuple[Mode, ...]) -> tuple[int, int]:
        """The window of the timeline: as asked, around the first switch, or in the middle."""
        duration, asked = self._file.duration, self._file.picture
        if asked is None:
            switches = [switch.at_ns for mode in modes for switch in mode.switches]
            start = min(switches) - _BEFORE_SWITCH_NS if switches else (duration - _PICTURE_NS) // 2
            start = max(0, start)
            return start, min(start + _PICTURE_NS, duration)
        if asked.end <= asked.start:
            raise self._source.wrong(
                ("picture", "to"), "is not after `from`", "let the window end after it begins"
            )
        if asked.end > duration:
            raise self._source.wrong(
                ("picture", "to"),
                f"lies beyond the run's duration of {format_duration(duration)}",
                "choose a window inside the run",
            )
        if asked.end - asked.start > _LONGEST_PICTURE_NS:
            raise self._source.wrong(
                ("picture",),
                f"is {format_duration(asked.end - asked.start)} long",
                f"show at most {format_duration(_LONGEST_PICTURE_NS)}",
            )
        return asked.start, asked.end


def _weights(part: ModePart) -> WeightsBy:
    return WeightsBy(part.weights) if part.weights else WeightsBy.FORESEEN
