"""Faults, carried out: nodes die, clusters are cut off or lost, the centre is gone for a while."""

from typing import Protocol

from dure.domain.fleet.events import ClusterJoined, ClusterLost, GlobalEvent
from dure.domain.ids import ClusterId
from dure.sim.agenda import Agenda
from dure.sim.fleet.faults import CentreFault, ClusterFault, ClusterFaultKind, Fault, NodeFault
from dure.sim.fleet.members import Member
from dure.sim.fleet.reports import as_known
from dure.sim.fleet.setting import Setting


class Cleaning(Protocol):
    """What clears a cluster that is back."""

    def over(self, member: Member, news: list[GlobalEvent], now_ns: int) -> None:
        """Stop what ended there or elsewhere while a cluster was cut off."""


class FaultyWorld(Protocol):
    """What faults happen to."""

    setting: Setting
    agenda: Agenda
    member_of: dict[ClusterId, Member]
    centre_up: bool

    def report(self, event: GlobalEvent, member: Member | None = None) -> None:
        """Let the centre know."""

    @property
    def directives(self) -> Cleaning:
        """Clears clusters of what is over."""


class Outages:
    """Makes faults happen at their time."""

    def __init__(self, world: FaultyWorld) -> None:
        self._world = world
        self._centre_faults = 0
        self._cut: dict[ClusterId, int] = {}
        """How many faults keep a cluster from being reached."""
        self._dead: dict[tuple[ClusterId, int], int] = {}
        """How many faults keep a node down."""
        for fault in world.setting.faults:
            world.agenda.note(fault.at_ns, self._begin, fault)
            world.agenda.note(fault.at_ns + fault.duration_ns, self._end, fault)

    def _begin(self, now_ns: int, fault: Fault) -> None:
        match fault:
            case NodeFault(cluster=name, node=node):
                self._kill(self._world.member_of[name], node, now_ns)
            case ClusterFault():
                self._cluster_fails(fault, now_ns)
            case CentreFault():
                self._centre_faults += 1
                self._world.centre_up = False

    def _end(self, now_ns: int, fault: Fault) -> None:
        match fault:
            case NodeFault(cluster=name, node=node):
                self._revive(self._world.member_of[name], node, now_ns)
            case ClusterFault():
                self._cluster_returns(fault, now_ns)
            case CentreFault():
                self._centre_faults -= 1
                self._world.centre_up = not self._centre_faults

    def _kill(self, member: Member, node: int, now_ns: int) -> None:
        self._dead[member.id, node] = self._dead.get((member.id, node), 0) + 1
        member.node_lost(node, now_ns)

    def _revive(self, member: Member, node: int, now_ns: int) -> None:
        self._dead[member.id, node] -= 1
        if not self._dead[member.id, node]:
            member.node_back(node, now_ns)

    def _cluster_fails(self, fault: ClusterFault, now_ns: int) -> None:
        member = self._world.member_of[fault.cluster]
        self._cut[member.id] = self._cut.get(member.id, 0) + 1
        if member.reachable:
            self._world.report(ClusterLost(now_ns, member.id))
            member.reachable = False
        if fault.kind is ClusterFaultKind.LOST:
            for node in range(len(member.hardware.nodes)):
                self._kill(member, node, now_ns)

    def _cluster_returns(self, fault: ClusterFault, now_ns: int) -> None:
        """What the centre missed is told, what it wanted is done."""
        world, member = self._world, self._world.member_of[fault.cluster]
        if fault.kind is ClusterFaultKind.LOST:
            for node in range(len(member.hardware.nodes)):
                self._revive(member, node, now_ns)
        self._cut[member.id] -= 1
        if self._cut[member.id]:
            return
        member.reachable = True
        world.report(ClusterJoined(now_ns, as_known(member.cluster, world.setting, now_ns)))
        news, member.outbox = member.outbox, []
        for event in news:
            world.report(event)
        world.directives.over(member, news, now_ns)
        inbox, member.inbox = member.inbox, []
        for wanted in inbox:
            wanted(now_ns)
