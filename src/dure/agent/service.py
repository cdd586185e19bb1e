"""What the agent does for those who ask: tenants, policies, goals, reports.

Its lock guards the registry; a GPU's own state belongs to that GPU's thread. The order is always
lock first, then a call into a GPU's thread, and GPUs never call back.
"""

import re
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from dure.agent import state
from dure.agent.actor import Actor
from dure.agent.ending import end_processes
from dure.agent.events import EventLog
from dure.agent.gpu import Gpu
from dure.agent.mps import MpsDaemon
from dure.agent.registry import (
    GRACE_NS,
    ROOT_UID,
    Declared,
    ForbiddenError,
    Holder,
    Registry,
)
from dure.agent.why import Scene, explain
from dure.agent.wire import Peer, start_time_of
from dure.client.convert import goals_of, spec_with
from dure.client.schema import (
    NAME_PATTERN,
    EndAnswer,
    EndRequest,
    GoalsAnswer,
    GoalsRequest,
    PolicyAnswer,
    PolicyRequest,
    PolicyStatus,
    Report,
    TenantDeclared,
    TenantPatch,
    TenantSpec,
    WhyAnswer,
)
from dure.domain.errors import InputError
from dure.domain.events import PolicyParameters
from dure.domain.ids import TenantId
from dure.domain.tenant import Tenant
from dure.domain.units import NS_PER_S, format_bytes
from dure.kernel.goals import choose_policy
from dure.kernel.policies.registry import make_policy

_WHY_NS = 10 * NS_PER_S
_START_GRACE_NS = 10 * NS_PER_S
"""After a restart, how long programs have to come back before their tenant counts as gone."""


