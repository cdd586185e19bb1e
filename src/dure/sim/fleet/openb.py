"""The openb trace: nodes and pods of a production GPU cluster (Weng et al., USENIX ATC'23).

A node list has `sn`, `cpu_milli`, `memory_mib`, `gpu` (how many) and `model`. A pod list has
`name`, `cpu_milli`, `memory_mib`, `num_gpu`, `gpu_milli` (of each GPU) and, in some lists,
`gpu_spec`: the models it accepts, as `V100M16|V100M32`; empty for any.
"""

from dataclasses import dataclass
from pathlib import Path

from dure.domain.errors import InputError
from dure.kit.words import nearest
from dure.sim.fleet.csv_files import CsvFile, read_csv

NODE_FILE = "openb_node_list_gpu_node.csv"
POD_PREFIX = "openb_pod_list_"
FOLDER = "openb"
"""Where the lists lie below a data folder."""
GPU_MILLI = 1000
"""A whole GPU."""
MOST_GPUS = 16
"""GPUs of one node or pod; more is a slip of the hand."""
_NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")


@dataclass(frozen=True, slots=True)
class TraceNode:
    """One host."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str


@dataclass(frozen=True, slots=True)
class PodShape:
    """What a pod asks for."""

    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_milli: int
    """Of each GPU; 0 without GPUs."""
    models: tuple[str, ...] = ()
    """Accepted GPU models in order of name; empty: any."""

    @property
    def total_gpu_milli(self) -> int:
        """Over all its GPUs."""
        return self.gpus * self.gpu_milli


@dataclass(frozen=True, slots=True)
class TracePod:
    """One pod of a list."""

    name: str
    shape: PodShape


@dataclass(frozen=True, slots=True)
class PodTrace:
    """A pod list and the nodes it is packed on."""

    name: str
    nodes: tuple[TraceNode, ...]
    """In order of name."""
    pods: tuple[TracePod, ...]
    """In order of name."""

    @property
    def capacity_milli(self) -> int:
        """GPU capacity of all nodes."""
        return sum(node.gpus for node in self.nodes) * GPU_MILLI


def openb_folder(data: Path) -> Path:
    """The folder with the lists: the one named, or `openb` below it."""
    for folder in (data, data / FOLDER):
        if (folder / NODE_FILE).is_file():
            return folder
    raise InputError(
        f"there is no {NODE_FILE} here or in '{FOLDER}' below it",
        "name the folder with the openb lists, or the one above it",
        file=str(data),
        field="--data",
    )


def pod_lists(folder: Path) -> list[str]:
    """The names of all pod lists in a folder, in order."""
    names = [path.stem.removeprefix(POD_PREFIX) for path in folder.glob(f"{POD_PREFIX}*.csv")]
    if not names:
        raise InputError(
            f"there is no {POD_PREFIX}….csv here", "copy at least one pod list", file=str(folder)
        )
    return sorted(names)


def read_trace(folder: Path, name: str) -> PodTrace:
    """One pod list with the nodes beside it."""
    known = pod_lists(folder)
    if name not in known:
        raise InputError(f"there is no pod list '{name}'", nearest(name, known), field="--trace")
    nodes = read_nodes(folder / NODE_FILE)
    models = {node.model for node in nodes if node.gpus}
    return PodTrace(name, nodes, read_pods(folder / f"{POD_PREFIX}{name}.csv", models))


def read_nodes(path: Path) -> tuple[TraceNode, ...]:
    """The nodes of a list, in order of name."""
    file = read_csv(path, _NODE_COLUMNS)
    cpu = file.counts("cpu_milli", least=1)
    memory = file.counts("memory_mib", least=1)
    gpus = file.counts("gpu")
    models = [cells[file.index("model")].strip() for cells in file.rows]
    names = _names(file, "sn")
    for row, count in enumerate(gpus):
        if count > MOST_GPUS:
            raise file.wrong(row, "gpu", f"{count} GPUs in one node", f"use at most {MOST_GPUS}")
        if bool(count) != bool(models[row]):
            raise file.wrong(
                row, "model", "GPUs and model do not agree", "name a model exactly where GPUs are"
            )
    nodes = map(TraceNode, names, cpu, memory, gpus, models)
    return tuple(sorted(nodes, key=lambda node: node.name))


def read_pods(path: Path, models: set[str]) -> tuple[TracePod, ...]:
    """The pods of a list, in order of name; `models` are the GPU models there are."""
    file = read_csv(path, _POD_COLUMNS)
    names = _names(file, "name")
    cpu = file.counts("cpu_milli")
    memory = file.counts("memory_mib")
    gpus = file.counts("num_gpu")
    milli = file.counts("gpu_milli")
    accepted = _accepted(file, models)
    pods = []
    for row, name in enumerate(names):
        _refuse_bad_gpus(file, row, gpus[row], milli[row])
        shape = PodShape(cpu[row], memory[row], gpus[row], milli[row], accepted[row])
        pods.append(TracePod(name, shape))
    return tuple(sorted(pods, key=lambda pod: pod.name))


def _names(file: CsvFile, column: str) -> list[str]:
    index = file.index(column)
    seen: dict[str, int] = {}
    for row, cells in enumerate(file.rows):
        name = cells[index].strip()
        if not name:
            raise file.wrong(row, column, "the name is missing", "give the row a name")
        if name in seen:
            raise file.wrong(
                row, column, f"'{name}' is already on line {seen[name]}", "keep one of the two"
            )
        seen[name] = file.lines[row]
    return list(seen)


def _refuse_bad_gpus(file: CsvFile, row: int, gpus: int, milli: int) -> None:
    if gpus > MOST_GPUS:
        raise file.wrong(row, "num_gpu", f"{gpus} GPUs in one pod", f"use at most {MOST_GPUS}")
    if milli > GPU_MILLI or bool(gpus) != bool(milli):
        raise file.wrong(
            row,
            "gpu_milli",
            f"{milli} thousandths of each of {gpus} GPUs",
            f"use 1 to {GPU_MILLI} where there are GPUs, else 0",
        )
    if gpus > 1 and milli != GPU_MILLI:
        raise file.wrong(
            row, "gpu_milli", "a share of several GPUs", f"use {GPU_MILLI} for more than one GPU"
        )


def _accepted(file: CsvFile, models: set[str]) -> list[tuple[str, ...]]:
    if "gpu_spec" not in file.header:
        return [()] * len(file.rows)
    index = file.index("gpu_spec")
    found = []
    for row, cells in enumerate(file.rows):
        text = cells[index].strip()
        words = tuple(sorted({word.strip() for word in text.split("|")})) if text else ()
        unknown = [word for word in words if word not in models]
        if unknown:
            raise file.wrong(
                row,
                "gpu_spec",
                f"no node has GPUs of model '{unknown[0]}'",
                nearest(unknown[0], sorted(models), "models of the node list:"),
            )
        found.append(words)
    return found
