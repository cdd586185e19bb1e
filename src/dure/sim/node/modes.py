"""Ways to share a host's GPUs among containers: without Dure, as in the paper, and with Dure."""

from dataclasses import dataclass

from dure.domain.containers import PauseWay


@dataclass(frozen=True, slots=True)
class Mode:
    """One row of a comparison."""

    name: str
    about: str
    strategy: str | None = None
    """Of the node machine; None: there is none."""
    ways: tuple[PauseWay, ...] = ()
    queued: bool = False
    """Whether each container's program begins only when those before it have ended."""


_DOCKER = (PauseWay.DOCKER,)

MODES: dict[str, Mode] = {
    mode.name: mode
    for mode in (
        Mode("plain", "all at once, as Docker does it"),
        Mode(
            "one-after-another",
            "each job begins when the one before it has ended; services run beside them",
            queued=True,
        ),
        Mode("paper", "the paper's Algorithm 2, its loop of 60 ms", "paper", _DOCKER),
        Mode(
            "paper-window",
            "the same, one NVML window between two unpauses",
            "paper-window",
            _DOCKER,
        ),
        Mode("dure-docker", "Dure, pausing by `docker pause`", "dure", _DOCKER),
        Mode(
            "dure-cuda-lock",
            "Dure, pausing by the driver's CUDA lock",
            "dure",
            (PauseWay.CUDA_LOCK, PauseWay.DOCKER),
        ),
        Mode(
            "dure-lock-only",
            "the same where containers are never frozen (`--pause-with cuda-lock`)",
            "dure",
            (PauseWay.CUDA_LOCK,),
        ),
    )
}