@dataclass(slots=True)
class Service:
    """One agent's tenants and policies."""

    uid: int
    actors: tuple[Actor, ...]
    registry: Registry
    policy_states: state.Policies
    state_file: Path
    events: EventLog
    environment: Callable[[Tenant, str | None], tuple[dict[str, str], tuple[str, ...]]]
    """A tenant and the GPU it keeps to → what its processes need, and notes."""
    daemon: MpsDaemon | None = None
    watch_holder: Callable[[str, Holder], bool] = lambda _name, _holder: False
    lock: threading.RLock = field(default_factory=threading.RLock)

    # Tenants

    def declare(self, name: str, spec: TenantSpec, peer: Peer) -> TenantDeclared:
        """Enter a tenant, or replace what was said of it."""
        if not re.match(NAME_PATTERN, name):
            raise InputError(
                f"'{name}' cannot be a tenant's name",
                "use up to 32 letters, digits, '.', '_' and '-', a letter or digit first",
            )
        self._refuse_strangers(peer)
        with self.lock:
            declared = self.registry.declare(name, peer.uid, spec, time.time_ns())
            known = name in self.registry.tenants
            tenant = self._enter(declared)
            if not spec.keep:
                self._hold(declared, peer)
            self._save()
        if not known:
            self.events.add("tenant", f"{name} was declared by user {peer.uid}", tenant=name)
        gpu = self.actor_of(spec.gpu).uuid if spec.gpu is not None else None
        environment, notes = self.environment(tenant, gpu)
        return TenantDeclared(name=name, gpu=gpu, environment=environment, notes=notes)

    def change(self, name: str, patch: TenantPatch, peer: Peer) -> None:
        """Change some keys of a tenant while it runs."""
        with self.lock:
            before = self.registry.find_for(name, peer.uid)
            declared = self.registry.declare(
                name, before.uid, patch.applied(before.spec), time.time_ns()
            )
            if "deadline_in_ns" not in patch.model_fields_set:
                declared.deadline_unix_ns = before.deadline_unix_ns
            self._enter(declared)
            self._save()
        keys = ", ".join(sorted(patch.model_fields_set)) or "nothing"
        self.events.add("tenant", f"{name}: {keys} changed", tenant=name)

    def forget(self, name: str, peer: Peer) -> None:
        """Forget a tenant that has no processes."""
        with self.lock:
            declared = self.registry.find_for(name, peer.uid)
            running = self.pids_of(declared.id)
            if running:
                raise InputError(
                    f"tenant '{name}' has {len(running)} running processes",
                    f"end them first with `dure end {name}`",
                )
            self._drop(declared, "was forgotten")

    def end(self, name: str, request: EndRequest, peer: Peer) -> EndAnswer:
        """End a tenant's processes without harm to the others."""
        with self.lock:
            declared = self.registry.find_for(name, peer.uid)
            pids = self.pids_of(declared.id)
        answer = end_processes(pids, self.daemon, request.grace_s)
        told = f"{name}: {len(answer.asked)} processes were ended"
        self.events.add("tenant", f"{told}, {len(answer.killed)} of them killed", tenant=name)
        return answer

    def _enter(self, declared: Declared) -> Tenant:
        """Seat a tenant where it belongs, then enter it; raises before anything changed."""
        tenant = self.registry.tenant(declared, time.monotonic_ns(), time.time_ns())
        wanted = self.seats_for(declared)
        if not wanted:
            largest = max(self.actors, key=lambda each: each.gpu.identity.profile.memory_bytes)
            largest.gpu.refuse_oversize(tenant)
            self._refuse_homeless(tenant)
        for actor in wanted:
            actor.call(_joining(tenant, declared.spec.free))
        for actor in self.actors:
            if actor not in wanted and not actor.call(lambda gpu: gpu.pids_of(declared.id)):
                actor.call(lambda gpu: gpu.leave(declared.id))
        before = self.registry.tenants.get(declared.name)
        if before is not None:
            declared.counted_gpu_ns = before.counted_gpu_ns
        self.registry.tenants[declared.name] = declared
        return tenant

    def _refuse_homeless(self, tenant: Tenant) -> None:
        """Raise where no GPU can keep free what a tenant without a GPU of its own reserves."""
        reserve = tenant.memory.reserve_bytes
        free = max(actor.call(lambda gpu: gpu.unreserved_bytes) for actor in self.actors)
        if reserve > free:
            raise InputError(
                f"tenant '{tenant.id}' reserves {format_bytes(reserve)} of memory where no GPU has "
                f"more than {format_bytes(free)} unreserved",
                "lower its reserve or another tenant's",
            )

    def seats_for(self, declared: Declared) -> tuple[Actor, ...]:
        """The GPUs on which a tenant has a seat before any process asks for one."""
        if declared.spec.gpu is not None:
            return (self.actor_of(declared.spec.gpu),)
        if len(self.actors) == 1:
            return self.actors
        return tuple(a for a in self.actors if a.call(lambda gpu: declared.id in gpu.seats))

    def seat(self, declared: Declared, actor: Actor) -> None:
        """Give a tenant a seat on one more GPU."""
        tenant = self.registry.tenant(declared, time.monotonic_ns(), time.time_ns())
        actor.call(_joining(tenant, declared.spec.free))

    def _hold(self, declared: Declared, peer: Peer) -> None:
        started = start_time_of(peer.pid) if peer.pid > 0 else None
        if started is None:
            return
        holder = Holder(peer.pid, started)
        if holder not in declared.holders and self.watch_holder(declared.name, holder):
            declared.holders.add(holder)

    def restore(self) -> None:
        """Seat the tenants of the agent before this one, and watch over their holders again."""
        with self.lock:
            late_ns = time.monotonic_ns() + _START_GRACE_NS
            for declared in list(self.registry.tenants.values()):
                declared.holders = {
                    each for each in declared.holders if self.watch_holder(declared.name, each)
                }
                declared.alone_since_ns = late_ns
                try:
                    self._enter(declared)
                except InputError as error:
                    text = f"{declared.name} cannot be restored: {error}"
                    self.events.add("tenant", text, tenant=declared.name)
                    del self.registry.tenants[declared.name]

    def holder_died(self, tenant: str, holder: Holder) -> None:
        """A process that held a declaration ended."""
        with self.lock:
            declared = self.registry.tenants.get(tenant)
            if declared is not None:
                declared.holders.discard(holder)

    def sweep(self) -> None:
        """Forget tenants nobody holds any more; learn from runs that ended."""
        with self.lock:
            now_ns = time.monotonic_ns()
            for declared in list(self.registry.tenants.values()):
                if declared.holders or self._has_processes(declared.id):
                    declared.alone_since_ns = None
                elif declared.alone_since_ns is None:
                    declared.alone_since_ns = now_ns
                    self._learn_run(declared)
                elif now_ns - declared.alone_since_ns > GRACE_NS and not declared.spec.keep:
                    self._drop(declared, "has no process and no holder any more")

    def _learn_run(self, declared: Declared) -> None:
        total = sum(actor.call(lambda gpu: gpu.gpu_ns_of(declared.id)) for actor in self.actors)
        took, declared.counted_gpu_ns = total - declared.counted_gpu_ns, total
        if self.registry.learn_run(declared, took):
            self._save()

    def _drop(self, declared: Declared, why: str) -> None:
        for actor in self.actors:
            actor.call(lambda gpu: gpu.leave(declared.id))
        self.registry.tenants.pop(declared.name, None)
        self._save()
        self.events.add("tenant", f"{declared.name} {why}", tenant=declared.name)

    def pids_of(self, tenant: TenantId) -> list[int]:
        """Processes of a tenant, on all GPUs, each once."""
        found = {pid for actor in self.actors for pid in actor.call(lambda g: g.pids_of(tenant))}
        return sorted(found)

    def _has_processes(self, tenant: TenantId) -> bool:
        """The same, read without asking the GPU's thread: a hint that the next sweep repeats."""
        seats = (actor.gpu.seats.get(tenant) for actor in self.actors)
        return any(seat is not None and seat.slots for seat in seats)

    # Policies and goals

    def policies(self) -> PolicyAnswer:
        """The policy of every GPU."""
        return PolicyAnswer(policies=tuple(self._policy_status(actor) for actor in self.actors))

    def _policy_status(self, actor: Actor) -> PolicyStatus:
        policy, parameters, plan = actor.call(lambda gpu: (gpu.policy, gpu.parameters, gpu.plan()))
        return PolicyStatus(
            gpu=actor.uuid, policy=policy, parameters=all_parameters(policy, parameters), plan=plan
        )

    def set_policy(self, request: PolicyRequest, peer: Peer) -> PolicyAnswer:
        """Switch at the next squad edge, or say what a switch would do."""
        self._refuse_others(peer)
        parameters: PolicyParameters = tuple(sorted(request.parameters.items()))
        actors = self._actors_of(request.gpu)
        if not request.dry_run:
            return self._switch(actors, request.policy, parameters)
        answers = []
        for actor in actors:
            plan, reason = actor.call(
                lambda gpu: gpu.request_policy(request.policy, parameters, dry_run=True)
            )
            answers.append(
                PolicyStatus(
                    gpu=actor.uuid,
                    policy=request.policy,
                    parameters=all_parameters(request.policy, parameters),
                    plan=plan,
                    reason=reason,
                )
            )
        return PolicyAnswer(policies=tuple(answers), dry_run=True)

    def _switch(
        self, actors: Iterable[Actor], policy: str, parameters: PolicyParameters
    ) -> PolicyAnswer:
        answers = []
        with self.lock:
            for actor in actors:
                actor.call(lambda gpu: gpu.request_policy(policy, parameters, dry_run=False))
                self.policy_states[actor.uuid] = state.PolicyState(
                    policy=policy, parameters=dict(parameters)
                )
                answers.append(self._policy_status(actor))
            self._save()
        return PolicyAnswer(policies=tuple(answers))

    def apply_goals(self, request: GoalsRequest, peer: Peer) -> GoalsAnswer:
        """Choose from goals, change the tenants they name, and switch."""
        self._refuse_others(peer)
        goals, now_ns = goals_of(request), time.monotonic_ns()
        with self.lock:
            tenants = [
                self.registry.tenant(declared, now_ns, time.time_ns())
                for declared in self.registry.tenants.values()
            ]
            choice = choose_policy(goals, tenants, {tenant.id: now_ns for tenant in tenants})
            named = {goal.id for goal in goals.tenants}
            specs = {
                tenant.id: spec_with(self.registry.tenants[tenant.id].spec, tenant, now_ns)
                for tenant in choice.tenants
                if tenant.id in named
            }
            if not request.dry_run:
                for name, spec in specs.items():
                    before = self.registry.tenants[name]
                    self._enter(self.registry.declare(name, before.uid, spec, time.time_ns()))
            policies = self.set_policy(
                PolicyRequest(
                    policy=choice.policy,
                    parameters=dict(choice.parameters),
                    gpu=request.gpu,
                    dry_run=request.dry_run,
                ),
                peer,
            ).policies
        return GoalsAnswer(
            policy=choice.policy,
            parameters=all_parameters(choice.policy, choice.parameters),
            reasons=choice.reasons,
            tenants={str(name): spec for name, spec in specs.items()},
            policies=policies,
            dry_run=request.dry_run,
        )

    # Reports and reasons

    def report(self, name: str, said: Report, peer: Peer | None) -> None:
        """What a program says of itself."""
        with self.lock:
            found = (
                self.registry.find(name) if peer is None else self.registry.find_for(name, peer.uid)
            )
        if (said.done is None) != (said.total is None):
            raise InputError("progress is stated in part", "send done and total")
        for actor in self.actors:
            actor.call(_reporting(found.id, said))

    def why(self, name: str) -> WhyAnswer:
        """Why a tenant was held in the last seconds, on the GPU where it was held most."""
        with self.lock:
            declared = self.registry.find(name)
        scenes = [actor.call(_scene(declared.id)) for actor in self.actors]
        seen = [scene for scene in scenes if scene is not None]
        if not seen:
            return WhyAnswer(
                tenant=name,
                window_s=0.0,
                sentences=(f"{name} has no process on any GPU.",),
                held_ns=0,
                held_share=0.0,
                gpu_share=0.0,
                reasons=(),
                holders=(),
                longest_hold_ns=0,
            )
        return explain(max(seen, key=lambda scene: (scene.deeds.held_ns, scene.clients)))

    # Who may

    def _refuse_strangers(self, peer: Peer) -> None:
        """Root's agent serves everybody, a user's agent that user."""
        if self.uid != ROOT_UID and peer.uid not in (self.uid, ROOT_UID):
            raise ForbiddenError(
                f"this agent serves user {self.uid} alone", "start an agent of your own"
            )

    def _refuse_others(self, peer: Peer) -> None:
        """What concerns everybody is for whoever runs the agent."""
        if peer.uid not in (self.uid, ROOT_UID):
            raise ForbiddenError(
                f"only user {self.uid}, who runs the agent, or root may change the policy",
                "ask them",
            )

    def actor_of(self, gpu: str) -> Actor:
        """A GPU by index or UUID."""
        for actor in self.actors:
            if gpu in (actor.uuid, str(actor.gpu.identity.index)):
                return actor
        known = ", ".join(f"{actor.gpu.identity.index} ({actor.uuid})" for actor in self.actors)
        raise InputError(f"there is no GPU '{gpu}'", f"use one of {known}")

    def _actors_of(self, gpu: str | None) -> tuple[Actor, ...]:
        return self.actors if gpu is None else (self.actor_of(gpu),)

    def _save(self) -> None:
        state.try_save(self.state_file, self.registry, self.policy_states)


