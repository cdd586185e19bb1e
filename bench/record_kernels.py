"""Record what real GPU workloads launch, and how two of them fare when they share one GPU.

    python bench/record_kernels.py --out DIR [--only resnet50-train,dlrm-infer,pairs]

Each workload gives DIR/NAME.json: the kernels of one iteration in launch order, with grid, registers,
shared memory, duration and the gap before each, and the time an iteration takes when nobody profiles.
Where the host is the bottleneck (host_enqueue_us near wall_ms) tracing stretches the gaps: believe wall_ms.
`pairs` gives DIR/pairs.json: latency-bound inference beside training, alone, time-sliced and under MPS.

Needs an NVIDIA GPU, PyTorch and torchvision; `pairs` also needs `nvidia-cuda-mps-control`. GPU settings
(clocks, power, compute mode) are never touched. Weights and inputs are random: only the shapes matter.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import multiprocessing
import os
import random
import re
import subprocess
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Step = Callable[[], object]

WARM_UP_STEPS = 20
PROFILED_STEPS = 5
SKIPPED_STEPS = 3  # the first profiled steps pay for the profiler's own start
WALL_S = 3.0
MARKER = "spin_kernel"  # torch.cuda._sleep, launched before each profiled step to find its start
WORKLOAD_LIMIT_S = 120


# ---- Models -------------------------------------------------------------------------------------


class Block(nn.Module):
    """Pre-norm transformer block; with a cache it decodes one token against stored keys and values."""

    def __init__(self, width: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, cache: Tensor | None = None) -> Tensor:
        batch, tokens, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        if cache is not None:
            cache[0, :, :, -1:].copy_(k)
            cache[1, :, :, -1:].copy_(v)
            k, v = cache[0], cache[1]  # the one query comes last and sees every key
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal and cache is None)
        x = x + self.proj(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class LanguageModel(nn.Module):
    """Token and position embeddings, blocks, and a linear head over the vocabulary."""

    def __init__(self, layers: int, width: int, heads: int, vocabulary: int, context: int) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads, causal=True) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor, positions: Tensor, cache: Tensor | None = None) -> Tensor:
        x = self.token(tokens) + self.position(positions)
        for i, block in enumerate(self.blocks):
            x = block(x) if cache is None else block(x, cache[i])
        return self.head(self.norm(x))


class Bert(nn.Module):
    """Embeddings, a post-norm encoder, and a two-class linear head on the first token."""

    def __init__(self, layers: int, width: int, heads: int, vocabulary: int, context: int) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.encoder = post_norm_encoder(layers, width, heads, "gelu")
        self.head = nn.Linear(width, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.encoder(self.token(tokens) + self.position.weight)[:, 0])


class Dlrm(nn.Module):
    """Bags of embeddings, pairwise dot products, and two small MLPs."""

    def __init__(self, tables: int, rows: int, width: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.bottom = mlp(13, 512, 256, width)
        self.pairs = nn.Buffer(torch.triu_indices(tables + 1, tables + 1, offset=1))
        self.top = mlp(width + self.pairs.shape[1], 512, 256, 1)

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:
        low = self.bottom(dense)
        bags = [table(ids) for table, ids in zip(self.tables, sparse, strict=True)]
        stacked = torch.stack([low, *bags], dim=1)
        dots = torch.bmm(stacked, stacked.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([low, dots], dim=1))


class UNet(nn.Module):
    """Four resolutions, two convolutions each way, joined by skip connections."""

    def __init__(self, channels: Sequence[int] = (64, 128, 256, 512)) -> None:
        super().__init__()
        self.down = nn.ModuleList(
            conv_pair(a, b) for a, b in zip((3, *channels), channels, strict=False)
        )
        ups = list(zip(channels[::-1], channels[-2::-1], strict=False))
        self.rise = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, stride=2) for a, b in ups)
        self.up = nn.ModuleList(conv_pair(2 * b, b) for _, b in ups)
        self.out = nn.Conv2d(channels[0], 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        skips: list[Tensor] = []
        for i, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if i else x)
            skips.append(x)
        for rise, block, skip in zip(self.rise, self.up, skips[-2::-1], strict=True):
            x = block(torch.cat([rise(x), skip], dim=1))
        return self.out(x)


def mlp(*widths: int) -> nn.Sequential:
    pairs = zip(widths, widths[1:], strict=False)
    return nn.Sequential(*(layer for a, b in pairs for layer in (nn.Linear(a, b), nn.ReLU())))


def conv_pair(a: int, b: int) -> nn.Sequential:
    def half(inputs: int) -> list[nn.Module]:
        return [nn.Conv2d(inputs, b, 3, padding=1), nn.GroupNorm(8, b), nn.SiLU()]

    return nn.Sequential(*half(a), *half(b))


def post_norm_encoder(layers: int, width: int, heads: int, activation: str) -> nn.Module:
    layer = nn.TransformerEncoderLayer(
        width, heads, 4 * width, activation=activation, batch_first=True
    )
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


def resnet50() -> nn.Module:
    import torchvision  # here, so that the other workloads run without it

    return torchvision.models.resnet50(weights=None).cuda().to(memory_format=torch.channels_last)


def images(batch: int, side: int, dtype: torch.dtype) -> Tensor:
    x = torch.randn(batch, 3, side, side, device="cuda", dtype=dtype)
    return x.to(memory_format=torch.channels_last)


# ---- Workloads: each builder returns the function that runs one iteration ------------------------


def training_step(loss_of: Step, model: nn.Module, optimizer: torch.optim.Optimizer) -> Step:
    model.train()

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = loss_of()
        assert isinstance(loss, Tensor)
        loss.backward()
        optimizer.step()

    return step


def inference_step(model: nn.Module, *inputs: Tensor | None) -> Step:
    model.eval()

    @torch.inference_mode()
    def step() -> None:
        model(*inputs)

    return step


def resnet50_train() -> Step:
    model, x = resnet50(), images(128, 224, torch.float32)
    y = torch.randint(1000, (128,), device="cuda")
    sgd = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    return training_step(lambda: F.cross_entropy(model(x), y), model, sgd)


def encoder_infer() -> Step:
    model = post_norm_encoder(24, 1024, 16, "relu").cuda().half()
    return inference_step(model, torch.randn(8, 256, 1024, device="cuda").half())


def resnet50_infer(batch: int) -> Step:
    return inference_step(resnet50().half(), images(batch, 224, torch.float16))


def bert_train() -> Step:
    model = Bert(12, 768, 12, 30522, 128).cuda()
    x, y = torch.randint(30522, (32, 128), device="cuda"), torch.randint(2, (32,), device="cuda")
    adam = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    return training_step(lambda: F.cross_entropy(model(x), y), model, adam)


def gpt_train() -> Step:
    model = LanguageModel(12, 768, 12, 32000, 512).cuda()
    x, y = torch.randint(32000, (2, 8, 512), device="cuda")
    positions = torch.arange(512, device="cuda")
    adam = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    return training_step(
        lambda: F.cross_entropy(model(x, positions).flatten(0, 1), y.flatten()), model, adam
    )


def llm_decode() -> Step:
    model = LanguageModel(24, 2048, 16, 32000, 1024).cuda().half()
    tokens = torch.randint(32000, (8, 1), device="cuda")
    cache = torch.randn(24, 2, 8, 16, 1024, 128, device="cuda", dtype=torch.float16)
    return inference_step(model, tokens, torch.full_like(tokens, 1023), cache)


def dlrm_infer() -> Step:
    dense = torch.randn(512, 13, device="cuda", dtype=torch.float16)
    sparse = torch.randint(100_000, (26, 512, 4), device="cuda")
    return inference_step(Dlrm(26, 100_000, 64).cuda().half(), dense, sparse)


def unet_infer() -> Step:
    model = UNet().cuda().half().to(memory_format=torch.channels_last)
    return inference_step(model, images(4, 256, torch.float16))


def matmul_long() -> Step:
    a, b, out = torch.randn(3, 16384, 16384, device="cuda", dtype=torch.bfloat16)
    gibibyte = torch.randn(2**29, device="cuda", dtype=torch.bfloat16)

    def step() -> None:
        torch.mm(a, b, out=out)
        gibibyte.neg_()

    return step


@dataclass(frozen=True)
class Workload:
    build: Callable[[], Step]
    batch: int
    dtype: str
    graph: bool  # one CUDA graph per iteration
    sync_every: int  # iterations between host syncs, as a program of this sort does
    description: str


WORKLOADS = {
    "resnet50-train": Workload(
        resnet50_train,
        128,
        "bf16 autocast",
        False,
        4,
        "ResNet-50 training, channels-last, SGD with momentum",
    ),
    "encoder-infer": Workload(
        encoder_infer,
        8,
        "fp16",
        True,
        1,
        "encoder, 24 layers, width 1024, 16 heads, FFN 4096, 256 tokens, nn.TransformerEncoder's fused path",
    ),
    "resnet50-infer": Workload(
        lambda: resnet50_infer(8), 8, "fp16", True, 1, "ResNet-50 inference, channels-last"
    ),
    "resnet50-eager": Workload(
        lambda: resnet50_infer(4),
        4,
        "fp16",
        False,
        1,
        "ResNet-50 inference, channels-last, no graph",
    ),
    "bert-train": Workload(
        bert_train,
        32,
        "bf16 autocast",
        False,
        4,
        "encoder training, 12 layers, width 768, 128 tokens, fused AdamW",
    ),
    "gpt-train": Workload(
        gpt_train,
        8,
        "bf16 autocast",
        False,
        4,
        "GPT training, 12 layers, width 768, 512 tokens, fused AdamW",
    ),
    "llm-decode": Workload(
        llm_decode, 8, "fp16", True, 1, "one decoding step, 24 layers, width 2048, 1024 stored keys"
    ),
    "dlrm-infer": Workload(
        dlrm_infer,
        512,
        "fp16",
        True,
        1,
        "recommendation, 26 tables of 100,000 x 64, bags of 4, two MLPs",
    ),
    "unet-infer": Workload(
        unet_infer,
        4,
        "fp16",
        False,
        1,
        "UNet inference on 256 x 256 images, 4 resolutions, channels-last",
    ),
    "matmul-long": Workload(
        matmul_long,
        1,
        "bf16",
        False,
        4,
        "one 16384^3 matrix product, then one elementwise pass over 1 GiB",
    ),
}


# ---- Recording one workload ---------------------------------------------------------------------


def captured(eager: Step) -> Step:
    """The same step as one CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            eager()
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        eager()

    def replay(inputs_live_here: Step = eager) -> None:
        graph.replay()

    return replay


