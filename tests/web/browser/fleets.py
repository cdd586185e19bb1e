"""A real centre with two clusters of processes, prices, a budget, policies and jobs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from dure.domain.fleet.lifecycle import JobPhase
from tests.e2e.beds import Fleet, running

SPECS: dict[str, dict[str, Any]] = {
    "local": {
        "kind": "process",
        "region": "ap-northeast",
        "class": "on-prem",
        "electricity": 110,
        "carbon": 430,
    },
    "north": {
        "kind": "process",
        "region": "eu-north",
        "tariff": {"deviceHour": {"a100": 1.9}},
        "carbon": 25,
    },
}
PERIOD = {"periodStart": "2026-01-01T00:00:00Z", "periodEnd": "2036-01-01T00:00:00Z"}


class FleetBed(Fleet):
    """A fleet, and what a browser needs to look at it."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.rest}/ui/"

    @property
    def token(self) -> str:
        return (self.folder / "server" / "admin-token").read_text().strip()

    def furnish(self) -> None:
        """Prices, a budget, a policy, and a job in each state that is looked at."""
        self.add_cluster("north")
        headers = {"Authorization": f"Bearer {self.token}", "If-Match": "*"}
        address = f"http://127.0.0.1:{self.rest}"
        with httpx.Client(base_url=address, headers=headers, timeout=30) as http:
            for name, spec in SPECS.items():
                assert http.put(f"/v1/clusters/{name}", json=spec).status_code == 200
            del http.headers["If-Match"]
            budget = {"unit": "money", "limit": 50.0, "refuse": False, **PERIOD}
            assert http.put("/v1/budgets/acme/year", json=budget).status_code == 201
            green = {"all": {"carbonPerTonne": 100_000.0}}
            assert http.put("/v1/policies/green", json=green).status_code == 201
            self.until("both clusters", lambda: self._devices(http) == 16)
        self.long = self.submit("long", "sleep 600", work="10m")
        self.short = self.submit("short", "true")
        self.until_phase(self.long, JobPhase.RUNNING)
        self.until_phase(self.short, JobPhase.SUCCEEDED)
        self.stuck = self.submit(
            "stuck", "true", resources={"memory": "1GiB", "devices": 4, "cpu": 31}
        )

    @staticmethod
    def _devices(http: httpx.Client) -> int:
        shown = http.get("/v1/overview").json()["clusters"]
        return sum(each["devices"] for each in shown)


@contextmanager
def fleet() -> Iterator[FleetBed]:
    """One for all tests of a file."""
    with running(FleetBed) as bed:
        bed.furnish()
        yield bed
