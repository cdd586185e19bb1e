"""The same run as on three clusters in small: two clusters of processes, fewer jobs and faults."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.fleet.beds import ProcessBed
from tests.e2e.fleet.conftest import MakeFleet
from tests.e2e.fleet.drama import Drama
from tests.e2e.fleet.manifest import Places, make_manifest
from tests.e2e.fleet.schedule import Severity, make_schedule

pytestmark = [pytest.mark.fleet, pytest.mark.services]

LEASE_S = 3.0
LOST_AFTER_S = 10.0


def test_every_job_of_two_process_clusters_ends_as_expected_whatever_is_killed(
    make_fleet: MakeFleet, folder: Path, seed: int, summarise: Callable[[Any], None]
) -> None:
    beds = [ProcessBed("east", folder, nodes=2), ProcessBed("west", folder, nodes=2)]
    fleet = make_fleet(beds, lease_ttl_s=LEASE_S, lost_after_s=LOST_AFTER_S)
    journal = folder / "journal"
    places = Places(images=(), commands=("east", "west"))
    severity = Severity(40.0, server_kills=2, member_kills=2, store_kills=1, leader_stops=1, cuts=1)
    drama = Drama(
        fleet,
        make_manifest(seed, 60, places, str(journal)),
        make_schedule(seed, fleet, severity, LEASE_S),
        seed,
        submit_s=25.0,
        journal=journal,
    )
    summarise(drama.run())
