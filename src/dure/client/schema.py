"""What the agent's API takes and gives, as JSON: the contract of agent, client and commands.

Times are nanoseconds, sizes bytes, shares numbers from 0 to 1; names say so.
"""

from typing import Annotated, Literal

from pydantic import Field

from dure.client.containers import ContainersStatus
from dure.client.messages import Answer, Message

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$"
"""A tenant's name: up to 32 letters, digits, '.', '_' and '-', a letter or digit first."""

LONGEST_NS = 2**62
"""Longer than any duration anybody states; keeps sums within 64 bits."""

Sharing = Literal["isolated", "mps"]
"""How processes share a GPU: in time, each by itself, or side by side under MPS."""

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
DurationNs = Annotated[int, Field(gt=0, le=LONGEST_NS)]
SizeBytes = Annotated[int, Field(ge=0, le=LONGEST_NS)]


# ---- what a tenant is -------------------------------------------------------------------------


class LatencyPromise(Message):
    """A percentile of request latency stays within a target."""

    target_ns: DurationNs
    percentile: Annotated[float, Field(gt=0, lt=100)] = 99.0


class ThroughputPromise(Message):
    """Requests, or reported items, a second."""

    items_per_s: Positive
    window_ns: DurationNs = 1_000_000_000


class AvailabilityPromise(Message):
    """Share of one-second windows with demand in which it got its floor and was not held long."""

    share: Annotated[float, Field(gt=0, le=1)]
    floor_share: Share = 0.1
    max_hold_ns: DurationNs = 100_000_000


TenantClassName = Literal["guaranteed", "standard", "best-effort"]
GoalName = Literal["finish", "slo", "goodput"]


class TenantSpec(Message):
    """Everything its owner says of a tenant; the body of PUT /v1/tenants/{name}."""

    weight: Positive = 1.0
    tenant_class: TenantClassName = Field(
        default="standard", validation_alias="class", serialization_alias="class"
    )
    goal: GoalName | None = None
    """None: follows from the rest (a promise: slo; an expectation or a deadline: finish)."""
    latency_slo: LatencyPromise | None = None
    throughput_slo: ThroughputPromise | None = None
    availability_slo: AvailabilityPromise | None = None
    memory_limit_bytes: SizeBytes | None = None
    memory_reserve_bytes: SizeBytes = 0
    sm_share: Share = 0.0
    """Least share of the device while it has work."""
    expected_ns: DurationNs | None = None
    """How long its job takes alone, if its owner knows."""
    deadline_in_ns: DurationNs | None = None
    """How long from now its job must be done."""
    copy_bytes_per_s: Positive | None = None
    gpu: str | None = None
    """Index or UUID of the GPU it keeps to; None: any, the only one where there is one."""
    command: tuple[str, ...] = ()
    """What it runs: for people, and to learn from earlier runs of the same command."""
    free: bool = False
    """Never hold it: for programs whose processes wait for one another (collectives)."""
    keep: bool = False
    """Stay declared until it is forgotten on purpose. Otherwise the process that asks holds it:
    once that has ended and no process of the tenant is left, the tenant is forgotten."""


class TenantPatch(Message):
    """Changes to a tenant; what is not sent stays, what is sent as null is cleared."""

    weight: Positive | None = None
    tenant_class: TenantClassName | None = Field(
        default=None, validation_alias="class", serialization_alias="class"
    )
    goal: GoalName | None = None
    latency_slo: LatencyPromise | None = None
    throughput_slo: ThroughputPromise | None = None
    availability_slo: AvailabilityPromise | None = None
    memory_limit_bytes: SizeBytes | None = None
    memory_reserve_bytes: SizeBytes | None = None
    sm_share: Share | None = None
    expected_ns: DurationNs | None = None
    deadline_in_ns: DurationNs | None = None
    copy_bytes_per_s: Positive | None = None
    free: bool | None = None
    keep: bool | None = None

    def applied(self, spec: TenantSpec) -> TenantSpec:
        """The tenant with the changes; a field cleared by null gets its default back."""
        sent: dict[str, object] = {}
        for name in self.model_fields_set:
            value = getattr(self, name)
            default = TenantSpec.model_fields[name].default
            sent[name] = default if value is None else value
        return spec.model_copy(update=sent)


class TenantDeclared(Answer):
    """The answer to a declaration: what the tenant's processes need in their environment."""

    name: str
    gpu: str | None
    """UUID of the GPU it keeps to, if it keeps to one."""
    environment: dict[str, str]
    """Set these; LD_PRELOAD is to be put behind what is already there (':' between)."""
    notes: tuple[str, ...] = ()
    """Sentences worth showing: what was assumed, what cannot be kept."""


