"""Hosts whose containers run under the strategy `dure`."""

from dure.domain.containers import PauseWay
from dure.domain.units import GIB, NS_PER_S
from dure.node.history import ImageRecord
from dure.node.settings import NodeSettings
from tests.node.factories import MS, Host, container

DOCKER = (PauseWay.DOCKER,)
LOCK = (PauseWay.CUDA_LOCK,)


def known(image: str, seconds: float, gib: float = 4.0, share: float | None = None) -> ImageRecord:
    length = round(seconds * NS_PER_S)
    return ImageRecord(image, int(gib * GIB), (length,), (length,), share)


def host_with(*records: ImageRecord, ways: tuple[PauseWay, ...] = DOCKER) -> Host:
    return Host(NodeSettings(ways=ways, history=records))


def compute(host: Host, name: str, image: str = "job") -> None:
    """Start a container that computes as soon as it may."""
    host.start(container(name, image=image))
    host.work(name, share=1.0)
    host.run(60 * MS)
