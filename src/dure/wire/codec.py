"""Values to messages and back: one table of what becomes what, and the envelopes of a link.

`from_wire` and all that is built on it raise `WireError`, and nothing else, whatever a peer sends.
"""

from typing import Any, TypeVar

from google.protobuf.message import Message

from dure.domain.fleet import (
    clusters,
    decisions,
    policy,
    programs,
    tenancy,
    virtual,
    workloads,
)
from dure.domain.fleet.protocol import desired, link, reports, services, wishes
from dure.domain.fleet.protocol.desired import Plan
from dure.domain.fleet.protocol.link import CentreWord, MemberWord
from dure.wire import messages, surroundings
from dure.wire import workloads as of_workloads
from dure.wire.kinds import Kind, WireError
from dure.wire.v1 import member_pb2 as pb

V = TypeVar("V")

KINDS: dict[type, tuple[type[Message], Kind]] = {
    programs.Program: (pb.Program, of_workloads.program),
    workloads.Workload: (pb.Workload, of_workloads.workload),
    decisions.Order: (pb.Order, of_workloads.order),
    decisions.Placement: (pb.Placement, of_workloads.placement),
    decisions.Explanation: (pb.Explanation, of_workloads.explanation),
    decisions.SiteSummary: (pb.SiteSummary, of_workloads.site_summary),
    clusters.NodeGroup: (pb.NodeGroup, surroundings.node_group),
    clusters.Cluster: (pb.Cluster, surroundings.cluster),
    policy.FleetPolicy: (pb.FleetPolicy, surroundings.policy),
    tenancy.FleetTenant: (pb.FleetTenant, surroundings.tenant),
    tenancy.VNodePool: (pb.VNodePool, surroundings.pool),
    tenancy.Allotment: (pb.Allotment, surroundings.allotment),
    desired.Partition: (pb.Partition, surroundings.partition),
    desired.Surroundings: (pb.Surroundings, surroundings.surroundings),
    services.ServiceRoute: (pb.ServiceRoute, messages.route),
    services.Routes: (pb.Routes, messages.routes),
    desired.AttemptKey: (pb.AttemptKey, messages.key),
    desired.Desired: (pb.Desired, messages.desired),
    desired.PlanAnswer: (pb.PlanAnswer, messages.answer),
    reports.InstanceStatus: (pb.InstanceStatus, messages.instance),
    reports.AttemptStatus: (pb.AttemptStatus, messages.attempt),
    reports.Inventory: (pb.Inventory, messages.inventory),
    reports.ServiceLoad: (pb.ServiceLoad, messages.load),
    reports.Usage: (pb.Usage, messages.usage),
    reports.PartitionStatus: (pb.PartitionStatus, messages.partition),
    reports.Report: (pb.Report, messages.report),
    link.Hello: (pb.Hello, messages.hello),
    link.Welcome: (pb.Welcome, messages.welcome),
    link.Ping: (pb.Ping, messages.ping),
    link.Ack: (pb.Ack, messages.ack),
    link.Goodbye: (pb.Goodbye, messages.goodbye),
    link.LogRequest: (pb.LogRequest, messages.log_request),
    link.LogCancel: (pb.LogCancel, messages.log_cancel),
    wishes.Wish: (pb.Wish, messages.wish),
    wishes.Wishes: (pb.Wishes, messages.wishes),
    wishes.Standing: (pb.Standing, messages.standing),
    wishes.Standings: (pb.Standings, messages.standings),
    link.LogChunk: (pb.LogChunk, messages.log_chunk),
    link.AccessRequest: (pb.AccessRequest, messages.access_request),
    link.AccessAnswer: (pb.AccessAnswer, messages.access_answer),
    virtual.VirtualCluster: (pb.VirtualCluster, surroundings.virtual_cluster),
    virtual.SpaceStatus: (pb.SpaceStatus, messages.space),
    reports.Sizing: (pb.Sizing, messages.sizing),
    services.LoadSignal: (pb.LoadSignal, messages.signal),
    services.Signals: (pb.Signals, messages.signals),
}
"""Whatever is sent or kept by itself: its message, and how its fields are read."""

_VALUES = {message: value for value, (message, _) in KINDS.items()}

_FROM_MEMBER = {
    link.Hello: "hello",
    reports.Report: "report",
    desired.PlanAnswer: "answer",
    link.LogChunk: "log_chunk",
    link.Ping: "ping",
    wishes.Wishes: "wishes",
    link.AccessAnswer: "access_answer",
}
_TO_MEMBER = {
    link.Welcome: "welcome",
    link.Ack: "ack",
    link.LogRequest: "log_request",
    link.LogCancel: "log_cancel",
    link.Ping: "ping",
    link.Goodbye: "goodbye",
    wishes.Standings: "standings",
    services.Routes: "routes",
    services.Signals: "signals",
    link.AccessRequest: "access_request",
}


def to_wire(value: Any) -> Any:
    """The message of a value; `WireError` where no message can hold it."""
    message, kind = _known(type(value))
    try:
        return message(**kind.plain(value))
    except (TypeError, ValueError, OverflowError) as error:
        raise WireError(f"a {type(value).__name__} cannot be written: {error}") from error


def from_wire(message: Message) -> Any:
    """The value of a message that stands for itself; `WireError` where it is not sound."""
    value = _VALUES.get(type(message))
    if value is None:
        raise WireError(f"a {type(message).__name__} is no value by itself")
    return KINDS[value][1].read(message)


def read(kind: type[V], raw: Message) -> V:
    """The same, where it is known what to expect."""
    found: V = _known(kind)[1].read(raw)
    return found


def check(value: Any) -> int:
    """Raise `WireError` where a peer would refuse a value; returns its bytes on the line.

    For what people submit: one job that no member can read would hold up a whole plan.
    """
    message = to_wire(value)
    read(type(value), message)
    return int(message.ByteSize())


def from_member(word: MemberWord) -> pb.FromMember:
    """What a member says, ready for the line."""
    done: pb.FromMember = _enveloped(pb.FromMember, _FROM_MEMBER, word)
    return done


def to_member(word: CentreWord) -> pb.ToMember:
    """What the centre says, ready for the line; plans go in parts (`dure.wire.parts`)."""
    done: pb.ToMember = _enveloped(pb.ToMember, _TO_MEMBER, word)
    return done


def heard_from_member(message: pb.FromMember) -> MemberWord:
    """What a member said."""
    word: MemberWord = from_wire(_opened(message))
    return word


def heard_from_centre(message: pb.ToMember) -> "CentreWord | pb.PlanPart":
    """What the centre said; parts of a plan are for a `PlanAssembler`."""
    inner = _opened(message)
    return inner if isinstance(inner, pb.PlanPart) else from_wire(inner)


def _enveloped(envelope: Any, slots: dict[Any, str], word: Any) -> Any:
    slot = slots.get(type(word))
    if slot is None:
        hint = "; send it in parts" if isinstance(word, Plan) else ""
        raise WireError(f"a {type(word).__name__} is not said in this direction{hint}")
    try:
        return envelope(**{slot: KINDS[type(word)][1].plain(word)})
    except (TypeError, ValueError, OverflowError) as error:
        raise WireError(f"a {type(word).__name__} cannot be written: {error}") from error


def _opened(message: Any) -> Message:
    slot = message.WhichOneof("word")
    if slot is None:
        raise WireError("an empty envelope, or a word this version does not know")
    inner: Message = getattr(message, slot)
    return inner


def _known(kind: type) -> tuple[type[Message], Kind]:
    found = KINDS.get(kind)
    if found is None:
        raise WireError(f"a {kind.__name__} has no message of its own")
    return found
