"""What machine this is, in one line, for pages that state where figures were made."""

import os
import platform
from importlib import metadata
from pathlib import Path

_CPU_INFO = Path("/proc/cpuinfo")


def describe_host(*packages: str) -> str:
    """Processor, cores this process may use, Python, and the versions of some packages."""
    parts = [_cpu_model(), f"{_cores()} cores", f"Python {platform.python_version()}"]
    parts += [f"{package} {metadata.version(package)}" for package in packages]
    return ", ".join(parts)


def _cpu_model() -> str:
    try:
        lines = _CPU_INFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
