"""All metrics of all layers: what dashboards and alert rules may name."""

from dure.domain.metrics.fleet import FLEET
from dure.domain.metrics.hardware import HARDWARE
from dure.domain.metrics.kernel import KERNEL
from dure.domain.metrics.kinds import Metric
from dure.domain.metrics.member import MEMBER
from dure.domain.metrics.node import NODE
from dure.domain.metrics.own import OWN

ALL: tuple[Metric, ...] = (*HARDWARE, *KERNEL, *NODE, *FLEET, *MEMBER, *OWN)
