"""Plans of any size cross the line in parts and arrive whole, or not at all."""

import dataclasses
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dure.domain.fleet.programs import Program
from dure.domain.fleet.protocol.desired import AttemptKey, Plan
from dure.domain.ids import WorkloadId
from dure.wire.codec import heard_from_centre
from dure.wire.kinds import WireError
from dure.wire.parts import MOST_MESSAGE_BYTES, PlanAssembler, plan_parts
from dure.wire.v1 import member_pb2 as pb
from tests.wire.test_codec import desired
from tests.wire.values import values


def parts_of(plan: Plan, limit: int) -> list[pb.PlanPart]:
    """What arrives of a plan."""
    found = []
    for message in plan_parts(plan, limit):
        part = heard_from_centre(pb.ToMember.FromString(message.SerializeToString()))
        assert isinstance(part, pb.PlanPart)
        found.append(part)
    return found


def joined(assembler: PlanAssembler, parts: list[pb.PlanPart]) -> Plan | None:
    """The plan after all parts; none before the last."""
    for part in parts[:-1]:
        assert assembler.take(part) is None
    return assembler.take(parts[-1])


def many(count: int, **more: Any) -> Plan:
    """A plan of so many attempts."""
    removed = tuple(AttemptKey(WorkloadId(f"old{number}"), 1) for number in range(count))
    return Plan(3, 7, 5, (desired(),) * count, removed, **more)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(plan=values(Plan), limit=st.sampled_from([1, 500, 5000, 2**20]))
def test_every_plan_arrives_whole(plan: Plan, limit: int) -> None:
    assert joined(PlanAssembler(), parts_of(plan, limit)) == plan


@pytest.mark.parametrize("count", [0, 1, 2, 100])
def test_parts_are_numbered_bounded_and_the_last_is_marked(count: int) -> None:
    limit = 3000
    parts = parts_of(many(count), limit)
    assert [part.part for part in parts] == list(range(len(parts)))
    assert [part.last for part in parts] == [False] * (len(parts) - 1) + [True]
    assert all(part.ByteSize() <= limit + 64 for part in parts)
    assert len(parts) > count * desired_bytes() // limit


def desired_bytes() -> int:
    (part,) = parts_of(Plan(1, 1, None, (desired(),)), 2**20)
    return part.ByteSize()


def test_something_larger_than_a_part_has_one_of_its_own() -> None:
    parts = parts_of(many(3), 10)
    assert [len(part.desired) + len(part.removed) for part in parts] == [1] * 6


def test_something_too_large_for_a_message_is_refused_before_it_is_sent() -> None:
    args = ("x" * 100_000,) * (MOST_MESSAGE_BYTES // 100_000)
    large = dataclasses.replace(desired(), program=Program(args=args))
    with pytest.raises(WireError, match="too large"):
        list(plan_parts(Plan(1, 1, None, (large,))))


def test_a_plan_that_begins_anew_drops_the_parts_before() -> None:
    assembler = PlanAssembler()
    first, second = parts_of(many(9), 2000), parts_of(dataclasses.replace(many(4), epoch=4), 2000)
    for part in first[:3]:
        assembler.take(part)
    assert joined(assembler, second) == dataclasses.replace(many(4), epoch=4)


@pytest.mark.parametrize("wrong", ["skipped", "twice", "late", "other", "head"])
def test_a_part_that_does_not_follow_is_refused(wrong: str) -> None:
    parts = parts_of(many(40), 2000)
    if wrong == "skipped":
        del parts[1]
    elif wrong == "twice":
        parts.insert(1, parts[1])
    elif wrong == "late":
        del parts[0]
    elif wrong == "other":
        parts[1].revision += 1
    else:
        parts[1].base = 3
    assembler = PlanAssembler()
    with pytest.raises(WireError):
        joined(assembler, parts)
    assert joined(assembler, parts_of(many(2), 2000)) == many(2)


def test_what_a_member_keeps_of_a_plan_is_bounded() -> None:
    assembler = PlanAssembler(most_bytes=3000)
    with pytest.raises(WireError, match="larger than 3000 bytes"):
        joined(assembler, parts_of(many(20), 1000))


@pytest.mark.parametrize("field", ["epoch", "revision", "base"])
def test_a_plan_with_a_number_below_nothing_is_refused(field: str) -> None:
    (part,) = parts_of(many(1), 2**20)
    setattr(part, field, -1)
    with pytest.raises(WireError, match="less than nothing"):
        PlanAssembler().take(part)


def test_the_place_of_the_bad_attempt_is_named() -> None:
    (part,) = parts_of(many(3), 2**20)
    part.desired[2].order.instances = -4
    with pytest.raises(WireError) as caught:
        PlanAssembler().take(part)
    assert caught.value.field == "plan.desired[2].order.instances"