class EndRequest(Message):
    """POST /v1/tenants/{name}/end: end its processes in the way that harms nobody else."""

    grace_s: Annotated[float, Field(ge=0, le=60)] = 5.0
    """Between the request to end and SIGKILL."""


class EndAnswer(Answer):
    """What became of a tenant's processes."""

    asked: tuple[int, ...]
    """Processes that were told to end (under MPS their work was taken off the GPU first)."""
    killed: tuple[int, ...]
    """Of those, the ones that had to be killed."""


# ---- what is going on -------------------------------------------------------------------------


class ClientStatus(Answer):
    """One process of a tenant."""

    pid: int
    program: str
    gpu: str
    slot: int
    since_s: float
    """How long it has been registered."""
    memory_bytes: int
    green_contexts: int = 0
    """Sets of compute units it has open."""
    events: int = 0
    """The shim's own, open now."""
    flags: tuple[str, ...] = ()
    """capturing, open, no-green, collective, graph-unmoved."""


class LatencyStatus(Answer):
    """Latency over the last seconds; of bursts, or of requests as reported."""

    p50_ns: float
    p99_ns: float
    requests_per_s: float
    reported: bool
    target_ns: int | None = None
    percentile: float | None = None
    measured_ns: float | None = None
    """The promised percentile as the machine estimates it, waiting included."""
    on_time_share: float | None = None


class TenantStatus(Answer):
    """One tenant on one GPU; live figures are means over the last second or so."""

    name: str
    gpu: str | None
    """UUID; None: declared, on no GPU yet."""
    uid: int
    spec: TenantSpec
    clients: tuple[ClientStatus, ...]
    busy: bool = False
    gpu_share: float = 0.0
    """Of device time."""
    busy_share: float = 0.0
    """Of time in which it had work."""
    held_share: float = 0.0
    """Of time in which others held it; waiting for its own work in flight does not count."""
    launches_per_s: float = 0.0
    launches: int = 0
    """Ever, since it was declared."""
    latency: LatencyStatus | None = None
    memory_bytes: int = 0
    memory_limit_bytes: int | None = None
    memory_reserve_bytes: int = 0
    memory_refused: int = 0
    """Allocations refused by a limit or another's reserve, ever."""
    copied_bytes_per_s: float = 0.0
    weight_now: float | None = None
    """Eq. 3's weight."""
    at_risk: bool = False
    """A promise is failing or about to."""
    remaining_ns: float | None = None
    remaining_source: str | None = None
    progress_done: float | None = None
    progress_total: float | None = None
    moved_share: float = 0.0
    """Of launches: on a set of compute units."""
    fallbacks: int = 0
    passes_open: int = 0
    prediction_error: float | None = None
    """Smoothed |predicted - timed| / timed of timed launches."""
    squad_error: float | None = None
    """Median of the same over what was timed within each cycle of squads of the last seconds."""
    held_for: str | None = None
    """Whom it was mostly held for in the last second."""


class MemberStatus(Answer):
    """One tenant's part in a squad."""

    tenant: str
    sm_first: int
    sm_count: int
    beside: tuple[str, ...]
    budget_ns: int
    inflight_ns: int
    yields_to: tuple[str, ...]
    patience_ns: int
    linger_ns: int


class SquadStatus(Answer):
    """One squad of the plan."""

    duration_ns: int
    members: tuple[MemberStatus, ...]


class PlanStatus(Answer):
    """A plan: what is in force, or what would be."""

    epoch: int
    policy: str
    squads: tuple[SquadStatus, ...]
    protected: tuple[str, ...]


class GpuStatus(Answer):
    """One GPU."""

    index: int
    uuid: str
    name: str
    profile: str
    """The accelerator profile decisions are made with."""
    sms: int
    memory_bytes: int
    memory_used_bytes: int | None = None
    utilization: float | None = None
    """As NVML says: share of time in which some kernel ran."""
    temperature_c: float | None = None
    power_w: float | None = None
    policy: str
    parameters: dict[str, float]
    plan: PlanStatus | None
    gated: bool
    """Whether launches are asked for at all: not with one tenant."""
    gate_note: str | None = None
    """Why the gate is open, if it is."""
    edges: int
    """Squads that began, ever."""
    adopted_epoch: int = 0
    """Of the plan whose squads run; behind the plan's own until its first squad began."""
    adopted_ns: int = 0
    """When that one's first squad began, on the monotonic clock."""
    edges_per_s: float = 0.0
    tick_ns: int
    """How long the last tick took."""
    ticks: int
    clients: int
    client_slots: int


class GpuProcess(Answer):
    """A process on a GPU that is no client of the agent."""

    gpu: str
    pid: int
    name: str
    memory_bytes: int | None
    kind: Literal["compute", "graphics"] = "compute"


