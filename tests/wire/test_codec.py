"""Whatever is sent arrives as it was, and nothing unsound arrives at all."""

import dataclasses
import json
import math
import typing
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dure.domain.fleet.decisions import Alternative, Explanation, Order, Site
from dure.domain.fleet.programs import Mount, Program, Thing
from dure.domain.fleet.protocol.desired import AttemptKey, Desired, Plan, Surroundings
from dure.domain.fleet.protocol.link import Ack, Hello, LogChunk, Ping
from dure.domain.fleet.protocol.reports import AttemptStatus, Report, RunPhase
from dure.domain.fleet.workloads import Demand, Sla, Work, Workload, WorkloadKind
from dure.domain.ids import ClusterId, TenantId, WorkloadId
from dure.wire.codec import (
    KINDS,
    check,
    from_member,
    from_wire,
    heard_from_centre,
    heard_from_member,
    read,
    to_member,
    to_wire,
)
from dure.wire.kinds import MOST_POD_DEPTH, MOST_TEXT, WireError
from dure.wire.plain import pack, unpack
from dure.wire.v1 import member_pb2 as pb
from tests.wire.values import values

CLASSES = sorted(KINDS, key=lambda each: each.__name__)
some = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def desired(**more: Any) -> Desired:
    """An attempt that uses most fields there are."""
    workload = Workload(
        id=WorkloadId("01hz"),
        tenant=TenantId("ann"),
        kind=WorkloadKind.TRAINING,
        demand=Demand(memory_bytes=10**10, devices=8),
        work=Work(3600.0),
        clusters=frozenset({ClusterId("own")}),
    )
    other = Alternative(Site(ClusterId("cloud"), "main"), 5, 17.0, "dearer")
    why = Explanation((("rent", 16.0), ("carbon", 0.5)), runner_up=other)
    order = Order(workload, Site(ClusterId("own"), "main"), 3, 4, 0.5, 10**18, why)
    program = Program(
        image="images/train:1",
        command=("python", "train.py"),
        env={"A": "b"},
        env_from=(Thing("secret", "token"),),
        mounts=(Mount(Thing("volume", "data"), "/data"),),
        pod={"nodeSelector": {"disk": "ssd"}, "priority": 3},
    )
    return Desired(order, program, "dure-ann", **more)


# There and back


@pytest.mark.parametrize("kind", CLASSES, ids=lambda each: str(each.__name__))
@some
@given(data=st.data())
def test_every_value_arrives_as_it_was(kind: type, data: st.DataObject) -> None:
    value = data.draw(values(kind))
    message = to_wire(value)
    again = type(message).FromString(message.SerializeToString())
    assert from_wire(again) == value
    assert read(kind, again) == value


@pytest.mark.parametrize(
    "kind", [each for each in CLASSES if each is not LogChunk], ids=lambda each: str(each.__name__)
)
@some
@given(data=st.data())
def test_every_value_is_kept_as_it_was(kind: type, data: st.DataObject) -> None:
    value = data.draw(values(kind))
    kept = json.loads(json.dumps(pack(value), allow_nan=False))
    assert unpack(kind, kept) == value


@some
@given(value=values(Report))
def test_the_plain_form_is_the_json_form_of_the_message(value: Report) -> None:
    assert json_format.ParseDict(pack(value), pb.Report()) == to_wire(value)


def test_messages_have_the_fields_of_their_values_and_no_others() -> None:
    seen: set[type] = set()

    def visit(hint: Any) -> None:
        for inner in typing.get_args(hint):
            visit(inner)
        if not dataclasses.is_dataclass(hint) or hint in seen:
            return
        kind = typing.cast(type, hint)
        seen.add(kind)
        message = getattr(pb, kind.__name__)
        own = {each.name for each in dataclasses.fields(kind) if each.init}
        assert own == set(message.DESCRIPTOR.fields_by_name), kind
        for inner in typing.get_type_hints(kind).values():
            visit(inner)

    for kind in CLASSES:
        visit(kind)
    assert len(seen) > 40
    plan = {each.name for each in dataclasses.fields(Plan)}
    assert set(pb.PlanPart.DESCRIPTOR.fields_by_name) == plan | {"part", "last"}


def test_envelopes_carry_every_word_of_their_direction() -> None:
    for word in (Hello(ClusterId("own"), "process", "1", "0.1"), Ping(), LogChunk(1, b"x")):
        assert heard_from_member(from_member(word)) == word
    assert heard_from_centre(to_member(Ack(3))) == Ack(3)
    with pytest.raises(WireError, match="not said in this direction"):
        from_member(Ack(3))  # type: ignore[arg-type]
    with pytest.raises(WireError, match="in parts"):
        to_member(Plan(1, 1))


