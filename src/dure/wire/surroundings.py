"""What the local stage needs to know beside its orders: cluster, policy, tenants, pools."""

from dure.domain.fleet.clusters import Cluster, ClusterClass, NodeGroup, Tariff
from dure.domain.fleet.policy import ClassPolicy, CongestionRules, FleetPolicy
from dure.domain.fleet.protocol.desired import Partition, Surroundings
from dure.domain.fleet.series import Series
from dure.domain.fleet.slices import ShareMode
from dure.domain.fleet.tenancy import Allotment, Budget, FleetTenant, Team, VNodePool
from dure.domain.fleet.virtual import VirtualCluster, VirtualTier
from dure.wire.kinds import array, choice, flag, many, mapping, maybe, moment, name, signed, whole
from dure.wire.records import record
from dure.wire.v1 import member_pb2 as pb
from dure.wire.workloads import MOST_DEVICES, amount, any_text, count, names, priority, some

MOST_NODES = 1_000_000
"""Of one group."""

mode = choice(ShareMode, pb.ShareMode)
series = record(Series, pb.Series, values=array(), start_ns=moment(), step_ns=whole(1))
tariff = record(
    Tariff, pb.Tariff, currency=name(), device_hour=mapping(amount), calendar=many(amount)
)
node_group = record(
    NodeGroup,
    pb.NodeGroup,
    name=name(),
    count=whole(0, MOST_NODES),
    profile=name(),
    devices=whole(0, MOST_DEVICES),
    cpu_milli=count,
    host_memory_bytes=count,
    link_domain=count,
    numa_domains=count,
    base_power_w=amount,
    mode=mode,
    boot_s=amount,
)
cluster = record(
    Cluster,
    pb.Cluster,
    id=name(),
    region=any_text,
    provider=any_text,
    cluster_class=choice(ClusterClass, pb.ClusterClass),
    groups=many(node_group),
    tariff=tariff,
    carbon_g_per_kwh=series,
    electricity_per_mwh=series,
    pue=amount,
)
class_policy = record(
    ClassPolicy,
    pb.ClassPolicy,
    cost_weight=amount,
    carbon_per_tonne=amount,
    sla_weight=amount,
    locality_weight=amount,
    defer=flag(),
    migrate=flag(),
    preempt=flag(),
    migration_threshold=signed(),
    migration_share=signed(),
    cool_down_ns=count,
    minimum_runtime_ns=count,
)
congestion = record(
    CongestionRules,
    pb.CongestionRules,
    damping=amount,
    most_change=amount,
    pinned=mapping(amount),
    frozen=flag(),
    enabled=flag(),
)
policy = record(
    FleetPolicy,
    pb.FleetPolicy,
    training=class_policy,
    batch=class_policy,
    serving=class_policy,
    congestion=congestion,
    adapt_latency=flag(),
    adapt_locality=flag(),
    locality=flag(),
    defer=flag(),
    migrate=flag(),
    forecast=flag(),
    carbon_budget_g=maybe(amount),
    period_ns=whole(1),
    period_start_ns=maybe(moment()),
    submissions_ns=maybe(count),
    most_moves=count,
    most_preemptions=count,
    reclaim_after_ns=maybe(count),
    dry_run=flag(),
    local_moves_at_once=maybe(count),
    local_moves_per_hour=maybe(count),
)
budget = record(Budget, pb.Budget, money=maybe(amount), carbon_g=maybe(amount))
team = record(Team, pb.Team, name=name(), budget=budget)
tenant = record(
    FleetTenant,
    pb.FleetTenant,
    id=name(),
    weight=some,
    priority=priority,
    budget=budget,
    teams=many(team),
)
pool = record(
    VNodePool,
    pb.VNodePool,
    id=name(),
    tenant=name(),
    profile=name(),
    template=any_text,
    mode=mode,
    clusters=names,
    guaranteed=count,
    lendable=count,
    maximum=maybe(count),
    dedicated=flag(),
)
allotment = record(
    Allotment,
    pb.Allotment,
    pool=name(),
    cluster=name(),
    units=count,
    lent=count,
    revision=count,
    until_ns=maybe(moment()),
)
partition = record(Partition, pb.Partition, node=name(), layout=name(), number=count, drain=flag())
virtual_cluster = record(
    VirtualCluster,
    pb.VirtualCluster,
    name=name(),
    tenant=name(),
    tier=choice(VirtualTier, pb.VirtualTier),
    number=count,
    namespace=any_text,
    pools=many(name()),
    quota=mapping(any_text),
    defaults=mapping(any_text),
    isolated=flag(),
    leaving=flag(),
    forced=flag(),
)
surroundings = record(
    Surroundings,
    pb.Surroundings,
    cluster=cluster,
    policy=policy,
    tenants=many(tenant),
    pools=many(pool),
    allotments=many(allotment),
    round_trip_ms=amount,
    partitions=many(partition),
    virtual=many(virtual_cluster),
)
