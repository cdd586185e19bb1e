"""VictoriaMetrics and Prometheus on loopback, the tests' own: started, killed, started again."""

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

import httpx

from tests.kube.ports import free_port
from tests.kube.programs import Program, wait_until
from tests.stores.services import LIMIT_S, find_program

_PROMETHEUS = """
global:
  scrape_interval: 1h
storage:
  tsdb:
    out_of_order_time_window: 0s
"""


class SeriesServer:
    """One server of series in a folder of its own."""

    def __init__(self, name: str) -> None:
        self.name = name
        program = find_program(name)
        self.folder = Path(tempfile.mkdtemp(prefix=f"dure-{name}-"))
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        arguments = self._prometheus() if name == "prometheus" else self._victoria()
        self.program = Program(name, [program, *arguments], self.folder)

    def _victoria(self) -> list[str]:
        return [
            f"-httpListenAddr=127.0.0.1:{self.port}",
            f"-storageDataPath={self.folder / 'data'}",
            "-search.latencyOffset=0s",
            "-retentionPeriod=10y",
        ]

    def _prometheus(self) -> list[str]:
        config = self.folder / "prometheus.yml"
        config.write_text(_PROMETHEUS, encoding="utf-8")
        return [
            f"--config.file={config}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--web.enable-remote-write-receiver",
        ]

    def start(self) -> None:
        """Start it where it does not run, and wait until it answers."""
        self.program.start()
        wait_until(f"{self.name} answers", self._ready, LIMIT_S)

    def _ready(self) -> bool:
        assert self.program.runs, self.program.log()[-3000:]
        try:
            return httpx.get(f"{self.url}/-/ready", timeout=2.0).status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False

    def settle(self) -> None:
        """Let what was pushed be found at once: VictoriaMetrics shows it after a second or so."""
        if self.name == "victoria-metrics":
            httpx.get(f"{self.url}/internal/force_flush", timeout=10.0).raise_for_status()

    def kill(self) -> None:
        """End it at once."""
        self.program.kill()

    def close(self) -> None:
        """End it, and leave nothing behind."""
        self.program.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


@functools.cache
def shared_server(name: str) -> SeriesServer:
    """The one server of that name of this process; gone when it ends."""
    server = SeriesServer(name)
    atexit.register(server.close)
    return server
