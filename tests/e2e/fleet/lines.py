"""A member's network: a namespace with a line to the centre and a line to its cluster, to be cut.

A cut line swallows what is sent over it, as a broken network does; nobody is told.
"""

import itertools
import os
import secrets
import subprocess
from enum import Enum

import pytest

_SUBNETS = itertools.count(os.getpid() % 20_000)


class End(Enum):
    """Where a line leads."""

    CENTRE = "centre"
    CLUSTER = "cluster"


def need_namespaces() -> None:
    """Skip where no network namespace can be made."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")


class Lines:
    """The network of one member."""

    def __init__(self) -> None:
        need_namespaces()
        tag = secrets.token_hex(3)
        self._space = f"dure-{tag}"
        self._devices = {end: f"du{end.value[:2]}{tag}" for end in End}
        self._hosts: dict[End, str] = {}
        self._cuts: set[End] = set()
        _ip("netns", "add", self._space)
        _ip("-n", self._space, "link", "set", "lo", "up")
        for end in End:
            self._lay(end)

    def _lay(self, end: End) -> None:
        device, peer = self._devices[end], f"{self._devices[end]}p"
        number = next(_SUBNETS) % 16_384
        subnet = f"10.2{13 + number // 4096}.{number // 16 % 256}."
        first = number % 16 * 4
        host, own = f"{subnet}{first + 1}", f"{subnet}{first + 2}"
        _ip("link", "add", device, "type", "veth", "peer", "name", peer, "netns", self._space)
        _ip("addr", "add", f"{host}/30", "dev", device)
        _ip("link", "set", device, "up")
        _ip("-n", self._space, "addr", "add", f"{own}/30", "dev", peer)
        _ip("-n", self._space, "link", "set", peer, "up")
        # Everything that tests start listens on loopback alone.
        _run("sysctl", "-qw", f"net.ipv4.conf.{device}.route_localnet=1")
        _run(*self._redirect("-A", device))
        self._hosts[end] = host

    @staticmethod
    def _redirect(action: str, device: str) -> list[str]:
        rule = ["-i", device, "-p", "tcp", "-j", "DNAT", "--to-destination", "127.0.0.1"]
        return ["iptables", "-w", "-t", "nat", action, "PREROUTING", *rule]

    def host(self, end: End) -> str:
        """Under which address the member finds this machine over a line."""
        return self._hosts[end]

    @property
    def prefix(self) -> list[str]:
        """Before a command that shall run there."""
        return ["nsenter", f"--net=/run/netns/{self._space}", "--"]

    def cut(self, end: End) -> None:
        """Let nothing through."""
        self._cuts.add(end)
        _ip("link", "set", self._devices[end], "down")

    def mend(self, end: End) -> None:
        """Let everything through again."""
        self._cuts.discard(end)
        _ip("link", "set", self._devices[end], "up")

    def is_cut(self, end: End) -> bool:
        """Whether nothing goes through."""
        return end in self._cuts

    def close(self) -> None:
        """Remove everything."""
        for device in self._devices.values():
            _run(*self._redirect("-D", device))
            _ip("link", "del", device)
        _ip("netns", "del", self._space)


def _ip(*words: str) -> None:
    _run("ip", *words)


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
