"""Reports are numbered without gaps, in parts that are not too large, and told until stored."""

from dataclasses import replace

from dure.domain.fleet.decisions import Placement
from dure.domain.fleet.protocol.desired import AttemptKey
from dure.domain.fleet.protocol.reports import (
    AttemptStatus,
    InstanceStatus,
    Inventory,
    Report,
    RunPhase,
    Usage,
)
from dure.domain.ids import WorkloadId
from dure.member.link.outbox import Outbox
from dure.wire.codec import from_member
from dure.wire.parts import PART_BYTES

MANY = 65_536
"""Attempts: more than any cluster has had."""


def status(number: int, instances: int = 1, why: str = "") -> AttemptStatus:
    key = AttemptKey(WorkloadId(f"{number:026d}"), 3)
    node = f"ip-10-123-45-{number}.ap-northeast-2.compute.internal"
    place = Placement(number, (8 * number,), (127,), "1g.10gb", 143)
    return AttemptStatus(
        key,
        RunPhase.RUNNING,
        why=why,
        instances=tuple(
            InstanceStatus(index, node, f"dure-{key.job}-3-{index}", place, ready=True)
            for index in range(instances)
        ),
        done_share=0.5,
        saved_share=0.25,
        started_ns=1_794_831_427_555_130_333,
    )


def test_the_largest_cluster_is_told_in_parts_below_a_mebibyte_that_lack_nothing() -> None:
    attempts = tuple(status(number) for number in range(MANY))
    usage = tuple(Usage(each.key, 10, 0, 1) for each in attempts)
    report = Report(0, 7, True, attempts, inventory=Inventory(), usage=usage, warnings=("a",))
    told = Outbox().number(report)
    assert [each.seq for each in told] == list(range(1, len(told) + 1))
    assert max(from_member(each).ByteSize() for each in told) < PART_BYTES
    assert [each.whole for each in told] == [True] + [False] * (len(told) - 1)
    assert tuple(one for each in told for one in each.attempts) == attempts
    assert tuple(one for each in told for one in each.usage) == usage
    assert [each.inventory for each in told[1:]] == [None] * (len(told) - 1)
    assert [one for each in told for one in each.warnings] == ["a"]


def test_gangs_and_long_reasons_count_for_what_they_are() -> None:
    attempts = tuple(status(number, 500, "x" * 50_000) for number in range(20))
    told = Outbox().number(Report(0, 7, True, attempts))
    assert max(from_member(each).ByteSize() for each in told) < PART_BYTES
    assert tuple(one for each in told for one in each.attempts) == attempts


def test_a_report_of_little_or_nothing_is_one() -> None:
    empty = Report(0, 7, False)
    small = replace(empty, attempts=(status(1),), usage=(Usage(status(2).key, 1, 0, 1),))
    outbox = Outbox()
    assert outbox.number(empty) == [replace(empty, seq=1)]
    assert outbox.number(small) == [replace(small, seq=2)]


def test_a_cut_between_two_parts_is_followed_by_the_parts_that_were_not_stored() -> None:
    outbox = Outbox()
    told = outbox.number(Report(0, 7, True, tuple(status(number) for number in range(5_000))))
    assert len(told) > 2
    assert outbox.resume(2) == tuple(told[2:])
    assert not outbox.whole_needed
    assert [each.at_ns for each in outbox.heard(len(told))][-1] == 7
    assert outbox.resume(len(told)) == ()


def test_who_lacks_what_is_no_longer_kept_is_told_everything() -> None:
    outbox = Outbox()
    outbox.number(Report(0, 7, True))
    outbox.heard(1)
    assert outbox.resume(0) == ()
    assert outbox.whole_needed
