"""The second layer on a GPU: what shims count, what is decided about squads, and tenants."""

from dure.domain.metrics.kinds import counter, gauge, histogram

GATED = gauge("dure_gpu_gated", "1 while launches are judged: two tenants are there.", "gpu")
POLICY = gauge("dure_gpu_policy_info", "The policy of a GPU; always 1.", "gpu", "policy")
CLIENTS = gauge("dure_gpu_processes", "Processes of tenants on a GPU.", "gpu")
SQUADS_BEGUN = counter("dure_squads_total", "Squads that began.", "gpu")
PLAN_EPOCH = gauge("dure_plan_epoch", "Number of the plan published last.", "gpu")
PLAN_SQUADS = gauge("dure_plan_squads", "Squads of the plan in one cycle.", "gpu")
OBJECTIVE = gauge(
    "dure_gpu_objective_ratio", "The objective policies are judged by, lately.", "gpu"
)
ADAPTATIONS = counter(
    "dure_gpu_adaptations_total", "Policies proposed, switched, kept, rolled back.", "gpu", "kind"
)
DRY_RUNS = counter("dure_gpu_dry_runs_total", "Dry runs of policies.", "gpu")
TICKS = counter("dure_agent_ticks_total", "Decisions of the agent.", "gpu")
TICK_SECONDS = gauge("dure_agent_tick_seconds", "Length of the last decision.", "gpu")

_TENANT = ("gpu", "tenant")
PROCESSES = gauge("dure_tenant_processes", "Processes of a tenant.", *_TENANT)
LAUNCHES = counter("dure_tenant_launches_total", "Kernels launched.", *_TENANT)
MOVED = counter(
    "dure_tenant_moved_launches_total", "Of those, on a set of compute units.", *_TENANT
)
GPU_SECONDS = counter("dure_tenant_gpu_seconds_total", "Device time received.", *_TENANT)
BUSY_SECONDS = counter("dure_tenant_busy_seconds_total", "Time with work to do.", *_TENANT)
HELD_SECONDS = counter(
    "dure_tenant_held_seconds_total", "Time held at the gate, by reason.", *_TENANT, "reason"
)
LONGEST_HOLD = gauge("dure_tenant_longest_hold_seconds", "Longest in ten seconds.", *_TENANT)
COPIED = counter("dure_tenant_copied_bytes_total", "Bytes copied.", *_TENANT)
MEMORY = gauge("dure_tenant_memory_bytes", "Memory of a tenant's programs.", *_TENANT)
MEMORY_LIMIT = gauge("dure_tenant_memory_limit_bytes", "Its limit.", *_TENANT)
MEMORY_REFUSED = counter("dure_tenant_memory_refused_total", "Allocations refused.", *_TENANT)
LATENCY = histogram(
    "dure_tenant_latency_seconds", "Of bursts, or of requests where reported.", *_TENANT
)
LATENCY_NOW = gauge(
    "dure_tenant_latency_quantile_seconds", "Over the last five seconds.", *_TENANT, "quantile"
)
LATENCY_TARGET = gauge("dure_tenant_latency_target_seconds", "What was promised.", *_TENANT)
ON_TIME = gauge("dure_tenant_on_time_ratio", "Requests in time, of those lately.", *_TENANT)
AT_RISK = gauge("dure_tenant_at_risk", "1 while a promise is failing or about to.", *_TENANT)
WEIGHT = gauge("dure_tenant_weight", "Weight of its progress, as adapted.", *_TENANT)
REMAINING = gauge("dure_tenant_remaining_seconds", "Work left, as far as known.", *_TENANT)

KERNEL = (
    *(OBJECTIVE, ADAPTATIONS, DRY_RUNS),
    *(GATED, POLICY, CLIENTS, SQUADS_BEGUN, PLAN_EPOCH, PLAN_SQUADS, TICKS, TICK_SECONDS),
    *(PROCESSES, LAUNCHES, MOVED, GPU_SECONDS, BUSY_SECONDS, HELD_SECONDS, LONGEST_HOLD),
    *(COPIED, MEMORY, MEMORY_LIMIT, MEMORY_REFUSED, LATENCY, LATENCY_NOW, LATENCY_TARGET),
    *(ON_TIME, AT_RISK, WEIGHT, REMAINING),
)
