"""Orders, the workloads they are for, and the programs these run."""

from dure.domain.fleet.decisions import (
    Alternative,
    Explanation,
    Order,
    Placement,
    Site,
    SiteSummary,
)
from dure.domain.fleet.profiles import DataType
from dure.domain.fleet.programs import Mount, Program, Thing, ThingKind
from dure.domain.fleet.workloads import (
    Demand,
    Gang,
    Service,
    Sla,
    WhenCutOff,
    Work,
    Workload,
    WorkloadKind,
)
from dure.wire.kinds import (
    INT64,
    MOST_LONG_TEXT,
    capped,
    choice,
    flag,
    json_object,
    many,
    mapping,
    maybe,
    moment,
    name,
    number,
    shown,
    text,
    unordered,
    whole,
)
from dure.wire.records import pair, record, wrapped
from dure.wire.v1 import member_pb2 as pb

MOST_PARTS = 4096
"""Arguments, variables, mounts, terms of a sum: of one program or workload."""
MOST_DEVICES = 1024
"""Of one instance."""
MOST_PORT = 65_535

any_text = text()
long_text = text(MOST_LONG_TEXT)
count = whole()
amount = number()
some = number(5e-324)
"""More than nothing."""
share = number(0.0, 1.0)
priority = whole(-(2**31), 2**31)
figure = pair(pb.Figure, name=any_text, value=shown())
names = maybe(wrapped(pb.Names, names=unordered(name())))

# --- programs ----------------------------------------------------------------------------------

thing = record(Thing, pb.Thing, kind=choice(ThingKind, pb.ThingKind, as_value=True), name=name())
mount = record(Mount, pb.Mount, thing=thing, path=name(), read_only=flag())
program = record(
    Program,
    pb.Program,
    image=any_text,
    command=many(long_text, MOST_PARTS),
    args=many(long_text, MOST_PARTS),
    env=mapping(long_text, MOST_PARTS),
    env_from=many(thing, MOST_PARTS),
    mounts=many(mount, MOST_PARTS),
    working_dir=any_text,
    service_account=any_text,
    grace_s=amount,
    port=maybe(whole(1, MOST_PORT)),
    labels=mapping(any_text, MOST_PARTS),
    annotations=mapping(long_text, MOST_PARTS),
    pod=json_object(),
)

# --- workloads ---------------------------------------------------------------------------------

demand = record(
    Demand,
    pb.Demand,
    memory_bytes=count,
    compute_tops=amount,
    bandwidth_bytes_per_s=amount,
    cpu_milli=count,
    host_memory_bytes=count,
    data_type=choice(DataType, pb.DataType),
    devices=whole(0, MOST_DEVICES),
    whole=flag(),
)
sla = record(
    Sla,
    pb.Sla,
    deadline_ns=maybe(moment()),
    penalty_per_hour_late=amount,
    penalty_per_violated_minute=amount,
    penalty_cap=capped(),
)
work = record(Work, pb.Work, reference_s=amount, reference=name(), compute_bound=share)
gang = record(
    Gang,
    pb.Gang,
    workers=whole(1),
    most_workers=maybe(whole(1)),
    growth=amount,
    checkpoint_s=maybe(amount),
    checkpoint_bytes=count,
)
service = record(
    Service,
    pb.Service,
    requests_per_s=amount,
    replica_requests_per_s=some,
    target_latency_ms=amount,
    service_time_ms=amount,
    warm_minimum=count,
    most_replicas=count,
    spread=count,
    users=many(pair(pb.Figure, name=any_text, value=amount), MOST_PARTS),
    reference=name(),
    load_s=amount,
    standby=count,
    shrink_after_s=maybe(amount),
    forgets_bursts=flag(),
)
workload = record(
    Workload,
    pb.Workload,
    id=name(),
    tenant=name(),
    kind=choice(WorkloadKind, pb.WorkloadKind),
    demand=demand,
    submitted_ns=moment(),
    team=any_text,
    service_name=any_text,
    priority=priority,
    pool=maybe(name()),
    work=maybe(work),
    gang=gang,
    service=maybe(service),
    sla=sla,
    weights=maybe(name()),
    data=many(name(), MOST_PARTS),
    clusters=names,
    profiles=names,
    delay_tolerant=flag(),
    preemptible=flag(),
    when_cut_off=choice(WhenCutOff, pb.WhenCutOff),
)

# --- decisions ---------------------------------------------------------------------------------

site = record(Site, pb.Site, cluster=name(), group=name())
alternative = record(
    Alternative, pb.Alternative, site=site, start_ns=moment(), total=shown(), why=long_text
)
explanation = record(
    Explanation,
    pb.Explanation,
    terms=many(figure, MOST_PARTS),
    g_co2=shown(),
    sla_risk=shown(),
    congestion=shown(),
    runner_up=maybe(alternative),
    note=long_text,
)
order = record(
    Order,
    pb.Order,
    workload=workload,
    site=site,
    attempt=count,
    instances=whole(0, 2**31),
    resume_share=share,
    start_ns=moment(),
    explanation=explanation,
    makes_room=flag(),
)
placement = record(
    Placement,
    pb.Placement,
    node=count,
    devices=many(count, MOST_DEVICES),
    masks=many(whole(0, INT64 - 1), MOST_DEVICES),
    template=any_text,
    compute_milli=whole(0, 1000),
)
site_summary = record(
    SiteSummary,
    pb.SiteSummary,
    site=site,
    profile=name(),
    nodes=count,
    nodes_in_use=count,
    devices=count,
    free_devices=count,
    free_on_used_nodes=count,
    free_compute_milli=count,
    free_memory_bytes=count,
    free_cpu_milli=count,
    free_host_memory_bytes=count,
    largest_node_free=count,
    free_slices=many(pair(pb.Count, name=name(), count=count), MOST_PARTS),
    waiting_devices=count,
    fragmentation=amount,
    revision=count,
    free_bandwidth_milli=maybe(count),
    nodes_by_free=many(count, MOST_DEVICES + 1),
)
