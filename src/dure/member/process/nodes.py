"""The file that describes a cluster of local processes: its nodes, and what stands behind them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dure.domain.errors import InputError
from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.clusters import NodeGroup
from dure.domain.fleet.protocol.reports import Inventory, NodeFact
from dure.domain.fleet.slices import ShareMode
from dure.domain.units import parse_bytes
from dure.kit.files import YamlFile, read_yaml
from dure.member.ports import RESIZE

_DEFAULT_CPU = 8.0
_DEFAULT_MEMORY = "16GiB"
_THIS_HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Node:
    """One node: a part of this host that is treated as a machine of its own."""

    name: str
    group: str
    gpus: tuple[str, ...] = ()
    """What `CUDA_VISIBLE_DEVICES` calls each device; none: programs see what is there."""
    run_dir: str = ""
    """Folder of the agent whose tenants slices become; empty: slices are not enforced."""
    emulator_dir: str = ""
    """Folder of an emulated GPU; empty: real ones."""
    env: Mapping[str, str] = field(default_factory=dict)
    address: str = _THIS_HOST
    """Where its services are reached."""
    why: str = ""
    """Why it takes nothing new; empty: it does."""


@dataclass(frozen=True, slots=True)
class Nodes:
    """All nodes of a cluster, in the order of their groups."""

    groups: tuple[NodeGroup, ...]
    nodes: tuple[Node, ...]

    def node(self, name: str) -> Node | None:
        """One by its name."""
        return next((node for node in self.nodes if node.name == name), None)

    def group(self, name: str) -> NodeGroup:
        """One by its name."""
        return next(group for group in self.groups if group.name == name)

    def inventory(self, limits: frozenset[str]) -> Inventory:
        """What the local stage needs to know; `limits`: features that say what is limited."""
        facts = tuple(
            NodeFact(node.name, node.group, up=not node.why, why=node.why) for node in self.nodes
        )
        features = limits | {"logs"} | {f"{RESIZE}{name}" for name in self._resizable()}
        return Inventory(groups=self.groups, nodes=facts, features=features)

    def _resizable(self) -> Iterator[str]:
        """Groups whose nodes all have an agent, which changes limits while programs run."""
        for group in self.groups:
            nodes = [node for node in self.nodes if node.group == group.name]
            if group.mode is not ShareMode.WHOLE and all(node.run_dir for node in nodes):
                yield group.name


def read_nodes(path: Path) -> Nodes:
    """The nodes a file describes; `InputError` says what is wrong with it, and where."""
    file = read_yaml(path)
    listed = file.data.get("nodes")
    _refuse_unknown(file, (), file.data, {"nodes"})
    if not isinstance(listed, list) or not listed:
        raise _problem(file, ("nodes",), "there are no nodes", "list at least one under `nodes`")
    groups: dict[str, NodeGroup] = {}
    nodes: dict[str, list[Node]] = {}
    for number, entry in enumerate(listed):
        group, made = _read(file, number, entry)
        known = groups.get(group.name)
        if known is not None and replace(known, count=group.count) != group:
            what = f"nodes of group '{group.name}' are not equal"
            raise _problem(file, ("nodes", number), what, "give them groups of their own")
        count = len(made) + (known.count if known is not None else 0)
        groups[group.name] = replace(group, count=count)
        nodes.setdefault(group.name, []).extend(made)
    ordered = tuple(node for name in groups for node in nodes[name])
    names = [node.name for node in ordered]
    if len(set(names)) < len(names):
        raise _problem(file, ("nodes",), "two nodes have one name", "rename one")
    return Nodes(tuple(groups.values()), ordered)


_FIELDS = {
    *("name", "group", "count", "profile", "devices", "cpu", "memory", "mode"),
    *("gpus", "run_dir", "emulator_dir", "env", "cordoned", "link_domain", "address"),
}


def _read(file: YamlFile, number: int, entry: Any) -> tuple[NodeGroup, list[Node]]:
    where = ("nodes", number)
    if not isinstance(entry, dict):
        raise _problem(file, where, "a node is not a mapping", "write `name: …` and so on")
    _refuse_unknown(file, where, entry, _FIELDS)
    name, profile = str(entry.get("name", f"node-{number}")), str(entry.get("profile", ""))
    try:
        device_profile(profile)
        mode = ShareMode(entry.get("mode", "whole"))
        devices, count = int(entry.get("devices", 1)), int(entry.get("count", 1))
        memory_bytes = parse_bytes(str(entry.get("memory", _DEFAULT_MEMORY)))
        cpu_milli = round(float(entry.get("cpu", _DEFAULT_CPU)) * 1000)
    except InputError as error:
        raise error.located(file=str(file.path), field=f"line {file.line_of(where)}") from error
    except (TypeError, ValueError) as error:
        raise _problem(file, where, str(error), "correct it") from error
    gpus = tuple(str(each) for each in entry.get("gpus", ()))
    if gpus and len(gpus) != devices:
        what = f"'{name}' has {devices} devices and names {len(gpus)} GPUs"
        raise _problem(file, (*where, "gpus"), what, "name one for each device")
    group = NodeGroup(
        name=str(entry.get("group", f"{profile}-{mode.value}")),
        count=count,
        profile=profile,
        devices=devices,
        cpu_milli=cpu_milli,
        host_memory_bytes=memory_bytes,
        link_domain=int(entry.get("link_domain", devices)),
        mode=mode,
    )
    names = [name] if count == 1 else [f"{name}-{each}" for each in range(count)]
    env = {str(key): str(value) for key, value in dict(entry.get("env", {})).items()}
    made = [
        Node(
            name=each,
            group=group.name,
            gpus=gpus,
            run_dir=str(entry.get("run_dir", "")),
            emulator_dir=str(entry.get("emulator_dir", "")),
            env=env,
            address=str(entry.get("address", _THIS_HOST)),
            why="cordoned" if entry.get("cordoned") else "",
        )
        for each in names
    ]
    return group, made


def _refuse_unknown(
    file: YamlFile, where: tuple[str | int, ...], given: Mapping[str, Any], known: set[str]
) -> None:
    for name in given:
        if name not in known:
            remedy = f"use one of {', '.join(sorted(known))}"
            raise _problem(file, (*where, name), f"there is no field '{name}'", remedy)


def _problem(file: YamlFile, where: tuple[str | int, ...], what: str, remedy: str) -> InputError:
    return InputError(what, remedy, file=str(file.path), field=f"line {file.line_of(where)}")
