"""The stage: a centre, three clusters of this machine's processes, an emulated GPU in each."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dure.api.clusters import ClusterKind, ClusterSpec, Hourly, TariffSpec
from dure.api.tenancy import TenantSpec
from dure.client.api import AgentClient, find_agent
from dure.client.fleet import Context, FleetClient, calls
from dure.demo.processes import DemoError, Troupe
from dure.demo.story import Level, Story
from dure.devices import library
from dure.domain.errors import DureError
from dure.domain.units import MIB, format_bytes

PROFILE = "h200"
"""What the emulator stands in for."""
TENANT = "demo"
UP_S = 120.0
"""For a part to come up; a few seconds on a quiet machine that has compiled already."""
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Requests to end."""
_LONGEST_FOLDER = 60
"""Paths of sockets have a limit."""
_ROOM_BYTES = 100 * MIB
"""Several times what a demo writes into its folder."""
_SERVER_SETTINGS = "move-scan-s: 2\nmeasure-s: 2\n"


@dataclass(frozen=True, slots=True)
class Town:
    """A cluster of the demo."""

    name: str
    region: str
    price: float
    """Of a device for an hour."""
    carbon: float
    policy: str
    adapt: str


TOWNS = (
    Town("seoul", "ap-northeast-2", 2.1, 420.0, "jct", "auto"),
    Town("oregon", "us-west-2", 2.6, 260.0, "slo", "off"),
    Town("frankfurt", "eu-central-1", 3.4, 340.0, "slo", "off"),
)
HOME = TOWNS[0]
"""The cheapest: where everything goes as long as nobody says otherwise."""


def spec_of(town: Town, factor: float = 1.0) -> ClusterSpec:
    """What the operator says of a cluster; `factor` on its price."""
    return ClusterSpec(
        kind=ClusterKind.PROCESS,
        region=town.region,
        provider="emulated",
        tariff=TariffSpec(device_hour={PROFILE: round(town.price * factor, 4)}),
        carbon=Hourly(constant=town.carbon),
    )


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(slots=True)
class Stage:
    """Everything that was started, and the ways to ask it."""

    folder: Path
    story: Story
    troupe: Troupe
    fleet: FleetClient | None = None
    agents: dict[str, AgentClient] = field(default_factory=dict)
    pages: list[tuple[str, str]] = field(default_factory=list)
    """Addresses for a browser, with what they show."""
    _rest: str = ""
    _grpc: str = ""

    @property
    def centre(self) -> FleetClient:
        """The centre's client."""
        assert self.fleet is not None
        return self.fleet

    def raise_curtain(self) -> None:
        """Start centre, GPUs, dashboard and the first cluster.

        On a new machine centre and cluster compile their loops now, each its own; others find
        them on disk.
        """
        self._start_server()
        self._start_agents()
        self._open_dashboard()
        self.centre.do(calls.put_tenant(TENANT, TenantSpec(), calls.CREATE))
        self._join(HOME)
        for town in TOWNS:
            self._meet(town)
        self._until(f"{HOME.name} to join", lambda: self._joined() >= 1)

    def join_others(self) -> None:
        """Start the other clusters."""
        for town in TOWNS:
            if town is not HOME:
                self._join(town)
        self._until("three clusters to join", lambda: self._joined() == len(TOWNS))

    # One part after another

    def _start_agents(self) -> None:
        for town in TOWNS:
            emulator = self.folder / town.name / "gpu"
            emulator.mkdir(parents=True)
            port = free_port()
            self.troupe.start(
                f"agent-{town.name}",
                *("agent", "--policy", town.policy, "--adapt", town.adapt),
                *("--http", f"127.0.0.1:{port}", "--run-dir", str(self.run_dir(town))),
                env=self._emulated(town),
            )
            if town is not HOME:
                self.pages.append((f"GPU of {town.name}", f"http://127.0.0.1:{port}/ui/"))

    def _start_server(self) -> None:
        self._rest, self._grpc = (f"127.0.0.1:{free_port()}" for _ in range(2))
        config = self.folder / "server.yaml"
        config.write_text(_SERVER_SETTINGS, encoding="utf-8")
        data = self.folder / "server"
        self.troupe.start(
            "server",
            *("server", "--data", str(data), "--config", str(config)),
            *("--listen", self._rest, "--grpc", self._grpc),
        )
        token = data / "admin-token"
        self._until("the centre's first token", lambda: token.exists() and bool(token.read_text()))
        self.fleet = FleetClient(Context((f"http://{self._rest}",), token.read_text().strip()))
        self._until("the centre to answer", self._answers)

    def _open_dashboard(self) -> None:
        centre = {"DURE_SERVER": f"http://{self._rest}", "DURE_TOKEN": self.centre.context.token}
        run_dir = str(self.run_dir(HOME))
        self.troupe.start("dashboard", "dashboard", "--run-dir", run_dir, env=centre)
        self._until("the dashboard", lambda: bool(self._door()))
        self.pages.insert(0, (f"all levels: centre, GPU of {HOME.name}", self._door()))
        for what, url in self.pages:
            self.story.tell(Level.DEMO, url, what)

    def _door(self) -> str:
        with contextlib.suppress(OSError):
            said = self.troupe.log("dashboard").read_text(encoding="utf-8")
            found = re.search(r"http://\S+", said)
            return found.group() if found else ""
        return ""

    def _join(self, town: Town) -> None:
        home = self.folder / town.name
        self.centre.do(calls.put_cluster(town.name, spec_of(town), calls.CREATE))
        secret = self.centre.do(calls.issue_member_token(town.name)).secret
        token, nodes = home / "token", home / "nodes.yaml"
        token.touch(mode=0o600)
        token.write_text(secret, encoding="utf-8")
        node = {
            "name": f"{town.name}-1",
            "profile": PROFILE,
            "devices": 1,
            "mode": "mps",
            "cpu": 16,
            "memory": "64GiB",
            "run_dir": str(self.run_dir(town)),
            "emulator_dir": str(home / "gpu"),
        }
        nodes.write_text(json.dumps({"nodes": [node]}), encoding="utf-8")
        self.troupe.start(
            f"member-{town.name}",
            *("member", "--kind", "process", "--cluster", town.name),
            *("--server", f"http://{self._grpc}", "--token-file", str(token)),
            *("--nodes", str(nodes), "--state", str(home / "state")),
        )

    def _meet(self, town: Town) -> None:
        def met() -> bool:
            with contextlib.suppress(DureError):
                self.agents[town.name] = find_agent(self.run_dir(town))
                return True
            return False

        self._until(f"the agent of {town.name}", met)

    def _joined(self) -> int:
        page = self.centre.do(calls.list_clusters())
        return sum(each.connected and each.devices > 0 for each in page.items)

    def _answers(self) -> bool:
        with contextlib.suppress(DureError):
            self.centre.do(calls.who_am_i())
            return True
        return False

    def _until(self, what: str, check: Callable[[], bool]) -> None:
        def look() -> bool:
            self.troupe.refuse_dead()
            return check()

        self.story.until(what, look, UP_S)

    def run_dir(self, town: Town) -> Path:
        """Of the agent of a cluster."""
        return self.folder / town.name / "run"

    def _emulated(self, town: Town) -> dict[str, str]:
        return {
            "DURE_EMULATOR_DIR": str(self.folder / town.name / "gpu"),
            "LD_LIBRARY_PATH": str(library.FOLDER / "emulator"),
        }

    def close(self) -> None:
        """Close what is asked by; processes are the troupe's."""
        for agent in self.agents.values():
            agent.close()
        if self.fleet is not None:
            self.fleet.close()


