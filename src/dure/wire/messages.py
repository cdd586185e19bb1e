"""Desired sets, answers, reports, and the words of the link itself."""

from dure.domain.fleet.lifecycle import JobPhase, PartitionPhase
from dure.domain.fleet.protocol.desired import AttemptKey, Desired, PlanAnswer, Refusal, Want
from dure.domain.fleet.protocol.link import (
    AccessAnswer,
    AccessRequest,
    Ack,
    Goodbye,
    Hello,
    LogCancel,
    LogChunk,
    LogRequest,
    Ping,
    Welcome,
)
from dure.domain.fleet.protocol.reports import (
    AttemptStatus,
    InstanceStatus,
    Inventory,
    NodeFact,
    Outcome,
    PartitionStatus,
    Report,
    RunPhase,
    ServiceLoad,
    Sizing,
    Usage,
)
from dure.domain.fleet.protocol.services import (
    LoadSignal,
    RouteBackend,
    Routes,
    ServiceRoute,
    Signals,
)
from dure.domain.fleet.protocol.wishes import Standing, Standings, Wish, Wishes, WishRefusal
from dure.domain.fleet.virtual import SpacePhase, SpaceStatus
from dure.wire.kinds import (
    choice,
    data,
    flag,
    json_object,
    many,
    maybe,
    moment,
    name,
    shown,
    unordered,
    whole,
)
from dure.wire.records import pair, record
from dure.wire.surroundings import node_group
from dure.wire.v1 import member_pb2 as pb
from dure.wire.workloads import (
    amount,
    any_text,
    count,
    long_text,
    order,
    placement,
    program,
    share,
    site_summary,
    some,
    thing,
)

MOST_LOG_BYTES = 1024 * 1024
"""Of one chunk."""
EXIT_CODES = (-(2**31), 2**32)
"""Of any system; below zero: the signal that ended a process."""

MOST_WISHES = 1000
"""In one message."""
MOST_SIGNALS = 1000
"""In one message."""

key = record(AttemptKey, pb.AttemptKey, job=name(), attempt=count)
desired = record(
    Desired,
    pb.Desired,
    order=order,
    program=program,
    namespace=any_text,
    want=choice(Want, pb.Want),
    why=long_text,
    fence_after_s=maybe(amount),
    checkpoint=count,
    gentle=flag(),
)
refusal = record(Refusal, pb.Refusal, key=key, why=long_text)
answer = record(
    PlanAnswer,
    pb.PlanAnswer,
    epoch=count,
    revision=count,
    taken=flag(),
    why=long_text,
    accepted=many(key),
    refused=many(refusal),
)

# --- reports -----------------------------------------------------------------------------------

instance = record(
    InstanceStatus,
    pb.InstanceStatus,
    index=count,
    node=any_text,
    name=any_text,
    placement=placement,
    ready=flag(),
    address=any_text,
    standby=flag(),
)
sizing = record(
    Sizing,
    pb.Sizing,
    serving=count,
    standby=count,
    level=count,
    why=long_text,
    changed_ns=moment(),
    requests_per_s=amount,
    queue_length=amount,
    latency_ms=amount,
    heard_ns=moment(),
)
attempt = record(
    AttemptStatus,
    pb.AttemptStatus,
    key=key,
    phase=choice(RunPhase, pb.RunPhase),
    outcome=maybe(choice(Outcome, pb.Outcome)),
    why=long_text,
    instances=many(instance),
    done_share=share,
    saved_share=share,
    started_ns=maybe(moment()),
    ended_ns=maybe(moment()),
    exit_code=maybe(whole(*EXIT_CODES)),
    sizing=maybe(sizing),
    checkpointed=count,
)
node = record(NodeFact, pb.NodeFact, name=name(), group=any_text, up=flag(), why=long_text)
inventory = record(
    Inventory,
    pb.Inventory,
    groups=many(node_group),
    nodes=many(node),
    features=unordered(name()),
    things=unordered(pair(pb.TenantThing, tenant=name(), thing=thing)),
)
load = record(
    ServiceLoad,
    pb.ServiceLoad,
    workload=name(),
    requests_per_s=amount,
    replicas=count,
    violated_share=share,
)
usage = record(
    Usage,
    pb.Usage,
    key=key,
    device_us=count,
    since_ns=moment(),
    until_ns=moment(),
    memory_bytes=count,
    compute_share=amount,
)
partition = record(
    PartitionStatus,
    pb.PartitionStatus,
    node=name(),
    number=count,
    phase=choice(PartitionPhase, pb.PartitionPhase),
    why=long_text,
)
space = record(
    SpaceStatus,
    pb.SpaceStatus,
    name=name(),
    number=count,
    phase=choice(SpacePhase, pb.SpacePhase),
    why=long_text,
    pods=count,
)
report = record(
    Report,
    pb.Report,
    seq=whole(1),
    at_ns=moment(),
    whole=flag(),
    attempts=many(attempt),
    sites=many(site_summary),
    inventory=maybe(inventory),
    loads=many(load),
    usage=many(usage),
    warnings=many(long_text),
    partitions=many(partition),
    spaces=many(space),
)

