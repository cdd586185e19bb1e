"""Containers as people see them, in `dure node ps` and `dure top`."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from dure.cli.fitting import Column, fitting_table
from dure.client.containers import ContainersStatus, ContainerStatus
from dure.domain.units import GIB
from dure.kernel.goal_words import span_words

_LONGEST_NAME = 28
_LONGEST_REASON = 60
_STYLES = {
    "running": "bold green",
    "queued": "yellow",
    "waiting for memory": "yellow",
    "paused by a person": "magenta",
    "exempt": "dim",
    "unmanaged": "dim",
}


def containers_view(status: ContainersStatus, width: int) -> RenderableType:
    """All of them, with a line about how they are managed."""
    return Group(*_parts(status, width))


def _parts(status: ContainersStatus, width: int) -> Iterator[RenderableType]:
    ways = " or ".join(status.ways) or "nothing"
    head = f"containers: strategy {status.strategy}, paused with {ways}"
    if status.dry_run:
        head += ", dry run: these are the states that would be"
    yield Text(head, style="dim", no_wrap=True, overflow="ellipsis")
    for trouble in status.troubles:
        yield Text(f"Nothing is paused: {trouble}", style="red")
    if status.containers:
        yield _table(status, width)
    else:
        also = f" ({status.without_gpu} without)" if status.without_gpu else ""
        yield Text(f"No container with a GPU runs{also}.", style="dim")


def _table(status: ContainersStatus, width: int) -> RenderableType:
    several = len({gpu for each in status.containers for gpu in each.gpus}) > 1
    columns: list[Column[ContainerStatus]] = [
        Column("container", _name, right=False),
        Column("id", lambda c: c.id[:12], rank=7, right=False),
        Column("project", lambda c: c.project or "", rank=6, right=False),
        Column("GPUs", lambda c: str(len(c.gpus)), rank=8 if not several else 5),
        Column("state", _state, right=False),
        Column("place", lambda c: str(c.queue_place or ""), rank=2),
        Column("waited", lambda c: _span(c.waited_ns or None), rank=1),
        Column("SM%", lambda c: f"{100 * c.sm_share:.0f}", rank=1),
        Column("GiB", _memory, rank=2),
        Column("deadline", lambda c: _span(c.deadline_in_ns), rank=3),
        Column("at most", lambda c: _span(c.resume_in_ns), rank=5),
        Column("by", lambda c: c.way or "", rank=6, right=False),
        Column("burst", lambda c: _span(c.burst_ns), rank=7),
        Column("reason", lambda c: _short(c.reason, _LONGEST_REASON), rank=4, right=False),
    ]
    return fitting_table(columns, sorted(status.containers, key=_order), width)


def _order(container: ContainerStatus) -> tuple[int, int, str]:
    """Those that run, then the queue, then the rest."""
    ranks = {"running": 0, "queued": 1, "waiting for memory": 1, "idle": 2}
    return ranks.get(container.state, 3), container.queue_place or 0, container.name


def _name(container: ContainerStatus) -> Text:
    style = "bold" if container.state == "running" else ""
    return Text(_short(container.name, _LONGEST_NAME), style=style)


def _state(container: ContainerStatus) -> Text:
    return Text(container.state, style=_STYLES.get(container.state, ""))


def _memory(container: ContainerStatus) -> str:
    used = _gib(container.memory_bytes)
    expected = container.expected_memory_bytes
    return used if expected is None else f"{used}/{_gib(expected)}"


def _gib(size: int) -> str:
    return f"{size / GIB:.{2 if size < GIB else 1}f}"


def _span(length_ns: int | None) -> str:
    if length_ns is None:
        return ""
    words = span_words(abs(length_ns)).replace(" ", "")
    return f"-{words}" if length_ns < 0 else words


def _short(words: str, most: int) -> str:
    return words if len(words) <= most else f"{words[: most - 1]}…"
