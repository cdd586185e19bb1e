"""Plans in parts: a large desired set crosses the line in messages of bounded size."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from dure.domain.fleet.protocol.desired import Plan
from dure.domain.units import MIB
from dure.wire.codec import to_wire
from dure.wire.kinds import WireError
from dure.wire.messages import desired as desired_kind
from dure.wire.messages import key as key_kind
from dure.wire.surroundings import surroundings as surroundings_kind
from dure.wire.v1 import member_pb2 as pb

PART_BYTES = MIB
"""How large a part becomes before the next one begins."""
MOST_MESSAGE_BYTES = 16 * MIB
"""Of any message on a link; both sides set their gRPC limits to it. Most stay below a part's size;
what cannot be divided, as an inventory, may be larger."""
MOST_PLAN_BYTES = 64 * MIB
"""Of all parts of a plan: about a hundred thousand attempts."""


def plan_parts(plan: Plan, limit_bytes: int = PART_BYTES) -> Iterator[pb.ToMember]:
    """A plan as messages, made one by one as they are asked for.

    A part is larger than the limit only where a single thing in it is.
    """
    number = 0
    part = pb.PlanPart(epoch=plan.epoch, revision=plan.revision, base=plan.base)
    size = 0
    for name, message, length in _things(plan):
        if size and size + length > limit_bytes:
            part.part = number
            yield pb.ToMember(plan=part)
            number, size = number + 1, 0
            part = pb.PlanPart(epoch=plan.epoch, revision=plan.revision)
        if name == "surroundings":
            part.surroundings.CopyFrom(message)
        else:
            getattr(part, name).append(message)
        size += length
    part.part, part.last = number, True
    yield pb.ToMember(plan=part)


def _things(plan: Plan) -> Iterator[tuple[str, Any, int]]:
    """All that a plan consists of, with its size on the line."""
    groups: tuple[tuple[str, Iterable[Any]], ...] = (
        ("surroundings", () if plan.surroundings is None else (plan.surroundings,)),
        ("desired", plan.desired),
        ("removed", plan.removed),
    )
    for name, values in groups:
        for value in values:
            message = to_wire(value)
            length = message.ByteSize() + _FRAME_BYTES
            if length > MOST_MESSAGE_BYTES // 2:
                raise WireError(f"is {length} bytes, too large to be sent", f"plan.{name}")
            yield name, message, length


_FRAME_BYTES = 8
"""Tag and length of something inside a message, at most."""


@dataclass(slots=True)
class PlanAssembler:
    """Makes plans whole again; a part that fits nothing is refused and what there was dropped."""

    most_bytes: int = MOST_PLAN_BYTES
    _head: pb.PlanPart | None = None
    _next: int = 0
    _bytes: int = 0
    _desired: list[Any] = field(default_factory=list)
    _removed: list[Any] = field(default_factory=list)
    _surroundings: Any = None

    def take(self, part: pb.PlanPart) -> Plan | None:
        """The next part; returns the plan once it is whole. After an error begin with part 0."""
        try:
            self._add(part)
            plan = self._whole() if part.last else None
        except WireError as error:
            self._drop()
            raise error.inside("plan") from None
        if plan is not None:
            self._drop()
        return plan

    def _add(self, part: pb.PlanPart) -> None:
        if part.part == 0:
            self._drop()
            self._head = pb.PlanPart(epoch=part.epoch, revision=part.revision)
            if part.HasField("base"):
                self._head.base = part.base
            if part.HasField("surroundings"):
                self._surroundings = _read("surroundings", surroundings_kind, part.surroundings)
        elif self._head is None or part.part != self._next:
            raise WireError(f"is {part.part} where {self._next} was expected", "part")
        elif (part.epoch, part.revision) != (self._head.epoch, self._head.revision):
            raise WireError("is of another plan than the parts before it", "revision")
        elif part.HasField("surroundings") or part.HasField("base"):
            raise WireError("comes in a later part", "surroundings")
        self._next = part.part + 1
        self._bytes += part.ByteSize()
        if self._bytes > self.most_bytes:
            raise WireError(f"is larger than {self.most_bytes} bytes")
        self._desired += _read_all("desired", desired_kind, part.desired)
        self._removed += _read_all("removed", key_kind, part.removed)

    def _whole(self) -> Plan:
        head = self._head
        assert head is not None
        base = head.base if head.HasField("base") else None
        for name, value in (("epoch", head.epoch), ("revision", head.revision), ("base", base)):
            if value is not None and value < 0:
                raise WireError(f"is {value}, less than nothing", name)
        return Plan(
            epoch=head.epoch,
            revision=head.revision,
            base=base,
            desired=tuple(self._desired),
            removed=tuple(self._removed),
            surroundings=self._surroundings,
        )

    def _drop(self) -> None:
        self._head, self._next, self._bytes = None, 0, 0
        self._desired, self._removed, self._surroundings = [], [], None


def _read(name: str, kind: Any, raw: Any) -> Any:
    try:
        return kind.read(raw)
    except WireError as error:
        raise error.inside(name) from None


def _read_all(name: str, kind: Any, raw: Any) -> list[Any]:
    done: list[Any] = []
    try:
        for each in raw:
            done.append(kind.read(each))  # noqa: PERF401 (the number of the bad one is wanted)
    except WireError as error:
        raise error.inside(f"{name}[{len(done)}]") from None
    return done
