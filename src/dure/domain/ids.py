"""Identifiers, as distinct types so that one kind cannot be passed for another."""

from typing import NewType

TenantId = NewType("TenantId", str)
"""A user of an accelerator: a program, a service, a team; unique on its host."""

PlanEpoch = NewType("PlanEpoch", int)
"""Counts the plans a machine has published; a higher epoch replaces a lower one."""

ClusterId = NewType("ClusterId", str)
"""A member cluster of the fleet."""

WorkloadId = NewType("WorkloadId", str)
"""One submitted workload; unique in the fleet and for ever."""

PoolId = NewType("PoolId", str)
"""A vNode pool; unique in the fleet."""

ArtefactId = NewType("ArtefactId", str)
"""A model's weights or a data set."""

ContainerId = NewType("ContainerId", str)
"""A container's full id, as its runtime gives it."""

GpuUuid = NewType("GpuUuid", str)
"""A GPU of a host, as NVML names it."""
