import json
from typing import Any

import pytest
from pydantic import ValidationError

from dure.api.base import MOST_JSON_CHARACTERS, read_document, stored
from dure.api.complaints import complaints
from dure.api.jobs import JobSpec

BASE: dict[str, Any] = {"name": "train", "kind": "training", "image": "trainer:1"}
SERVICE = {
    "requestsPerSecond": 10.0,
    "replicaRequestsPerSecond": 5.0,
    "latency": "200ms",
    "serviceTime": "20ms",
}


def refused(**changes: Any) -> tuple[str, str]:
    """Field and words of the first complaint about a job with these changes."""
    body = {name: value for name, value in (BASE | changes).items() if value is not ...}
    with pytest.raises(ValidationError) as error:
        read_document(JobSpec, json.dumps(body))
    first = complaints(error.value, JobSpec)[0]
    return first.field, f"{first.detail}; {first.remedy}"


def test_short_forms_mean_the_long_ones() -> None:
    short = BASE | {"work": "6h", "gang": 8, "weights": "llama", "onClusterLost": "replace"}
    long = BASE | {
        "work": {"time": "6h"},
        "gang": {"workers": 8},
        "weights": {"name": "llama"},
        "onClusterLost": {"then": "replace"},
    }
    assert read_document(JobSpec, json.dumps(short)) == read_document(JobSpec, json.dumps(long))


def test_what_is_stored_reads_as_the_same_document_and_keeps_the_words() -> None:
    body = BASE | {
        "resources": {"memory": "20GiB", "dataType": "bf16", "profiles": ["H100"]},
        "sla": {"deadline": "+6h", "penaltyPerHour": 12.5},
        "onClusterLost": {"fenceAfter": "5m"},
        "mounts": [{"path": "/data", "volume": "corpus", "readOnly": False}],
    }
    spec = read_document(JobSpec, json.dumps(body))
    kept = stored(spec)
    assert kept == body
    assert read_document(JobSpec, json.dumps(kept)) == spec


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"kind": "trainin"}, "kind", "did you mean 'training'?"),
        ({"kind": ...}, "kind", "is missing; add kind"),
        ({"imag": "x"}, "imag", "there is no such field; did you mean 'image'?"),
        ({"resources": {"memroy": "1GiB"}}, "resources.memroy", "did you mean 'memory'?"),
        ({"resources": {"memory": "20"}}, "resources.memory", "does not fit"),
        ({"resources": {"memory": 20}}, "resources.memory", "is 20, not text"),
        ({"resources": {"devices": 0}}, "resources.devices", "of at least 1"),
        ({"resources": {"cpu": "4"}}, "resources.cpu", "is '4', not a number"),
        ({"resources": {"memory": "999999999999999TiB"}}, "resources.memory", "too large"),
        ({"env": {"A": "x\x00y"}}, "env.A", "does not fit"),
        ({"env": {"1A": "x"}}, "env.1A", "does not fit"),
        ({"name": "-x"}, "name", "does not fit"),
        ({"priority": 10**6}, "priority", "of at most 1000"),
        ({"gang": {"workers": 4, "mostWorkers": 2}}, "gang", "write at least 4"),
        ({"service": SERVICE}, "", "service means nothing for training"),
        ({"kind": "serving"}, "", "service is missing"),
        ({"kind": "serving", "service": SERVICE, "work": "1h"}, "", "work means nothing"),
        ({"image": ...}, "", "nothing to run"),
        ({"serviceName": "ocr"}, "", "name the team too"),
        ({"sla": {"deadline": "2026-10-01T06:00:00"}}, "sla.deadline", "does not fit"),
        ({"sla": {"deadline": "2026-13-01T06:00:00Z"}}, "sla.deadline", "is no moment"),
        ({"onClusterLost": {}}, "onClusterLost", "give exactly one"),
        ({"mounts": [{"path": "/x"}]}, "mounts[0]", "give exactly one"),
        ({"mounts": [{"path": "x", "secret": "s"}]}, "mounts[0].path", "does not fit"),
        ({"pod": {"hostNetwork": True}}, "", "pod.hostNetwork is not a job's to set"),
        ({"pod": {"securityContext": {"sysctls": []}}}, "", "sets more than a job may"),
        ({"pod": {"nodeSelector": {"a": "\x00"}}}, "pod", "NUL"),
        ({"pod": {"tolerations": ["x" * MOST_JSON_CHARACTERS]}}, "pod", "is longer than"),
        ({"array": {"count": 10_001}}, "array.count", "of at most 10000"),
        ({"labels": {"a b": "c"}}, "labels.a b", "does not fit"),
    ],
)
def test_what_cannot_be_used_is_refused_with_field_and_remedy(
    changes: dict[str, Any], field: str, words: str
) -> None:
    where, said = refused(**changes)
    assert where == field
    assert words in said


def test_fields_are_named_one_way_only() -> None:
    where, said = refused(delay_tolerant=True)
    assert where == "delay_tolerant"
    assert "did you mean 'delayTolerant'?" in said


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400"])
def test_numbers_without_end_are_refused(number: str) -> None:
    text = json.dumps(BASE)[:-1] + f', "resources": {{"cpu": {number}}}}}'
    with pytest.raises(ValidationError):
        read_document(JobSpec, text)
