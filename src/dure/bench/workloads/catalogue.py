"""Defines the workloads that are recorded, by name."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from dure.bench.workloads.models import Bert, Dlrm, LanguageModel, UNet, post_norm_encoder, resnet50
from dure.bench.workloads.steps import Step, inference_step, training_step

TOKEN_CYCLES = 2_000_000
"""About a millisecond."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    build: Callable[[], Step]
    batch: int
    dtype: str
    graph: bool  # one CUDA graph per iteration
    sync_every: int  # iterations between host syncs, as a program of this sort does
    description: str


def images(batch: int, side: int, dtype: torch.dtype) -> Tensor:
    x = torch.randn(batch, 3, side, side, device="cuda", dtype=dtype)
    return x.to(memory_format=torch.channels_last)


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


def matmul(side: int) -> Step:
    a, b, out = torch.randn(3, side, side, device="cuda", dtype=torch.bfloat16)

    def step() -> None:
        torch.mm(a, b, out=out)

    return step


def token() -> Step:
    """Work that is there and takes one compute unit, nothing of memory."""
    return lambda: torch.cuda._sleep(TOKEN_CYCLES)


def stream_bound() -> Step:
    data = torch.randn(2**28, device="cuda", dtype=torch.bfloat16)

    def step() -> None:
        data.neg_()

    return step


WORKLOADS = {
    "resnet50-train": Workload(
        build=resnet50_train,
        batch=128,
        dtype="bf16 autocast",
        graph=False,
        sync_every=4,
        description="ResNet-50 training, channels-last, SGD with momentum",
    ),
    "encoder-infer": Workload(
        build=encoder_infer,
        batch=8,
        dtype="fp16",
        graph=True,
        sync_every=1,
        description="encoder, 24 layers, width 1024, 16 heads, FFN 4096, 256 tokens, "
        "nn.TransformerEncoder's fused path",
    ),
    "resnet50-infer": Workload(
        build=lambda: resnet50_infer(8),
        batch=8,
        dtype="fp16",
        graph=True,
        sync_every=1,
        description="ResNet-50 inference, channels-last",
    ),
    "resnet50-eager": Workload(
        build=lambda: resnet50_infer(4),
        batch=4,
        dtype="fp16",
        graph=False,
        sync_every=1,
        description="ResNet-50 inference, channels-last, no graph",
    ),
    "bert-train": Workload(
        build=bert_train,
        batch=32,
        dtype="bf16 autocast",
        graph=False,
        sync_every=4,
        description="encoder training, 12 layers, width 768, 128 tokens, fused AdamW",
    ),
    "gpt-train": Workload(
        build=gpt_train,
        batch=8,
        dtype="bf16 autocast",
        graph=False,
        sync_every=4,
        description="GPT training, 12 layers, width 768, 512 tokens, fused AdamW",
    ),
    "llm-decode": Workload(
        build=llm_decode,
        batch=8,
        dtype="fp16",
        graph=True,
        sync_every=1,
        description="one decoding step, 24 layers, width 2048, 1024 stored keys",
    ),
    "llm-decode-eager": Workload(
        build=llm_decode,
        batch=8,
        dtype="fp16",
        graph=False,
        sync_every=1,
        description="one decoding step, 24 layers, width 2048, 1024 stored keys, no graph",
    ),
    "dlrm-infer": Workload(
        build=dlrm_infer,
        batch=512,
        dtype="fp16",
        graph=True,
        sync_every=1,
        description="recommendation, 26 tables of 100,000 x 64, bags of 4, two MLPs",
    ),
    "unet-infer": Workload(
        build=unet_infer,
        batch=4,
        dtype="fp16",
        graph=False,
        sync_every=1,
        description="UNet inference on 256 x 256 images, 4 resolutions, channels-last",
    ),
    "matmul-long": Workload(
        build=matmul_long,
        batch=1,
        dtype="bf16",
        graph=False,
        sync_every=4,
        description="one 16384^3 matrix product, then one elementwise pass over 1 GiB",
    ),
    "matmul-short": Workload(
        build=lambda: matmul(4096),
        batch=1,
        dtype="bf16",
        graph=False,
        sync_every=1,
        description="one 4096^3 matrix product",
    ),
    "matmul-wide": Workload(
        build=lambda: matmul(8192),
        batch=1,
        dtype="bf16",
        graph=False,
        sync_every=1,
        description="one 8192^3 matrix product: many blocks on any set of compute units",
    ),
    "token": Workload(
        build=token,
        batch=1,
        dtype="none",
        graph=False,
        sync_every=64,
        description="one thread that waits for about a millisecond",
    ),
    "stream-bound": Workload(
        build=stream_bound,
        batch=1,
        dtype="bf16",
        graph=False,
        sync_every=1,
        description="one elementwise pass over 512 MiB",
    ),
}
