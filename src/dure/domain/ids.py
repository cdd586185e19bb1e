"""Identifiers, as distinct types so that one kind cannot be passed for another."""

from typing import NewType

TenantId = NewType("TenantId", str)
"""A user of an accelerator: a program, a service, a team; unique on its host."""

PlanEpoch = NewType("PlanEpoch", int)
"""Counts the plans a machine has published; a higher epoch replaces a lower one."""
