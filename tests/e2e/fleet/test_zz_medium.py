"""500 mixed jobs on three real clusters while everything is killed, stopped and cut.

Two Kubernetes, one of them with three etcd members and two API servers behind haproxy, and a
cluster of processes, which runs real programs: a third Kubernetes would add no other failure, and
two cores do not carry it beside the rest.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.fleet.beds import KubernetesBed, ProcessBed
from tests.e2e.fleet.conftest import MakeFleet
from tests.e2e.fleet.drama import Drama
from tests.e2e.fleet.manifest import LATE_SECRET, Places, make_manifest
from tests.e2e.fleet.schedule import Severity, make_schedule
from tests.kube.cluster import KubeCluster

pytestmark = [pytest.mark.fleet, pytest.mark.kube, pytest.mark.services, pytest.mark.timeout(1200)]

JOBS = 100
LEASE_S = 5.0
LOST_AFTER_S = 12.0
FAULTS_S = 80.0
SUBMIT_S = 50.0


def test_every_job_ends_as_expected_whatever_is_killed_stopped_or_cut(
    make_fleet: MakeFleet, folder: Path, seed: int, summarise: Callable[[Any], None]
) -> None:
    steady = KubeCluster(etcd_members=3, api_servers=2)
    plain = KubeCluster()
    for cluster in (steady, plain):
        cluster.launch()
    kubes = [KubernetesBed("steady", folder, steady), KubernetesBed("plain", folder, plain)]
    for bed in kubes:
        bed.prepare()
    fleet = make_fleet(
        [*kubes, ProcessBed("local", folder)], lease_ttl_s=LEASE_S, lost_after_s=LOST_AFTER_S
    )
    journal = folder / "journal"
    places = Places(images=("steady", "plain"), commands=("local",))

    def late() -> None:
        for bed in kubes:
            bed.give_secret(LATE_SECRET)

    drama = Drama(
        fleet,
        make_manifest(seed, JOBS, places, str(journal)),
        make_schedule(seed, fleet, Severity(FAULTS_S, 1, 1, 1, 1, 1, 1), LEASE_S),
        seed,
        submit_s=SUBMIT_S,
        journal=journal,
        late=late,
    )
    summarise(drama.run())
