"""Makes the GPU events of some iterations into one sequence of kernels, and sums it up."""

import re
from collections.abc import Sequence
from statistics import fmean, median
from typing import Any

Signature = tuple[str, int, int, int, int, int, str]

SIGNATURE_FIELDS = [
    "name",
    "blocks",
    "threads_per_block",
    "registers",
    "shared_bytes",
    "copy_bytes",
    "bound",
]
SEQUENCE_FIELDS = ["signature", "duration_ns", "gap_ns"]
NAME_LENGTH = 60

COMPUTE_NAMES = re.compile(
    r"gemm|gemv|fprop|dgrad|wgrad|convolve|conv2d|flash|fmha|sdpa|attention|nvjet|cutlass|xmma"
    r"|mma_",
    re.IGNORECASE,
)
MEMORY_NAMES = re.compile(
    r"splitk\w*reduce|elementwise|norm|softmax|multi_tensor|nchwTo|nhwcTo|^bn_|copy|convert",
    re.IGNORECASE,
)
FUNCTOR_NAMES = re.compile(r"functor|_kernel_cuda|_kernel_impl|Ops$", re.IGNORECASE)
WRAPPER_NAMES = ("Kernel", "Kernel2", "device_kernel")  # the template's argument says what runs


def short_name(raw: str) -> str:
    """The kernel's own name, with the functor that tells elementwise kernels apart."""
    raw = raw.replace("(anonymous namespace)::", "").removeprefix("void ")
    if mangled := re.match(r"_Z.*?(\d\d)([A-Z]\w*)", raw):  # too long for the profiler to demangle
        return mangled[2][: int(mangled[1])]
    head, _, rest = raw.partition("<")
    name = head.split("(")[0].split("::")[-1].strip()
    inner = [word.split("::")[-1] for word in re.findall(r"[A-Za-z_][\w:]*", rest)]
    if name in WRAPPER_NAMES and inner:
        name = inner[0]
    elif functor := next(filter(FUNCTOR_NAMES.search, inner), ""):
        name = f"{name}/{functor}"
    return name[:NAME_LENGTH]


def bound_by(name: str) -> str:
    """A guess from the name alone; matrix-vector shapes called gemm may be bound by memory."""
    return "compute" if COMPUTE_NAMES.search(name) and not MEMORY_NAMES.search(name) else "memory"


def signature(event: dict[str, Any]) -> Signature:
    """As in SIGNATURE_FIELDS."""
    args = event["args"]
    name = short_name(event["name"])
    bx, by, bz = args.get("grid", (0, 0, 0))
    tx, ty, tz = args.get("block", (0, 0, 0))
    registers, shared = args.get("registers per thread", 0), args.get("shared memory", 0)
    return name, bx * by * bz, tx * ty * tz, registers, shared, args.get("bytes", 0), bound_by(name)


def gaps_ns(events: list[dict[str, Any]]) -> list[float]:
    """Idle time before each event in its stream; negative where it starts before the last ends.

    The first after the marker is zero: what lies between iterations is wall_ms less the rest, and
    tracing stretches it.
    """
    ends: dict[Any, float] = {}
    gaps: list[float] = []
    for event in events:
        stream, start = event["args"].get("stream"), float(event["ts"])
        gaps.append((start - ends.get(stream, start)) * 1e3)
        ends[stream] = start + float(event["dur"])
    gaps[1] = 0.0
    return gaps


def sequence_of(iterations: list[list[dict[str, Any]]]) -> dict[str, Any]:
    """The iterations averaged position by position; one of them as it is where they differ.

    Each starts with its marker, which is left out.
    """
    kernels = [[signature(e) for e in events[1:]] for events in iterations]
    if any(k != kernels[0] for k in kernels):
        middle = sorted(range(len(kernels)), key=lambda i: len(kernels[i]))[len(kernels) // 2]
        iterations, kernels = [iterations[middle]], [kernels[middle]]
    durations = [
        fmean(float(e["dur"]) * 1e3 for e in row) for row in zip(*iterations, strict=True)
    ][1:]
    gaps = [fmean(row) for row in zip(*map(gaps_ns, iterations), strict=True)][1:]
    table = list(dict.fromkeys(kernels[0]))
    index = {s: i for i, s in enumerate(table)}
    return {
        "iterations_averaged": len(iterations),
        "summary": summary(kernels[0], durations, gaps),
        "signature_fields": SIGNATURE_FIELDS,
        "signatures": table,
        "sequence_fields": SEQUENCE_FIELDS,
        "sequence": [
            (index[s], round(d), round(g))
            for s, d, g in zip(kernels[0], durations, gaps, strict=True)
        ],
    }


def summary(
    kernels: Sequence[Signature], durations_ns: Sequence[float], gaps: Sequence[float]
) -> dict[str, Any]:
    return {
        "kernels": len(durations_ns),
        "gpu_busy_ms": round(sum(durations_ns) / 1e6, 4),
        "gaps_ms": round(sum(gaps) / 1e6, 4),
        "duration_us": {
            f"p{p}": round(percentile(durations_ns, p) / 1e3, 2) for p in (10, 50, 90, 99)
        },
        "max_us": round(max(durations_ns) / 1e3, 2),
        "median_blocks": median(blocks for _, blocks, *_ in kernels),
    }


def percentile(values: Sequence[float], p: float) -> float:
    """Nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * p / 100))]
