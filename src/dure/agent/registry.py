"""Who is declared and who holds the declaration: the agent's memory of tenants, as plain data."""

from dataclasses import dataclass, field, replace

from dure.client.convert import tenant_of
from dure.client.schema import TenantSpec
from dure.domain.errors import DureError, InputError
from dure.domain.ids import TenantId
from dure.domain.promises import LEAST_LATENCY_NS
from dure.domain.tenant import Tenant
from dure.domain.units import NS_PER_MS, NS_PER_S, format_bytes, format_duration

ROOT_UID = 0

GRACE_NS = 500 * NS_PER_MS
"""How long a tenant stays after its holder and its last process are gone: a restart by a
supervisor finds it still there."""

_LONGEST_HISTORY = 256
_HISTORY_STEP = 0.3
"""How fast the length of a command's runs follows the newest run."""
_LEAST_RUN_NS = 1 * NS_PER_S
"""Device time below which a run says nothing about how long the command takes."""


class ForbiddenError(DureError):
    """Somebody asked for what is another user's."""


class UnknownTenantError(InputError):
    """There is no such tenant."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that holds a declaration; its start time tells it from a later one of its pid."""

    pid: int
    started: int


@dataclass(slots=True)
class Declared:
    """One declared tenant."""

    name: str
    uid: int
    spec: TenantSpec
    deadline_unix_ns: int | None = None
    holders: set[Holder] = field(default_factory=set)
    alone_since_ns: int | None = None
    """Since when neither a holder nor a process of it is there."""
    expected_from_history: bool = False
    counted_gpu_ns: int = 0
    """Device time of its runs that history knows already."""

    @property
    def id(self) -> TenantId:
        return TenantId(self.name)


@dataclass(frozen=True, slots=True)
class CommandHistory:
    """What earlier runs of one command took."""

    runs: int
    gpu_ns: float


@dataclass(slots=True)
class Registry:
    """All declared tenants, and what commands took before."""

    tenants: dict[str, Declared] = field(default_factory=dict)
    history: dict[str, CommandHistory] = field(default_factory=dict)

    def find(self, name: str) -> Declared:
        """A tenant by name; raises where there is none."""
        found = self.tenants.get(name)
        if found is None:
            known = ", ".join(sorted(self.tenants))
            remedy = f"declared: {known}" if known else "none is declared"
            raise UnknownTenantError(f"there is no tenant '{name}'", remedy)
        return found

    def find_for(self, name: str, uid: int) -> Declared:
        """A tenant that this user may change."""
        found = self.find(name)
        if uid not in (found.uid, ROOT_UID):
            raise ForbiddenError(
                f"tenant '{name}' belongs to user {found.uid}", "ask that user, or root"
            )
        return found

    def declare(self, name: str, uid: int, spec: TenantSpec, unix_ns: int) -> Declared:
        """A tenant as its owner wants it; not yet entered, so that others may still refuse it."""
        before = self.tenants.get(name)
        if before is not None and uid not in (before.uid, ROOT_UID):
            raise ForbiddenError(
                f"the name '{name}' is taken by a tenant of user {before.uid}",
                "use another name",
            )
        refuse_impossible(name, spec)
        due = spec.deadline_in_ns
        return Declared(
            name=name,
            uid=before.uid if before is not None else uid,
            spec=spec,
            deadline_unix_ns=unix_ns + due if due is not None else None,
            holders=set(before.holders) if before is not None else set(),
        )

    def tenant(self, declared: Declared, monotonic_ns: int, unix_ns: int) -> Tenant:
        """The tenant to decide with, on the machine's clock, with what history adds."""
        due = declared.deadline_unix_ns
        deadline_ns = due - unix_ns + monotonic_ns if due is not None else None
        tenant = tenant_of(declared.name, declared.spec, deadline_ns=deadline_ns)
        known = self.history.get(command_key(declared))
        declared.expected_from_history = bool(
            known and tenant.expected_ns is None and tenant.slo.latency is None
        )
        if known and declared.expected_from_history:
            tenant = replace(tenant, expected_ns=round(known.gpu_ns))
        return tenant

    def learn_run(self, declared: Declared, took: int) -> bool:
        """A run of a tenant's command took so much device time; whether that is worth keeping."""
        key = command_key(declared)
        if not declared.spec.command or took < _LEAST_RUN_NS:
            return False
        before = self.history.pop(key, None)
        mean = took if before is None else before.gpu_ns + _HISTORY_STEP * (took - before.gpu_ns)
        self.history[key] = CommandHistory((before.runs if before else 0) + 1, float(mean))
        while len(self.history) > _LONGEST_HISTORY:
            del self.history[next(iter(self.history))]
        return True


def command_key(declared: Declared) -> str:
    """Runs of one user's command count as runs of the same thing."""
    return f"{declared.uid} " + " ".join(declared.spec.command)


def refuse_impossible(name: str, spec: TenantSpec) -> None:
    """What no GPU could keep."""
    latency = spec.latency_slo
    if latency is not None and latency.target_ns < LEAST_LATENCY_NS:
        raise InputError(
            f"a latency of {format_duration(latency.target_ns)} for '{name}' is shorter than one "
            "launch takes on any GPU",
            f"state {format_duration(LEAST_LATENCY_NS)} or more",
        )
    limit, reserve = spec.memory_limit_bytes, spec.memory_reserve_bytes
    if limit is not None and limit < reserve:
        raise InputError(
            f"tenant '{name}' has a memory limit of {format_bytes(limit)}, below its reserve",
            "raise the limit or lower the reserve",
        )
    promised = latency or spec.throughput_slo or spec.availability_slo
    if promised is not None and spec.tenant_class == "best-effort":
        raise InputError(
            f"best-effort tenant '{name}' takes what is left, so nothing can be promised to it",
            "remove the promise or make it standard",
        )
