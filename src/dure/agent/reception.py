"""Who may register: the agent's answer to a tenant program's hello, and to its end."""

from dataclasses import dataclass

from dure.agent.door import Admission, ClientKey
from dure.agent.gpu import Client, FullError, Gpu
from dure.agent.registry import ROOT_UID, Declared, Holder
from dure.agent.service import Service
from dure.agent.wire import Hello, Peer, Verdict, Welcome
from dure.devices.layout import MAGIC, VERSION
from dure.domain.errors import DureError
from dure.domain.ids import TenantId


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of the structures shared with clients, as this agent was built."""

    plan_bytes: int
    slot_bytes: int


class _RefusedError(Exception):
    """A newcomer cannot be let in."""

    def __init__(self, verdict: Verdict, reason: str) -> None:
        self.verdict = verdict
        self.reason = reason
        super().__init__(verdict, reason)


@dataclass(slots=True)
class Reception:
    """Stands behind the door."""

    service: Service
    sizes: Sizes

    def admit(self, hello: Hello | None, peer: Peer) -> Admission:
        """Let a process in, or say why not."""
        try:
            return self._admit(self._readable(hello), peer)
        except _RefusedError as refusal:
            name = hello.tenant if hello is not None else None
            text = f"process {peer.pid} was refused: {refusal.reason}"
            self.service.events.add("refused", text, tenant=name)
            return Admission(Welcome(refusal.verdict, reason=refusal.reason))

    def _admit(self, hello: Hello, peer: Peer) -> Admission:
        service = self.service
        with service.lock:
            declared = self._tenant(hello, peer)
            actor = next((a for a in service.actors if _uuid(a.gpu) == hello.uuid), None)
            if actor is None:
                raise _RefusedError(Verdict.DEVICE, "the GPU is not one of the agent's")
            wanted = declared.spec.gpu
            if wanted is not None and service.actor_of(wanted) is not actor:
                raise _RefusedError(
                    Verdict.DEVICE, f"tenant '{declared.name}' was declared for GPU {wanted}"
                )
            try:
                if actor not in service.seats_for(declared):
                    service.seat(declared, actor)
                client, index, descriptors = actor.call(
                    lambda gpu: _let_in(gpu, declared.id, peer, hello.program), more=True
                )
            except FullError as error:
                raise _RefusedError(Verdict.FULL, str(error)) from error
            except DureError as error:
                raise _RefusedError(Verdict.TENANT, str(error)) from error
        service.events.add(
            "client",
            f"{declared.name}: process {peer.pid} ({hello.program}) joined",
            gpu=actor.uuid,
            tenant=declared.name,
        )
        return Admission(
            Welcome(Verdict.WELCOME, client.slot, index),
            ClientKey(actor.uuid, client.slot, client.turn),
            descriptors,
        )

    def _readable(self, hello: Hello | None) -> Hello:
        if hello is None or hello.magic != MAGIC:
            raise _RefusedError(
                Verdict.VERSION,
                "that is no hello of this version; start the program again with this Dure",
            )
        mine = (VERSION, self.sizes.plan_bytes, self.sizes.slot_bytes)
        theirs = (hello.version, hello.plan_bytes, hello.slot_bytes)
        if mine != theirs:
            raise _RefusedError(
                Verdict.VERSION,
                f"libdure.so speaks version {hello.version} ({hello.plan_bytes}/"
                f"{hello.slot_bytes}), the agent {VERSION} ({mine[1]}/{mine[2]}); restart both",
            )
        return hello

    def _tenant(self, hello: Hello, peer: Peer) -> Declared:
        declared = self.service.registry.tenants.get(hello.tenant)
        if declared is None:
            raise _RefusedError(
                Verdict.TENANT,
                f"no tenant '{hello.tenant}' is declared; start it with `dure run --tenant …`",
            )
        if peer.uid not in (declared.uid, ROOT_UID):
            raise _RefusedError(
                Verdict.TENANT, f"tenant '{hello.tenant}' belongs to user {declared.uid}"
            )
        return declared

    # Ends

    def client_left(self, key: ClientKey, *, alive: bool) -> None:
        """Its connection is gone."""
        actor = self.service.actor_of(key.gpu)
        gone = actor.call(lambda gpu: gpu.drop_client(key.slot, key.turn, alive=alive))
        if gone is not None:
            text = f"{gone.tenant}: process {gone.pid} ({gone.program}) left"
            self.service.events.add("client", text, gpu=key.gpu, tenant=gone.tenant)

    def client_died(self, key: ClientKey) -> None:
        """Its process ended."""
        self.client_left(key, alive=False)

    def holder_died(self, tenant: str, holder: Holder) -> None:
        """A process that held a declaration ended."""
        self.service.holder_died(tenant, holder)

    def sweep(self) -> None:
        """Time passed."""
        self.service.sweep()


def _uuid(gpu: Gpu) -> bytes:
    return gpu.identity.uuid_bytes


def _let_in(
    gpu: Gpu, tenant: TenantId, peer: Peer, program: str
) -> tuple[Client, int, tuple[int, ...]]:
    client = gpu.add_client(tenant, peer.pid, program)
    return client, gpu.seats[tenant].index, tuple(gpu.plane.descriptors_for(client.slot))
