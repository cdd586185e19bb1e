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
    protocol,
    tenancy,
    virtual,
    workloads,
)
from dure.domain.fleet.protocol import CentreWord, MemberWord, Plan
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
    protocol.Partition: (pb.Partition, surroundings.partition),
    protocol.Surroundings: (pb.Surroundings, surroundings.surroundings),
    protocol.ServiceRoute: (pb.ServiceRoute, messages.route),
    protocol.Routes: (pb.Routes, messages.routes),
    protocol.AttemptKey: (pb.AttemptKey, messages.key),
    protocol.Desired: (pb.Desired, messages.desired),
    protocol.PlanAnswer: (pb.PlanAnswer, messages.answer),
    protocol.InstanceStatus: (pb.InstanceStatus, messages.instance),
    protocol.AttemptStatus: (pb.AttemptStatus, messages.attempt),
    protocol.Inventory: (pb.Inventory, messages.inventory),
    protocol.ServiceLoad: (pb.ServiceLoad, messages.load),
    protocol.Usage: (pb.Usage, messages.usage),
    protocol.PartitionStatus: (pb.PartitionStatus, messages.partition),
    protocol.Report: (pb.Report, messages.report),
    protocol.Hello: (pb.Hello, messages.hello),
    protocol.Welcome: (pb.Welcome, messages.welcome),
    protocol.Ping: (pb.Ping, messages.ping),
    protocol.Ack: (pb.Ack, messages.ack),
    protocol.Goodbye: (pb.Goodbye, messages.goodbye),
    protocol.LogRequest: (pb.LogRequest, messages.log_request),
    protocol.LogCancel: (pb.LogCancel, messages.log_cancel),
    protocol.Wish: (pb.Wish, messages.wish),
    protocol.Wishes: (pb.Wishes, messages.wishes),
    protocol.Standing: (pb.Standing, messages.standing),
    protocol.Standings: (pb.Standings, messages.standings),
    protocol.LogChunk: (pb.LogChunk, messages.log_chunk),
    protocol.AccessRequest: (pb.AccessRequest, messages.access_request),
    protocol.AccessAnswer: (pb.AccessAnswer, messages.access_answer),
    virtual.VirtualCluster: (pb.VirtualCluster, surroundings.virtual_cluster),
    virtual.SpaceStatus: (pb.SpaceStatus, messages.space),
    protocol.Sizing: (pb.Sizing, messages.sizing),
    protocol.LoadSignal: (pb.LoadSignal, messages.signal),
    protocol.Signals: (pb.Signals, messages.signals),
}
"""Whatever is sent or kept by itself: its message, and how its fields are read."""

_VALUES = {message: value for value, (message, _) in KINDS.items()}

_FROM_MEMBER = {
    protocol.Hello: "hello",
    protocol.Report: "report",
    protocol.PlanAnswer: "answer",
    protocol.LogChunk: "log_chunk",
    protocol.Ping: "ping",
    protocol.Wishes: "wishes",
    protocol.AccessAnswer: "access_answer",
}
_TO_MEMBER = {
    protocol.Welcome: "welcome",
    protocol.Ack: "ack",
    protocol.LogRequest: "log_request",
    protocol.LogCancel: "log_cancel",
    protocol.Ping: "ping",
    protocol.Goodbye: "goodbye",
    protocol.Standings: "standings",
    protocol.Routes: "routes",
    protocol.Signals: "signals",
    protocol.AccessRequest: "access_request",
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