class EventLine(Answer):
    """Something worth knowing that happened."""

    at_unix_s: float
    kind: str
    """signal, tenant, client, policy, refused, planning, mps, container."""
    gpu: str | None = None
    tenant: str | None = None
    text: str


class AgentInfo(Answer):
    """The agent itself."""

    version: str
    pid: int
    uid: int
    started_unix_s: float
    run_dir: str
    sharing: Sharing
    socket: str
    """Where tenant programs register."""
    abi_version: int


class AgentStatus(Answer):
    """GET /v1/status."""

    agent: AgentInfo
    gpus: tuple[GpuStatus, ...]
    tenants: tuple[TenantStatus, ...]
    unmanaged: tuple[GpuProcess, ...]
    events: tuple[EventLine, ...]
    """Oldest first; the newest few hundred."""
    containers: ContainersStatus | None = None
    """None: this agent does not manage containers."""


class TenantList(Answer):
    """GET /v1/tenants."""

    tenants: tuple[TenantStatus, ...]


class HeldReason(Answer):
    """Why a tenant was held, and how long of the window."""

    reason: Literal["budget", "order", "promise", "in-flight"]
    held_ns: int


class HeldFor(Answer):
    """For whom a tenant was held, and how long of the window."""

    tenant: str
    held_ns: int
    promise: str | None = None
    """What that tenant was promised, in words."""


class WhyAnswer(Answer):
    """GET /v1/tenants/{name}/why."""

    tenant: str
    window_s: float
    sentences: tuple[str, ...]
    """One or two, for people."""
    held_ns: int
    """By others; its own work in flight, among the reasons, does not count."""
    held_share: float
    gpu_share: float
    reasons: tuple[HeldReason, ...]
    """Longest first."""
    holders: tuple[HeldFor, ...]
    """Longest first."""
    longest_hold_ns: int
    gpu: str | None = None
    """On which it was held most; None: it has no process anywhere."""
    advice: tuple[str, ...] = ()
    """What the advisor of that GPU last proposed or did, and why."""


# ---- policies and goals -----------------------------------------------------------------------


class PolicyRequest(Message):
    """PUT /v1/policy."""

    policy: str
    parameters: dict[str, float] = Field(default_factory=dict)
    gpu: str | None = None
    """Index or UUID; None: all."""
    dry_run: bool = False


class PolicyStatus(Answer):
    """The policy of one GPU."""

    gpu: str
    policy: str
    parameters: dict[str, float]
    """All of them, defaults included."""
    plan: PlanStatus | None = None
    """In force; after a dry run, what would be."""
    reason: str | None = None
    """After a dry run: what would change."""


class PolicyAnswer(Answer):
    """GET and PUT /v1/policy."""

    policies: tuple[PolicyStatus, ...]
    dry_run: bool = False


class TenantGoalSpec(Message):
    """What a goals file wants for one tenant; what is absent stays as it is."""

    latency_slo: LatencyPromise | None = None
    throughput_slo: ThroughputPromise | None = None
    availability_slo: AvailabilityPromise | None = None
    tenant_class: TenantClassName | None = Field(
        default=None, validation_alias="class", serialization_alias="class"
    )
    goal: GoalName | None = None
    weight: Positive | None = None
    sm_share: Share | None = None
    expected_ns: DurationNs | None = None
    deadline_in_ns: DurationNs | None = None
    memory_limit_bytes: SizeBytes | None = None
    memory_reserve_bytes: SizeBytes | None = None


class GoalsRequest(Message):
    """POST /v1/goals: a goals file with its units read; see `dure.client.convert.goals_request`."""

    objective: (
        Literal["finish jobs soon", "keep promises", "most useful work", "fair shares"] | None
    ) = None
    fairness: Share | None = None
    starvation_ns: DurationNs | None = None
    tenants: dict[str, TenantGoalSpec] = Field(default_factory=dict)
    file: str = ""
    gpu: str | None = None
    dry_run: bool = False


class GoalsAnswer(Answer):
    """What followed from goals."""

    policy: str
    parameters: dict[str, float]
    reasons: tuple[str, ...]
    tenants: dict[str, TenantSpec]
    policies: tuple[PolicyStatus, ...]
    dry_run: bool = False


# ---- reports of programs ----------------------------------------------------------------------


class Report(Message):
    """POST /v1/tenants/{name}/reports: request latencies, or progress."""

    latencies_ns: tuple[Annotated[int, Field(ge=0, le=LONGEST_NS)], ...] = ()
    done: Annotated[float, Field(ge=0)] | None = None
    total: Positive | None = None


class Problem(Answer):
    """Any refusal: one sentence, and what to do."""

    error: str
    remedy: str = ""
