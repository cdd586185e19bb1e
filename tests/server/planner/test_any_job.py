"""Whatever the interface takes, the machine plans: extremes of every figure people may give."""

import json
import time
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dure.api.base import read_document, stored
from dure.api.jobs import JobSpec
from dure.domain.fleet.catalogue import CATALOGUE
from dure.domain.fleet.clusters import Cluster, ClusterClass
from dure.domain.fleet.events import ClusterJoined, TenantSet
from dure.domain.fleet.profiles import DataType
from dure.domain.fleet.tenancy import FleetTenant
from dure.domain.ids import ClusterId, TenantId
from dure.fleet.global_machine import GlobalMachine
from dure.fleet.global_settings import GlobalSettings
from dure.server import specs
from dure.server.planner.book import Book
from dure.server.planner.centre import Centre
from dure.server.planner.suspects import Suspects
from dure.stores.ids import new_id
from dure.stores.rows import Job
from dure.wire.codec import check
from tests.server.members import group, summary

ROOM = 32
durations = st.sampled_from(["0s", "1ns", "1h", "300d", "53000d", "0.000000001s"])
sizes = st.sampled_from(["0B", "0.5B", "1GiB", "41GiB", "4000000TiB"])
figures = st.sampled_from([0.0, 5e-324, 1e-6, 0.5, 7.3, 1e12])
positive = st.sampled_from([1e-6, 1.0, 1e12])
profiles = st.sampled_from(sorted(CATALOGUE))
counts = st.sampled_from([1, 2, 9, 64])


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


resources = some(
    memory=sizes,
    tops=figures,
    bandwidth=sizes,
    cpu=figures,
    hostMemory=sizes,
    dataType=st.sampled_from([each.value for each in DataType]),
    devices=counts,
    whole=st.booleans(),
    profiles=st.lists(profiles, min_size=1, max_size=3),
)
shared = {
    "priority": st.sampled_from([-1000, 0, 1000]),
    "resources": resources,
    "gang": some(
        workers=counts,
        mostWorkers=st.just(4096),
        growth=st.sampled_from([5e-324, 1e-9, 1.0]),
        checkpointEvery=st.none() | durations,
        checkpointSize=sizes,
    ),
    "weights": st.builds(lambda size: {"name": "w", "size": size}, sizes),
    "onClusterLost": st.sampled_from(["wait", "replace"])
    | st.builds(lambda each: {"fenceAfter": each}, durations),
    "grace": durations,
    "delayTolerant": st.booleans(),
    "preemptible": st.booleans(),
}
work = st.fixed_dictionaries(
    {"time": durations},
    optional={"reference": profiles, "computeBound": st.sampled_from([0.0, 5e-324, 1.0])},
)
deadlines = st.sampled_from(["+0s", "+1h", "+53000d", "1970-01-01T00:00:00Z"])
penalties = {"penaltyPerHour": figures, "penaltyPerMinute": figures, "cap": figures}
batch = st.fixed_dictionaries(
    {"kind": st.sampled_from(["batch", "training"])},
    optional={**shared, "work": work, "sla": some(deadline=deadlines, **penalties)},
)
service = st.fixed_dictionaries(
    {
        "requestsPerSecond": figures,
        "replicaRequestsPerSecond": positive,
        "latency": durations,
        "serviceTime": durations,
    },
    optional={
        "warm": st.sampled_from([0, 1, 64]),
        "spread": counts,
        "users": st.dictionaries(st.sampled_from(["kr", "us"]), positive),
        "loadTime": durations,
        "reference": profiles,
    },
)
serving = st.fixed_dictionaries(
    {"kind": st.just("serving"), "service": service},
    optional={**shared, "sla": some(**penalties)},
)


def centre() -> Centre:
    """A centre with two clusters that have room."""
    machine = GlobalMachine(GlobalSettings(specs.fleet_of((), ()), specs.policy_of(None)))
    made = Centre(machine, Book(None, {}), time.time_ns, Suspects())  # type: ignore[arg-type]
    made.feed(TenantSet(time.time_ns(), FleetTenant(TenantId("acme")), ()))
    for name in ("seoul", "busan"):
        cluster = Cluster(ClusterId(name), "kr", "", ClusterClass.CLOUD, (group(),))
        made.feed(ClusterJoined(time.time_ns(), cluster))
        made.summarise((summary(name, ROOM),))
    return made


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(batch | serving, min_size=1, max_size=4))
@example([{"kind": "training", "work": {"time": "53000d", "reference": "h200"}}])
def test_every_job_that_is_taken_is_planned_and_can_be_sent(documents: list[Any]) -> None:
    planning = centre()
    for document in documents:
        text = json.dumps({"name": "any", "command": ["true"]} | document)
        spec = read_document(JobSpec, text)
        row = Job(new_id(), "acme", "any", stored(spec), priority=spec.priority)
        terms = specs.job_terms(row)
        check(terms.program)
        check(terms.workload)
        planning.submit(row)
    for _ in range(2):
        planning.round()
    for placing in planning.take_deeds().placings:
        check(placing.order)
