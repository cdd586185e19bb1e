"""Finds the programs of a control plane, and keeps them running: one that dies is started again."""

import asyncio
import ctypes
import logging
import os
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dure.domain.errors import InputError
from dure.kit.backoff import Backoff

_log = logging.getLogger("dure.virtual")

NAMES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
ASSETS = "KUBEBUILDER_ASSETS"
_SET_DEATH_SIGNAL = 1  # of prctl(2)
_LIBC = ctypes.CDLL(None)
_END_S = 10.0
"""For a program to end by itself."""
_STEADY_S = 30.0
"""A life that lasted so long was a good one: the next begins at once."""
_MOST_LOG_BYTES = 32 * 1024 * 1024


def find_programs(
    folder: Path | None = None, environment: Mapping[str, str] = os.environ
) -> dict[str, Path]:
    """Each program by name: in the folder, KUBEBUILDER_ASSETS, PATH, or where Dure builds them."""
    found = {name: _find(name, folder, environment) for name in NAMES}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        raise InputError(
            f"{', '.join(missing)} is not found",
            f"name its folder with --programs or {ASSETS}, or build it with tools/build_kube",
        )
    return {name: path for name, path in found.items() if path is not None}


def _find(name: str, folder: Path | None, environment: Mapping[str, str]) -> Path | None:
    if folder is not None:
        candidates = [folder / name]
    else:
        assets, on_path = environment.get(ASSETS, ""), shutil.which(name)
        candidates = [Path(assets) / name] if assets else []
        candidates += [Path(on_path)] if on_path else []
        candidates += sorted(_cache(environment).glob(f"*/{name}"), reverse=True)
    return next((each for each in candidates if os.access(each, os.X_OK)), None)


def _cache(environment: Mapping[str, str]) -> Path:
    """Where `tools/build_kube` puts them."""
    home = environment.get("XDG_CACHE_HOME", "") or f"{environment.get('HOME', '/')}/.cache"
    return Path(environment.get("DURE_CACHE", "") or f"{home}/dure") / "kube"


class Program:
    """One program of a control plane, in as many lives as it takes."""

    def __init__(self, name: str, command: Sequence[str], folder: Path) -> None:
        self.name = name
        self.command = command
        self.log_file = folder / f"{name}.log"
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None
        self.deaths = 0

    @property
    def runs(self) -> bool:
        """Whether its process is there."""
        return self._process is not None and self._process.returncode is None

    async def run(self, died: Callable[[str], None]) -> None:
        """Until cancelled; then it has ended."""
        backoff, loop = Backoff(), asyncio.get_running_loop()
        try:
            while True:
                began_s = loop.time()
                code = await self._live()
                self.deaths += 1
                died(f"{self.name} has ended ({code}): {self._last_words()}")
                if loop.time() - began_s >= _STEADY_S:
                    backoff.reset()
                await asyncio.sleep(backoff.next_s())
        finally:
            await asyncio.shield(self._end())

    async def _live(self) -> int:
        if self.log_file.exists() and self.log_file.stat().st_size > _MOST_LOG_BYTES:
            self.log_file.replace(self.log_file.with_suffix(".log.old"))
        with self.log_file.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self.command,
                cwd=self._folder,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                # So that one of us who is killed leaves nobody behind who holds the ports.
                preexec_fn=_die_with_parent,
            )
        _log.info("%s runs as %d", self.name, self._process.pid)
        return await self._process.wait()

    async def _end(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_END_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    def _last_words(self) -> str:
        try:
            with self.log_file.open("rb") as log:
                log.seek(max(0, self.log_file.stat().st_size - 2000))
                lines = log.read().decode("utf-8", "replace").strip().splitlines()
        except OSError:
            return "its log cannot be read"
        return lines[-1][:400] if lines else f"see {self.log_file}"


def _die_with_parent() -> None:
    _LIBC.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
