"""The same three levels in virtual time, beside what people use today: `dure sim`, and tables."""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from dure.demo.processes import DemoError, Troupe
from dure.domain.errors import InputError

SCENARIOS = {
    "kernel": Path(__file__).with_name("kernel.yaml"),
    "node": Path(__file__).with_name("node.yaml"),
    "fleet": Path(__file__).with_name("fleet.yaml"),
}
_NICENESS = 5
"""What is shown live goes first."""
_LOOK_S = 0.2
_DOCKER_S = 5
_DOCKER_ROWS = ("plain", "dure-docker")
_MINE = frozenset({"jct", "slo", "hybrid", "dure", "dure-docker"})


@dataclass(frozen=True, slots=True)
class Sheet:
    """One table: modes below one another, ours after what is used today."""

    title: str
    columns: tuple[str, ...]
    """The first names the rows."""
    rows: tuple[tuple[str, ...], ...]

    def is_ours(self, row: Sequence[str]) -> bool:
        """Whether a row is one of Dure's own."""
        return row[0] in _MINE


@dataclass(slots=True)
class Baselines:
    """Runs the simulations one after another beside the story."""

    troupe: Troupe
    seed: int
    docker: bool = False
    """Whether containers are real, on an emulated GPU, instead of simulated."""
    found: dict[str, dict[str, Any]] = field(default_factory=dict)
    trouble: str = ""
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> "Baselines":
        self._thread = threading.Thread(target=self._run, name="baselines", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_LOOK_S + 5.0)

    def has(self, level: str) -> bool:
        """Whether a level is simulated; raises where it cannot be."""
        if self.trouble:
            raise DemoError(self.trouble)
        return level in self.found

    def sheets(self) -> tuple[Sheet, ...]:
        """Every table."""
        made = _SHEETS | ({"node": _docker_sheet} if self.docker else {})
        return tuple(made[level](self.found[level]) for level in SCENARIOS)

    def containers(self) -> tuple[str, str]:
        """What became of containers that share a GPU, and how that is known."""
        found = self.found["node"]
        if self.docker:
            plain, ours = (_only(found, row) for row in _DOCKER_ROWS)
            return (
                f"{ours['count']} containers share a GPU (real Docker, emulated GPU)",
                f"all at once they are done after {_mean_s(plain):.1f} s on average, queued by "
                f"Dure after {_mean_s(ours):.1f} s",
            )
        plain, *_, ours = found["modes"]
        count = len(ours["containers"])
        return (
            f"{count} containers share a GPU (simulated, virtual time)",
            f"all at once {plain['failed']} of them die of out-of-memory; queued by Dure "
            f"{count - ours['failed'] - ours['unfinished']} of {count} are done after "
            f"{ours['makespan_s']:.0f} s",
        )

    def _command(self, level: str) -> tuple[str, ...]:
        if level == "node" and self.docker:
            kept = str(self.troupe.folder / "containers")
            rows = ("--set", "mixed", "--rows", ",".join(_DOCKER_ROWS), "--repeats", "1")
            return ("bench", "node", "--emulated", *rows, "--out", kept, "--json")
        return ("sim", level, str(SCENARIOS[level]), "--json", "--seed", str(self.seed))

    def _run(self) -> None:
        for level in SCENARIOS:
            command, out = self._command(level), self.troupe.folder / f"{level}.json"
            name = f"{command[0]} {command[1]}"
            self.troupe.start(name, *command, out=out, nice=_NICENESS)
            while self.troupe.exit_code(name) is None:
                if self._stop.wait(_LOOK_S):
                    return
            if self.troupe.exit_code(name):
                self.trouble = f"`dure {name}` failed: {self.troupe.words(name)}"
                return
            self.found[level] = json.loads(out.read_text(encoding="utf-8"))


def _rows(
    found: Mapping[str, Any], cells: Callable[[Mapping[str, Any]], tuple[str, ...]]
) -> tuple[tuple[str, ...], ...]:
    return tuple((str(mode["mode"]), *cells(mode)) for mode in found["modes"])


def _kernel_sheet(found: Mapping[str, Any]) -> Sheet:
    def cells(mode: Mapping[str, Any]) -> tuple[str, ...]:
        chat, *others = mode["tenants"]
        rates = (f"{each['throughput_per_s']:.1f}" for each in others)
        on_time = chat["slo_attainment"]
        return f"{on_time:.1%}", f"{chat['p95_ms']:,.0f}", *rates, f"{mode['objective']:.2f}"

    names = [each["name"] for each in found["alone"]][1:]
    columns = ("mode", "chat on time", "chat p95 ms", *(f"{each}/s" for each in names), "objective")
    return Sheet(f"GPU: {found['title']}", columns, _rows(found, cells))


def _node_sheet(found: Mapping[str, Any]) -> Sheet:
    def cells(mode: Mapping[str, Any]) -> tuple[str, ...]:
        count = len(mode["containers"])
        done = f"{count - mode['failed'] - mode['unfinished']} of {count}"
        return (
            done,
            str(mode["out_of_memory"]),
            f"{mode['mean_s']:.1f}",
            f"{mode['makespan_s']:.1f}",
        )

    columns = ("mode", "done", "out of memory", "mean s", "last s")
    return Sheet(f"host: {found['title']}", columns, _rows(found, cells))


def _docker_sheet(found: Mapping[str, Any]) -> Sheet:
    rows = []
    for name in _DOCKER_ROWS:
        row = _only(found, name)
        last = f"{row['makespan_s']['value']:.1f}"
        rows.append((name, str(row["count"]), f"{_mean_s(row):.1f}", last))
    title = "host: unlike containers, real Docker on an emulated GPU (not simulated)"
    return Sheet(title, ("mode", "containers", "mean s", "last s"), tuple(rows))


def _only(found: Mapping[str, Any], row: str) -> Mapping[str, Any]:
    (measured,) = found["sets"]
    return cast(Mapping[str, Any], measured["rows"][row][-1])


def _mean_s(row: Mapping[str, Any]) -> float:
    return float(row["mean_s"]["value"])


def _fleet_sheet(found: Mapping[str, Any]) -> Sheet:
    def cells(mode: Mapping[str, Any]) -> tuple[str, ...]:
        jobs = mode["jobs"]
        return (
            f"{mode['money']['total']:,.0f}",
            f"{mode['kg_co2']:.0f}",
            f"{mode['services']['within_target_share']:.1%}",
            f"{jobs['on_time_share']:.0%}",
            f"{jobs['mean_completion_s'] / 3600:.1f}",
        )

    currency = found["currency"]
    columns = ("mode", currency, "kg CO2", "services in time", "deadlines kept", "mean job h")
    return Sheet(f"fleet: {found['title']}", columns, _rows(found, cells))


def refuse_no_docker() -> None:
    """Say so where no Docker answers, before anything is started."""
    import docker  # noqa: PLC0415, only who asks for it needs it

    try:
        client = docker.from_env(timeout=_DOCKER_S)
        client.ping()
        client.close()
    except docker.errors.DockerException as error:
        raise InputError(
            "no Docker answers here",
            "start it, add your rights to it, or leave the option out: containers are simulated",
            field="--docker",
        ) from error


_SHEETS: dict[str, Callable[[Mapping[str, Any]], Sheet]] = {
    "kernel": _kernel_sheet,
    "node": _node_sheet,
    "fleet": _fleet_sheet,
}