# --- wishes of people --------------------------------------------------------------------------

wish = record(
    Wish,
    pb.Wish,
    uid=name(),
    generation=count,
    namespace=name(),
    name=name(),
    document=json_object(),
    withdrawn=flag(),
)
wishes = record(Wishes, pb.Wishes, wishes=many(wish, MOST_WISHES))
wish_refusal = record(
    WishRefusal,
    pb.WishRefusal,
    reason=name(),
    field=any_text,
    what=long_text,
    remedy=long_text,
    final=flag(),
)
standing = record(
    Standing,
    pb.Standing,
    uid=name(),
    generation=count,
    job=any_text,
    refusal=maybe(wish_refusal),
    withdrawn=flag(),
    phase=choice(JobPhase, pb.JobPhase),
    suspended=flag(),
    attempt=count,
    cluster=any_text,
    slice=any_text,
    cost_per_hour=shown(),
    currency=any_text,
    g_co2_per_hour=shown(),
    why=long_text,
)
standings = record(Standings, pb.Standings, standings=many(standing, MOST_WISHES))

# --- where services answer ---------------------------------------------------------------------

route_backend = record(RouteBackend, pb.RouteBackend, attempt=count, address=any_text, weight=count)
route = record(
    ServiceRoute,
    pb.ServiceRoute,
    job=name(),
    name=any_text,
    namespace=any_text,
    port=count,
    backends=many(route_backend),
    ended=flag(),
)
routes = record(Routes, pb.Routes, services=many(route), whole=flag())

# --- the load of services ----------------------------------------------------------------------

signal = record(
    LoadSignal,
    pb.LoadSignal,
    workload=name(),
    source=name(),
    at_ns=moment(),
    until_ns=moment(),
    requests_per_s=maybe(amount),
    queue_length=maybe(amount),
    latency_ms=maybe(amount),
)
signals = record(Signals, pb.Signals, signals=many(signal, MOST_SIGNALS))

# --- the link itself ---------------------------------------------------------------------------

hello = record(
    Hello,
    pb.Hello,
    cluster=name(),
    kind=name(),
    incarnation=name(),
    version=name(),
    epoch=count,
    revision=count,
    takes_signals=flag(),
    takes_routes=flag(),
)
welcome = record(
    Welcome,
    pb.Welcome,
    version=name(),
    heard=count,
    now_ns=moment(),
    silence_s=some,
    takes_wishes=flag(),
)
ping = record(Ping, pb.Ping)
ack = record(Ack, pb.Ack, seq=count)
goodbye = record(Goodbye, pb.Goodbye, why=long_text, retry_elsewhere=flag())
log_request = record(
    LogRequest, pb.LogRequest, id=count, key=key, index=count, follow=flag(), tail=maybe(count)
)
log_cancel = record(LogCancel, pb.LogCancel, id=count)
log_chunk = record(
    LogChunk, pb.LogChunk, id=count, data=data(MOST_LOG_BYTES), end=flag(), error=long_text
)
access_request = record(AccessRequest, pb.AccessRequest, id=count, name=name(), for_s=count)
access_answer = record(
    AccessAnswer,
    pb.AccessAnswer,
    id=count,
    token=long_text,
    url=any_text,
    authority=long_text,
    namespace=any_text,
    error=long_text,
)