def test_figures_for_people_do_not_spoil_a_plan() -> None:
    value = desired()
    why = Explanation((("rent", math.inf), ("carbon", math.nan)), sla_risk=-math.inf)
    value = dataclasses.replace(value, order=dataclasses.replace(value.order, explanation=why))
    got = from_wire(to_wire(value)).order.explanation
    assert got.terms[0][1] == pytest.approx(1.797e308, rel=1e-3)
    assert got.terms[1][1] == 0.0
    assert got.sla_risk < -1e308


# Versions


def test_what_a_newer_peer_says_beyond_is_passed_over() -> None:
    raw = to_wire(Ack(3)).SerializeToString() + b"\xf8\x07\x05"  # field 127
    assert from_wire(pb.Ack.FromString(raw)) == Ack(3)
    assert unpack(Ack, {"seq": 3, "mood": "good"}) == Ack(3)


def test_a_word_of_a_newer_peer_is_an_error_that_can_be_handled() -> None:
    with pytest.raises(WireError, match="does not know"):
        heard_from_member(pb.FromMember.FromString(b"\xf8\x07\x05"))


@pytest.mark.parametrize("raw", [0, 99])
def test_an_enumeration_value_of_a_newer_peer_is_refused(raw: int) -> None:
    message = to_wire(desired())
    message.order.workload.kind = raw
    with pytest.raises(WireError, match="no WorkloadKind this version knows") as caught:
        from_wire(message)
    assert caught.value.field == "order.workload.kind"


def test_what_an_older_version_kept_without_a_field_has_its_default() -> None:
    kept = pack(desired())
    del kept["order"]["makes_room"], kept["program"]["grace_s"], kept["want"]
    assert unpack(Desired, kept) == desired()


# What is refused


def _spoil(path: str, value: Any) -> Any:
    message = to_wire(desired(fence_after_s=5.0))
    *way, last = path.split(".")
    inner = message
    for name in way:
        inner = getattr(inner, name)
    if value is None:
        inner.ClearField(last)
    elif isinstance(getattr(inner, last), int | float | str | bool):
        setattr(inner, last, value)
    else:
        getattr(inner, last).extend([value])
    return message


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        ("order", None, "is missing"),
        ("order.workload", None, "is missing"),
        ("order.workload.id", "", "is missing"),
        ("order.workload.id", "a\0b", "NUL"),
        ("order.workload.demand.cpu_milli", -1, "is -1"),
        ("order.workload.demand.devices", 2**40, "not 0 to"),
        ("order.workload.demand.compute_tops", math.nan, "finite"),
        ("order.workload.demand.compute_tops", math.inf, "finite"),
        ("order.workload.demand.compute_tops", -1.0, "finite"),
        ("order.workload.gang.workers", 0, "is 0"),
        ("order.resume_share", 1.5, "finite number from 0.0 to 1.0"),
        ("order.workload.priority", 2**40, "not -"),
        ("order.explanation.congestion", math.nan, "finite"),
        ("program.pod", "[1]", "not a JSON object"),
        ("program.pod", "{", "not JSON"),
        ("program.pod", '{"a": NaN}', "not JSON"),
        ("program.pod", '{"a": 1e999}', "beyond all bounds"),
        ("program.pod", '{"a": "\\u0000"}', "NUL"),
        ("program.pod", '{"a":' * 40 + "1" + "}" * 40, f"more than {MOST_POD_DEPTH} deep"),
        ("program.pod", '{"a":' + "[" * 60_000 + "]" * 60_000 + "}", "not JSON|deep"),
        ("program.image", "x" * (MOST_TEXT + 1), "characters"),
        ("program.port", 70_000, "not 1 to"),
        ("program.args", "a\0", "NUL"),
        ("fence_after_s", math.nan, "finite"),
    ],
)
def test_what_cannot_be_is_refused_and_named(path: str, value: Any, why: str) -> None:
    with pytest.raises(WireError, match=why) as caught:
        from_wire(_spoil(path, value))
    assert caught.value.field.startswith(path)
    assert path in str(caught.value)


def test_the_number_of_the_bad_item_is_named() -> None:
    keys = [AttemptKey(WorkloadId("a"), 1), AttemptKey(WorkloadId("b"), 1)]
    report = Report(1, 0, True, tuple(AttemptStatus(key, RunPhase.RUNNING) for key in keys))
    message = to_wire(report)
    message.attempts[1].done_share = -1.0
    with pytest.raises(WireError) as caught:
        from_wire(message)
    assert caught.value.field == "attempts.[1].done_share"


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_a_number_that_no_message_holds_is_an_error_where_it_is_written(value: int) -> None:
    with pytest.raises(WireError, match="cannot be written"):
        to_wire(Ack(value))