def all_parameters(policy: str, parameters: PolicyParameters) -> dict[str, float]:
    """Every parameter of a policy, defaults included."""
    made: Any = make_policy(policy, parameters)
    return dict(sorted(asdict(made).items()))


def _joining(tenant: Tenant, free: bool) -> Callable[[Gpu], None]:
    return lambda gpu: gpu.join(tenant, free=free)


def _reporting(tenant: TenantId, said: Report) -> Callable[[Gpu], None]:
    def report(gpu: Gpu) -> None:
        if tenant not in gpu.seats:
            return
        if said.latencies_ns:
            gpu.report_latencies(tenant, said.latencies_ns)
        if said.done is not None and said.total is not None:
            gpu.report_progress(tenant, said.done, said.total)

    return report


def _scene(tenant: TenantId) -> Callable[[Gpu], Scene | None]:
    def look(gpu: Gpu) -> Scene | None:
        seat = gpu.seats.get(tenant)
        if seat is None:
            return None
        return Scene(
            tenant=tenant,
            deeds=seat.book.last(_WHY_NS),
            neighbours={other.index: replace(other.tenant) for other in gpu.seats.values()},
            policy=gpu.policy,
            clients=len(seat.slots),
            gate_note=gpu.gate_note,
            gpu=gpu.identity.uuid,
        )

    return look
