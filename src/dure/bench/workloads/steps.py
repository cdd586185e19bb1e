"""Makes a model into a step, the function that runs one iteration, and readies it for timing."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

Step = Callable[[], None]

WARM_UP_STEPS = 20
STEPS_BEFORE_CAPTURE = 3


def training_step(
    loss_of: Callable[[], Tensor], model: nn.Module, optimizer: torch.optim.Optimizer
) -> Step:
    model.train()

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = loss_of()
        loss.backward()
        optimizer.step()

    return step


def inference_step(model: nn.Module, *inputs: Tensor) -> Step:
    model.eval()

    @torch.inference_mode()
    def step() -> None:
        model(*inputs)

    return step


@dataclass(frozen=True)
class Replay:
    """A step captured as one CUDA graph."""

    graph: torch.cuda.CUDAGraph
    eager: Step  # owns the weights and inputs, which the graph knows by address alone

    def __call__(self) -> None:
        self.graph.replay()


def captured(eager: Step) -> Replay:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(STEPS_BEFORE_CAPTURE):
            eager()
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        eager()
    return Replay(graph, eager)


def ready(build: Callable[[], Step], graph: bool) -> Step:
    """Build, capture if asked, and warm up."""
    return warmed(built(build), graph, tune=True)


def built(build: Callable[[], Step]) -> Step:
    """Build it and load the libraries it needs, which any number of processes may do at once.

    The convolution has a shape no workload has: a choice of algorithm, once made, is kept.
    """
    torch.manual_seed(0)
    step = build()
    odd = torch.ones(1, 8, 5, 7, device="cuda", dtype=torch.float16)
    nn.functional.conv2d(odd, odd[:, :, :3, :3])
    odd[0, 0] @ odd[0, 0].T
    torch.cuda.synchronize()
    return step


def warmed(eager: Step, graph: bool, *, tune: bool) -> Step:
    """Capture if asked, and warm up; to tune is to time algorithms, which needs the GPU alone."""
    torch.backends.cudnn.benchmark = tune
    step = captured(eager) if graph else eager
    for _ in range(WARM_UP_STEPS):
        step()
    torch.cuda.synchronize()
    return step


def wait_for_gpu() -> None:
    """Busy-wait, as a client that cares for latency does."""
    stream = torch.cuda.current_stream()
    while not stream.query():
        pass