def test_what_is_no_text_for_others_is_an_error_where_it_is_written() -> None:
    with pytest.raises(WireError, match="cannot be written"):
        from_member(Hello(ClusterId("\ud800"), "process", "1", "0.1"))
    with pytest.raises(WireError, match="written as JSON"):
        to_wire(dataclasses.replace(desired(), program=Program(pod={"a": {1}})))


def test_what_a_peer_would_refuse_can_be_known_before_it_is_sent() -> None:
    assert check(desired()) == len(to_wire(desired()).SerializeToString())
    with pytest.raises(WireError, match="NUL"):
        check(Program(image="a\0b"))
    with pytest.raises(WireError, match="finite"):
        check(desired(fence_after_s=math.nan))


def test_a_cap_of_a_penalty_may_be_missing() -> None:
    raw = pack(desired())["order"]["workload"]["sla"]
    assert "penalty_cap" not in raw
    assert from_wire(to_wire(desired())).order.workload.sla == Sla()


# Fuzz


def _harmless(word: Any) -> None:
    """It is understood or refused; nothing else may come of it."""
    try:
        word()
    except WireError as error:
        said = str(error)
    else:
        return
    assert said


@settings(max_examples=300, deadline=None)
@given(raw=st.binary(max_size=200))
def test_random_bytes_do_no_harm(raw: bytes) -> None:
    for envelope, hear in ((pb.FromMember, heard_from_member), (pb.ToMember, heard_from_centre)):
        try:
            message = envelope.FromString(raw)
        except DecodeError:
            continue
        _harmless(lambda hear=hear, message=message: hear(message))


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_broken_messages_do_no_harm(data: st.DataObject) -> None:
    word = data.draw(st.sampled_from([Report, Hello, LogChunk]).flatmap(values))
    raw = bytearray(from_member(word).SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw)))
        match data.draw(st.sampled_from(["change", "insert", "remove"])):
            case "change" if at < len(raw):
                raw[at] = data.draw(st.integers(0, 255))
            case "remove":
                del raw[at : at + 2]
            case _:
                raw.insert(at, data.draw(st.integers(0, 255)))
    try:
        message = pb.FromMember.FromString(bytes(raw))
    except DecodeError:
        return
    _harmless(lambda: heard_from_member(message))


def _any_message(descriptor: Any, depth: int = 0) -> st.SearchStrategy[dict[str, Any]]:
    """Any content that the types of a message allow, sound or not."""
    fields: dict[str, st.SearchStrategy[Any]] = {}
    for each in descriptor.fields:
        one = _any_field(each, depth)
        if each.message_type is not None and each.message_type.GetOptions().map_entry:
            value = _any_field(each.message_type.fields_by_name["value"], depth)
            fields[each.name] = st.dictionaries(st.text(max_size=3), value, max_size=2)
        else:
            fields[each.name] = st.lists(one, max_size=2) if each.is_repeated else one
    return st.fixed_dictionaries({}, optional=fields)


def _any_field(field: Any, depth: int) -> st.SearchStrategy[Any]:
    if field.message_type is not None:
        return st.deferred(lambda: _any_message(field.message_type, depth + 1))
    if field.enum_type is not None:
        return st.integers(-1, 9)
    return {
        field.CPPTYPE_INT64: st.integers(-(2**63), 2**63 - 1) | st.integers(-1, 3),
        field.CPPTYPE_DOUBLE: st.floats(),
        field.CPPTYPE_BOOL: st.booleans(),
        field.CPPTYPE_STRING: st.text(st.characters(codec="utf-8"), max_size=4)
        if field.type == field.TYPE_STRING
        else st.binary(max_size=4),
    }[field.cpp_type]


@pytest.mark.parametrize("kind", [Desired, Surroundings, Report], ids=lambda each: each.__name__)
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_unsound_messages_do_no_harm(kind: type, data: st.DataObject) -> None:
    message = KINDS[kind][0]
    _harmless(lambda: from_wire(message(**data.draw(_any_message(message.DESCRIPTOR)))))


_anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda each: str(each.__name__))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_data_of_any_form_does_no_harm(kind: type, data: st.DataObject) -> None:
    names = [each.name for each in dataclasses.fields(kind)]
    raw = data.draw(st.dictionaries(st.sampled_from([*names, "x"]), _anything))
    if data.draw(st.booleans()):
        raw = {**pack(data.draw(values(kind))), **raw}
    _harmless(lambda: unpack(kind, raw))
