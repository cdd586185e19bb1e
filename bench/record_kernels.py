"""Records what real GPU workloads launch, and how two of them fare when they share one GPU.

    python bench/record_kernels.py --out DIR [--only resnet50-train,dlrm-infer,pairs]

Each workload gives DIR/NAME.json: the kernels of one iteration in launch order, with grid,
registers, shared memory, duration and the gap before each, and the time an iteration takes when
nobody profiles. Where the host is the bottleneck (host_enqueue_us near wall_ms) tracing stretches
the gaps: believe wall_ms. `pairs` gives DIR/pairs.json: latency-bound inference beside training,
alone, time-sliced and under MPS.

Needs an NVIDIA GPU, PyTorch and torchvision; `pairs` also needs `nvidia-cuda-mps-control`. GPU
settings (clocks, power, compute mode) are never touched. Weights and inputs are random: only the
shapes matter.
"""

import argparse
from pathlib import Path

from recorder.pairs import MEASURE_S, record_pairs
from recorder.solo import record_apart

from dure.bench.workloads.catalogue import WORKLOADS

PAIRS = "pairs"
KNOWN = (*WORKLOADS, PAIRS)


def main() -> None:
    options = arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.only.split(","):
        if name == PAIRS:
            record_pairs(options.out, options.pair_seconds)
        else:
            record_apart(name, options.out)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the JSON files")
    parser.add_argument("--only", default=",".join(KNOWN), help="comma-separated names")
    parser.add_argument(
        "--pair-seconds",
        type=float,
        default=MEASURE_S,
        help="length of each measurement of `pairs`, at least 1 (default: %(default)s)",
    )
    options = parser.parse_args()
    if unknown := set(options.only.split(",")) - set(KNOWN):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(KNOWN)}")
    if not options.pair_seconds >= 1:
        parser.error("--pair-seconds must be at least 1")
    return options


if __name__ == "__main__":
    main()