def _short_folder() -> Path:
    """A folder of this run alone, with a short name where the usual place has a long one."""
    made = Path(tempfile.mkdtemp(prefix="dure-demo-"))
    if len(str(made)) <= _LONGEST_FOLDER:
        return made
    made.rmdir()
    return Path(tempfile.mkdtemp(prefix="dure-demo-", dir="/tmp"))


@contextmanager
def stage(story: Story) -> Iterator[Stage]:
    """An empty stage; at its end nothing of it is left: no process, no socket, no folder."""
    refuse_incomplete()
    folder = _short_folder()
    try:
        refuse_full(folder)
    except DemoError:
        folder.rmdir()
        raise
    # A demo of its own: what the user's shell says of other agents and centres is not for it.
    env = {name: value for name, value in os.environ.items() if not name.startswith("DURE_")}
    env.pop("LD_PRELOAD", None)
    if env.pop("PYTHONDONTWRITEBYTECODE", ""):
        # A dozen processes would each compile the same modules; here they leave no trace either.
        env["PYTHONPYCACHEPREFIX"] = str(folder / "modules")
    made = Stage(folder, story, Troupe(folder, env))
    try:
        yield made
    finally:
        for each in ENDS:
            signal.signal(each, signal.SIG_IGN)  # who asks twice must not cut this short
        made.close()
        made.troupe.end()
        shutil.rmtree(folder, ignore_errors=True)


def refuse_full(folder: Path) -> None:
    """Without room for logs and databases every part would end, each in its own way."""
    free = shutil.disk_usage(folder).free
    if free < _ROOM_BYTES:
        raise DemoError(
            f"there is room for {format_bytes(free)} in {folder.parent}, and the demo needs "
            f"{format_bytes(_ROOM_BYTES)}",
            "make room there, or name another folder in TMPDIR",
        )


def refuse_incomplete() -> None:
    """The programs on the emulator are compiled; say what to do where they are not."""
    for name in ("dure-tenant", "libdure.so", "emulator/libcuda.so.1", "emulator/dure-broker"):
        if not (library.FOLDER / name).is_file():
            raise DemoError(
                "the parts in C are not there, among them the emulated GPU",
                "install gcc, then install Dure again (in a clone: `make native`)",
            )
