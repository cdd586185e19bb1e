"""A whole fleet under test: a centre, its clusters and their members."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from dure.api.clusters import ClusterSpec
from dure.api.tenancy import TenantSpec
from dure.client.fleet import calls
from tests.e2e.fleet.beds import TENANT, Bed
from tests.e2e.fleet.centre import Centre
from tests.e2e.fleet.parts import Part, wait_for
from tests.stores.services import Nats, Postgres


class Fleet:
    """Everything that runs."""

    def __init__(self, folder: Path, centre: Centre, beds: Sequence[Bed]) -> None:
        self.folder = folder
        self.centre = centre
        self.beds = tuple(beds)
        self.stores = _store_parts(centre.postgres, centre.nats)

    def start(self, servers: int = 2) -> None:
        """Start servers, declare clusters and a tenant, start members; all are linked then."""
        for _ in range(servers):
            self.centre.add_server()
        self.centre.start()
        with self.centre.client() as client:
            client.do(calls.put_tenant(TENANT, TenantSpec(), calls.CREATE))
            for bed in self.beds:
                spec = ClusterSpec(kind=bed.kind, region="kr")
                client.do(calls.put_cluster(bed.name, spec, calls.CREATE))
                token = self.folder / f"token-{bed.name}"
                secret = client.do(calls.issue_member_token(bed.name)).secret
                token.write_text(secret, encoding="utf-8")
                bed.join(self.centre.grpc_ports, token)
                bed.member.start()
        for bed in self.beds:
            wait_for(f"{bed.name} tells of its devices", partial(self._told, bed))

    def _told(self, bed: Bed) -> bool:
        with self.centre.client() as client:
            return client.do(calls.get_cluster(bed.name)).devices > 0

    @property
    def parts(self) -> list[Part]:
        """All processes that may be killed."""
        members = [bed.member for bed in self.beds]
        of_clusters = [part for bed in self.beds for part in bed.parts]
        return [*self.stores, *self.centre.servers, *members, *of_clusters]

    def words(self, most: int = 3000) -> str:
        """The last of what Dure's own processes wrote."""
        return "\n".join(
            f"--- {file.name}\n{file.read_text(errors='replace')[-most:]}"
            for file in sorted(self.folder.glob("*.log"))
        )

    def close(self) -> None:
        """End and remove everything; the database and the bus are the session's."""
        self.centre.close()
        for bed in self.beds:
            bed.close()
        for part in self.stores:
            part.wanted = False


def _store_parts(postgres: Postgres, nats: Nats) -> list[Part]:
    return [
        Part(postgres.program, postgres.ready, wanted=True, restless=True),
        Part(nats.program, nats.ready, wanted=True),
    ]
