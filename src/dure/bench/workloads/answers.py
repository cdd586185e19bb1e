"""Programs whose results can be compared bit by bit: run plain, and beside others under Dure.

    python -m dure.bench.workloads.answers NAME SECONDS

Runs the program again and again for so long and prints one JSON object: the digest of its result,
whether every run gave the same, and some of its numbers where they might differ.
"""

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

Result = Any
"""Something numpy takes as an array."""

SHOWN = 64
"""Numbers kept of a result, to tell how far apart two are that are not the same."""


def eager() -> Callable[[], Result]:
    """Three steps of training a ResNet, cuDNN convolutions and cuBLAS, from the same start."""
    torch = _torch()
    import torchvision
    from torch.nn import functional as F

    torch.manual_seed(1)
    x = torch.randn(16, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    y = torch.randint(1000, (16,), device="cuda")
    model = torchvision.models.resnet18(weights=None).cuda().to(memory_format=torch.channels_last)
    model.maxpool = torch.nn.AvgPool2d(3, 2, 1)  # the way back through a maximum adds in any order
    start = {name: value.clone() for name, value in model.state_dict().items()}

    def once() -> Result:
        model.load_state_dict(start)
        sgd = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        for _ in range(3):
            sgd.zero_grad(set_to_none=True)
            F.cross_entropy(model(x), y).backward()
            sgd.step()
        return torch.cat([p.detach().flatten() for p in model.parameters()]).cpu().numpy()

    return once


def graph() -> Callable[[], Result]:
    """An encoder captured as one CUDA graph and replayed, each replay on what the last one left."""
    torch = _torch()
    from dure.bench.workloads.models import post_norm_encoder

    torch.manual_seed(1)
    model = post_norm_encoder(6, 512, 8, "relu").cuda().half().eval()
    start = torch.randn(8, 128, 512, device="cuda").half()
    x = start.clone()

    def step() -> None:
        x.copy_(model(x))

    with torch.inference_mode():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        side.synchronize()
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            step()

    def once() -> Result:
        x.copy_(start)
        for _ in range(50):
            captured.replay()
        return x.float().cpu().numpy()

    return once


def compiled() -> Callable[[], Result]:
    """A perceptron through torch.compile."""
    torch = _torch()
    from dure.bench.workloads.models import mlp

    torch.manual_seed(1)
    model = torch.compile(mlp(1024, 2048, 2048, 1024).cuda())
    x = torch.randn(512, 1024, device="cuda")

    def once() -> Result:
        with torch.inference_mode():
            value = x
            for _ in range(20):
                value = torch.nn.functional.layer_norm(model(value) + value, (1024,))
            return value.cpu().numpy()

    return once


def libraries() -> Callable[[], Result]:
    """cuBLAS products and cuDNN convolutions on two streams that wait for one another."""
    torch = _torch()
    torch.manual_seed(1)
    a = torch.randn(2048, 2048, device="cuda") / 45.0
    image = torch.randn(8, 32, 64, 64, device="cuda")
    weight = torch.randn(32, 32, 3, 3, device="cuda") / 17.0
    side = torch.cuda.Stream()

    def once() -> Result:
        value, picture = a, image
        for _ in range(10):
            value = value @ a
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                picture = torch.nn.functional.conv2d(picture + value[0, 0], weight, padding=1)
            torch.cuda.current_stream().wait_stream(side)
            value = value + picture.mean()
        return torch.cat([value.flatten(), picture.flatten()]).cpu().numpy()

    return once


def cupy() -> Callable[[], Result]:
    """A CuPy program: its own kernels, cuBLAS and a reduction."""
    import cupy as cp

    rng = cp.random.RandomState(1)
    a = rng.standard_normal((2048, 2048), dtype=cp.float32) / 45.0

    def once() -> Result:
        value = a
        for _ in range(20):
            value = cp.tanh(value @ a) + cp.sin(value) * 0.1
        return cp.asnumpy(value)

    return once


def jax() -> Callable[[], Result]:
    """A JAX program, compiled by XLA."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ.setdefault("XLA_FLAGS", "--xla_gpu_deterministic_ops=true")
    import jax as j
    import jax.numpy as jnp
    import numpy as np

    a = j.random.normal(j.random.PRNGKey(1), (2048, 2048)) / 45.0

    @j.jit
    def step(value: Any) -> Any:
        return jnp.tanh(value @ a) + jnp.sin(value) * 0.1

    def once() -> Result:
        value = a
        for _ in range(20):
            value = step(value)
        return np.asarray(value)

    return once


PROGRAMS = {program.__name__: program for program in (eager, graph, compiled, libraries, cupy, jax)}


def _torch() -> Any:
    """PyTorch, deterministic as far as it can be."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    import torch

    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    return torch


def digest(result: Result) -> str:
    """Of the very bits."""
    return hashlib.sha256(result.tobytes()).hexdigest()[:16]


def _shown(result: Result) -> list[float]:
    stride = max(1, result.size // SHOWN)
    return [float(value) for value in result.flatten()[::stride][:SHOWN]]


def tell_results(once: Callable[[], Result], seconds: float) -> None:
    """Run it again and again for so long; print what it gave."""
    first = once()
    shown = _shown(first)
    digests, spread, began_s = {digest(first)}, 0.0, time.monotonic()
    runs = 1
    while time.monotonic() - began_s < seconds:
        result = once()
        digests.add(digest(result))
        spread = max(spread, *(abs(a - b) for a, b in zip(shown, _shown(result), strict=True)))
        runs += 1
    found = {
        "digests": sorted(digests),
        "first": digest(first),
        "runs": runs,
        "shown": shown,
        "spread": spread,
    }
    sys.stdout.write(json.dumps(found) + "\n")


def main() -> None:
    """The command line."""
    tell_results(PROGRAMS[sys.argv[1]](), float(sys.argv[2]))


if __name__ == "__main__":
    main()
