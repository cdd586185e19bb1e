"""What an informer tells after a list: exactly the way from what was known to what is."""

from hypothesis import given
from hypothesis import strategies as st

from dure.kube.informer import ChangeKind, differences
from dure.kube.resources import Object, ObjectKey, key_of, uid_of

States = dict[ObjectKey, Object]


def _object(name: str, uid: int, version: int) -> Object:
    return {"metadata": {"name": name, "uid": f"u{uid}", "resourceVersion": str(version)}}


states = st.lists(
    st.builds(_object, st.sampled_from("abcd"), st.integers(0, 2), st.integers(1, 3))
).map(lambda things: {key_of(thing): thing for thing in things})


@given(states, states)
def test_changes_lead_from_what_was_known_to_what_is(before: States, now: States) -> None:
    known = dict(before)
    for change in differences(before, now):
        key = key_of(change.object)
        match change.kind:
            case ChangeKind.ADDED:
                assert key not in known
                known[key] = change.object
            case ChangeKind.CHANGED:
                assert uid_of(known[key]) == uid_of(change.object)
                assert change.previous == known[key]
                known[key] = change.object
            case ChangeKind.DELETED:
                assert known.pop(key) == change.object
    assert known == now


@given(states)
def test_nothing_is_told_where_nothing_changed(known: States) -> None:
    assert list(differences(known, dict(known))) == []


@given(states, states)
def test_ends_of_names_that_are_gone_are_told_first(before: States, now: States) -> None:
    told = [change for change in differences(before, now) if key_of(change.object) not in now]
    assert told == list(differences(before, now))[: len(told)]