def ready(workload: Workload) -> Step:
    """Build, capture if asked, and warm up."""
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    step = captured(workload.build()) if workload.graph else workload.build()
    for _ in range(WARM_UP_STEPS):
        step()
    torch.cuda.synchronize()
    return step


def wait_for_gpu() -> None:
    """Busy-wait, as a client that cares for latency does."""
    stream = torch.cuda.current_stream()
    while not stream.query():
        pass


def wall_ms(step: Step, sync_every: int) -> tuple[int, float]:
    """Iterations timed and milliseconds each, without a profiler."""
    done, start = 0, time.perf_counter()
    while done < 100 or time.perf_counter() - start < WALL_S:
        for _ in range(sync_every):
            step()
        wait_for_gpu()
        done += sync_every
    return done, (time.perf_counter() - start) * 1e3 / done


def enqueue_us(step: Step) -> float:
    """Host time to enqueue one iteration on an idle GPU."""
    times: list[float] = []
    for _ in range(20):
        torch.cuda.synchronize()
        start = time.perf_counter()
        step()
        times.append((time.perf_counter() - start) * 1e6)
    torch.cuda.synchronize()
    return median(times)


def profiled_events(step: Step, sync_every: int) -> list[list[dict[str, Any]]]:
    """GPU events of each profiled iteration, in order of their start."""
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CUDA], acc_events=True
    ) as profiler:
        for i in range(SKIPPED_STEPS + PROFILED_STEPS):
            torch.cuda._sleep(1)
            step()
            if (i + 1) % sync_every == 0:
                wait_for_gpu()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        profiler.export_chrome_trace(path)
        trace = json.loads(Path(path).read_text(errors="replace"))["traceEvents"]
    events = [e for e in trace if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    iterations: list[list[dict[str, Any]]] = []
    for event in sorted(events, key=lambda e: float(e["ts"])):
        if MARKER in event["name"]:
            iterations.append([])
        if iterations:
            iterations[-1].append(event)
    return iterations[SKIPPED_STEPS:]


COMPUTE_NAMES = re.compile(
    r"gemm|gemv|fprop|dgrad|wgrad|convolve|conv2d|flash|fmha|sdpa|attention|nvjet|cutlass|xmma|mma_",
    re.I,
)
MEMORY_NAMES = re.compile(
    r"splitk\w*reduce|elementwise|norm|softmax|multi_tensor|nchwTo|nhwcTo|^bn_|copy|convert", re.I
)


def short_name(raw: str) -> str:
    """The kernel's own name, with the functor that tells elementwise kernels apart."""
    raw = raw.replace("(anonymous namespace)::", "").removeprefix("void ")
    if mangled := re.match(r"_Z.*?(\d\d)([A-Z]\w*)", raw):  # too long for the profiler to demangle
        return mangled[2][: int(mangled[1])]
    head, _, rest = raw.partition("<")
    name = head.split("(")[0].split("::")[-1].strip()
    inner = [word.split("::")[-1] for word in re.findall(r"[A-Za-z_][\w:]*", rest)]
    if name in ("Kernel", "Kernel2", "device_kernel") and inner:
        name = inner[0]
    elif functor := next(
        (w for w in inner if re.search(r"functor|_kernel_cuda|_kernel_impl|Ops$", w, re.I)), ""
    ):
        name = f"{name}/{functor}"
    return name[:60]


def bound_by(name: str) -> str:
    """A guess from the name alone; matrix-vector shapes called gemm may be bound by memory."""
    return "compute" if COMPUTE_NAMES.search(name) and not MEMORY_NAMES.search(name) else "memory"


def signature(event: dict[str, Any]) -> tuple[str, int, int, int, int, int, str]:
    """As in SIGNATURE_FIELDS."""
    args = event["args"]
    name = short_name(event["name"])
    bx, by, bz = args.get("grid", (0, 0, 0))
    tx, ty, tz = args.get("block", (0, 0, 0))
    registers, shared = args.get("registers per thread", 0), args.get("shared memory", 0)
    return name, bx * by * bz, tx * ty * tz, registers, shared, args.get("bytes", 0), bound_by(name)


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


def gaps_ns(events: list[dict[str, Any]]) -> list[float]:
    """Idle time before each event in its stream; negative where it starts before the last one ends.

    The first is zero: what lies between iterations is wall_ms less the rest, and tracing stretches it.
    """
    ends: dict[Any, float] = {}
    gaps: list[float] = []
    for event in events:
        stream, start = event["args"].get("stream"), float(event["ts"])
        gaps.append((start - ends.get(stream, start)) * 1e3)
        ends[stream] = start + float(event["dur"])
    gaps[1] = 0.0  # after the marker
    return gaps


def sequence_of(iterations: list[list[dict[str, Any]]]) -> dict[str, Any]:
    """The iterations averaged position by position; one of them as it is where they differ."""
    names = [[signature(e) for e in events[1:]] for events in iterations]
    same = all(n == names[0] for n in names)
    if not same:
        middle = sorted(range(len(names)), key=lambda i: len(names[i]))[len(names) // 2]
        iterations, names = [iterations[middle]], [names[middle]]
    durations = [
        fmean(float(e["dur"]) * 1e3 for e in row) for row in zip(*iterations, strict=True)
    ][1:]
    gaps = [fmean(row) for row in zip(*map(gaps_ns, iterations), strict=True)][1:]
    table = list(dict.fromkeys(names[0]))
    index = {s: i for i, s in enumerate(table)}
    return {
        "iterations_averaged": len(iterations),
        "summary": {
            "kernels": len(durations),
            "gpu_busy_ms": round(sum(durations) / 1e6, 4),
            "gaps_ms": round(sum(gaps) / 1e6, 4),
            "duration_us": {
                f"p{p}": round(percentile(durations, p) / 1e3, 2) for p in (10, 50, 90, 99)
            },
            "max_us": round(max(durations) / 1e3, 2),
            "median_blocks": median(s[1] for s in names[0]),
        },
        "signature_fields": SIGNATURE_FIELDS,
        "signatures": table,
        "sequence_fields": SEQUENCE_FIELDS,
        "sequence": [
            (index[s], round(d), round(g))
            for s, d, g in zip(names[0], durations, gaps, strict=True)
        ],
    }


def percentile(values: Sequence[float], p: float) -> float:
    """Nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * p / 100))]


def record(name: str, out: Path) -> None:
    workload = WORKLOADS[name]
    step = ready(workload)
    iterations, ms = wall_ms(step, workload.sync_every)
    host_us = enqueue_us(step)
    recorded = sequence_of(profiled_events(step, workload.sync_every))
    launches = 1 if workload.graph else recorded["summary"]["kernels"]
    result = {
        "workload": name,
        "description": workload.description,
        "dtype": workload.dtype,
        "batch": workload.batch,
        "graph": workload.graph,
        "sync_every": workload.sync_every,
        "machine": machine(),
        "wall_ms": round(ms, 4),
        "wall_iterations": iterations,
        "host_enqueue_us": round(host_us, 1),
        "host_us_per_launch": round(host_us / launches, 3),
        **recorded,
    }
    save(out / f"{name}.json", result)
    print(name, f"{ms:.3f} ms", f"host {host_us:.0f} us", recorded["summary"], flush=True)


def machine() -> dict[str, Any]:
    gpu = torch.cuda.get_device_properties(0)
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
    return {
        "gpu": gpu.name,
        "sm_count": gpu.multi_processor_count,
        "memory_bytes": gpu.total_memory,
        "driver": subprocess.run(query, capture_output=True, text=True).stdout.strip(),
        "cuda": torch.version.cuda,
        "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def save(path: Path, result: dict[str, Any]) -> None:
    """JSON with one line per key, and one per row of a list, so that a diff can be read."""

    def value(v: Any) -> str:
        if isinstance(v, list) and v and not isinstance(v[0], str):
            return "[\n" + ",\n".join("  " + json.dumps(row) for row in v) + "\n ]"
        return json.dumps(v)

    lines = ",\n".join(f" {json.dumps(k)}: {value(v)}" for k, v in result.items())
    path.write_text("{\n" + lines + "\n}\n")


# ---- Pairs: training (best effort) beside inference (high priority) -------------------------------

BEST_EFFORT = "resnet50-train"
HIGH_PRIORITY = {"a": "encoder-infer", "b": "resnet50-infer"}
SHARINGS: dict[str, dict[str, str]] = {  # extra environment of the best-effort process
    "time-slice": {},
    "mps": {},
    "mps-priority": {"CUDA_MPS_CLIENT_PRIORITY": "1"},  # 0 is normal, 1 is below normal
    "mps-half": {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"},
}
MEASURE_S = 6.0
RAMP_S = 0.5  # both run this long before anything counts
REPLY_LIMIT_S = 120.0
SEED = 7


@dataclass(frozen=True)
class Order:
    """One measurement: count what happens from `start_s` (monotonic clock) on, for MEASURE_S."""

    start_s: float
    poisson_per_s: float | None = None  # None: closed loop


def serve_orders(orders: Connection, name: str) -> None:
    """A tenant process: say the machine once warm, then answer each order with its figures."""
    orders.recv()
    step = ready(WORKLOADS[name])
    orders.send(machine())
    while (order := orders.recv()) is not None:
        orders.send(train(step, order) if name == BEST_EFFORT else infer(step, order))


def spin_until(when_s: float) -> None:
    while time.monotonic() < when_s:
        pass


def train(step: Step, order: Order) -> dict[str, float]:
    end_s = order.start_s + MEASURE_S
    spin_until(order.start_s - RAMP_S)
    steps, first_s, now_s = 0, 0.0, time.monotonic()
    while now_s < end_s:
        for _ in range(4):
            step()
        torch.cuda.current_stream().synchronize()
        now_s = time.monotonic()
        if first_s:
            steps += 4
        elif now_s >= order.start_s:
            first_s = now_s
    return {"be_per_s": round(steps / (now_s - first_s), 2)}


def infer(step: Step, order: Order) -> dict[str, float]:
    """Latency runs from the scheduled arrival; in a closed loop from the end of the request before."""
    end_s = order.start_s + MEASURE_S
    rng = random.Random(SEED)
    arrival_s = order.start_s - RAMP_S
    latencies_ms: list[float] = []
    while True:
        spin_until(arrival_s)
        step()
        wait_for_gpu()
        now_s = time.monotonic()
        if now_s >= end_s:
            break
        if arrival_s >= order.start_s:
            latencies_ms.append((now_s - arrival_s) * 1e3)
        arrival_s = (
            arrival_s + rng.expovariate(order.poisson_per_s) if order.poisson_per_s else now_s
        )
    late = 0
    while order.poisson_per_s and arrival_s < end_s:
        late, arrival_s = late + 1, arrival_s + rng.expovariate(order.poisson_per_s)
    return {
        "hp_per_s": round(len(latencies_ms) / MEASURE_S, 2),
        "mean_ms": round(fmean(latencies_ms), 3),
        **{f"p{p}_ms": round(percentile(latencies_ms, p), 3) for p in (50, 95, 99)},
        "unserved": late,  # arrived in the window, not answered when it closed
    }


@contextlib.contextmanager
def mps_daemon() -> Iterator[None]:
    """An MPS daemon of our own, which every process started meanwhile will use."""
    with tempfile.TemporaryDirectory() as folder:
        own = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        with environment(own):
            subprocess.run(["nvidia-cuda-mps-control", "-d"], check=True)
            try:
                yield
            finally:
                subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True, timeout=60)


@contextlib.contextmanager
def environment(extra: dict[str, str]) -> Iterator[None]:
    before = {k: os.environ.get(k) for k in extra}
    os.environ.update(extra)
    try:
        yield
    finally:
        for k, v in before.items():
            if v is None:
                del os.environ[k]
            else:
                os.environ[k] = v


class Tenants:
    """One process per workload, warmed up one after another so that none tunes beside another."""

    def __init__(self, best_effort_env: dict[str, str]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipes: dict[str, Connection] = {}
        self.processes: list[multiprocessing.process.BaseProcess] = []
        for name in (BEST_EFFORT, *HIGH_PRIORITY.values()):
            self.pipes[name], far = context.Pipe()
            with environment(best_effort_env if name == BEST_EFFORT else {}):
                process = context.Process(target=serve_orders, args=(far, name), daemon=True)
                process.start()
            self.processes.append(process)
            far.close()
        for name, pipe in self.pipes.items():
            pipe.send("warm up")
            self.machine = self.answer(name)

    def answer(self, name: str) -> dict[str, Any]:
        if not self.pipes[name].poll(REPLY_LIMIT_S):
            raise TimeoutError(f"{name} did not answer")
        answer: dict[str, Any] = self.pipes[name].recv()
        return answer

    def measure(self, names: Sequence[str], poisson_per_s: float | None = None) -> dict[str, Any]:
        """Run the named tenants at once, the others idle."""
        order = Order(time.monotonic() + RAMP_S + 0.2, poisson_per_s)
        for name in names:
            self.pipes[name].send(order)
        figures: dict[str, Any] = {}
        for name in names:
            figures |= self.answer(name)
        return figures

    def close(self) -> None:
        for pipe in self.pipes.values():
            with contextlib.suppress(OSError):
                pipe.send(None)
        for process in self.processes:
            process.join(20)
            if process.is_alive():
                process.kill()


def record_pairs(out: Path) -> None:
    rows: list[dict[str, Any]] = []
    half_load: dict[str, float] = {}
    header: dict[str, Any] = {
        "best_effort": BEST_EFFORT,
        "high_priority": HIGH_PRIORITY,
        "measured_s": MEASURE_S,
        "seed": SEED,
        "poisson_load": "half of the requests/s of the closed loop, alone, without MPS",
    }

    def note(sharing: str, load: str, pair: str, figures: dict[str, Any]) -> None:
        rows.append({"pair": pair, "sharing": sharing, "load": load, **figures})
        save(out / "pairs.json", {**header, "rows": rows})
        print(rows[-1], flush=True)

    def measure_sharing(sharing: str, extra: dict[str, str]) -> None:
        tenants = Tenants(extra)
        try:
            header["machine"] = tenants.machine
            if sharing != "mps-priority":  # priority means nothing to a tenant alone
                note(f"solo {sharing}", "closed", "-", tenants.measure([BEST_EFFORT]))
                for pair, hp in HIGH_PRIORITY.items():
                    if sharing == "mps-half":
                        continue  # only the best-effort process is limited
                    figures = tenants.measure([hp])
                    half_load.setdefault(pair, figures["hp_per_s"] / 2)
                    note(f"solo {sharing}", "closed", pair, figures)
                    note(f"solo {sharing}", "poisson", pair, tenants.measure([hp], half_load[pair]))
            for load in ("closed", "poisson"):
                for pair, hp in HIGH_PRIORITY.items():
                    rate = half_load[pair] if load == "poisson" else None
                    note(sharing, load, pair, tenants.measure([BEST_EFFORT, hp], rate))
        finally:
            tenants.close()

    for sharing, extra in SHARINGS.items():
        try:
            with mps_daemon() if sharing.startswith("mps") else contextlib.nullcontext():
                measure_sharing(sharing, extra)
        except Exception as problem:  # the other sharings are still worth having
            traceback.print_exc()
            note(sharing, "failed", "-", {"error": type(problem).__name__})


# ---- Command line -------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the JSON files")
    parser.add_argument(
        "--only", default=",".join([*WORKLOADS, "pairs"]), help="comma-separated names"
    )
    options = parser.parse_args()
    names = options.only.split(",")
    if unknown := set(names) - {*WORKLOADS, "pairs"}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(WORKLOADS)}, pairs")
    options.out.mkdir(parents=True, exist_ok=True)
    # A process each: one failure spoils no other, and the profiler slows no later timing. Forking is
    # safe because this process never touches CUDA, and it saves importing torch again.
    fork = multiprocessing.get_context("fork")
    for name in names:
        if name == "pairs":
            record_pairs(options.out)
            continue
        process = fork.Process(target=record, args=(name, options.out))
        process.start()
        process.join(WORKLOAD_LIMIT_S)
        if process.is_alive():
            process.kill()
        if process.exitcode != 0:
            print(f"{name} failed", flush=True)


if __name__ == "__main__":
    main()
