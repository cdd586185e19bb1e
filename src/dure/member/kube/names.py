"""Names of Dure's objects in a cluster, and the labels, annotations and variables they carry."""

import hashlib
import re
from collections.abc import Mapping

from dure.domain.fleet.decisions import InstanceId
from dure.domain.fleet.protocol.desired import AttemptKey
from dure.domain.ids import WorkloadId
from dure.kube.labels import PREFIX

MANAGER = "dure"
"""Field manager of what is applied, and the value of `MANAGED_BY`."""

MANAGED_BY = f"{PREFIX}managed-by"
JOB = f"{PREFIX}job"
ATTEMPT = f"{PREFIX}attempt"
INDEX = f"{PREFIX}index"
CLUSTER = f"{PREFIX}cluster"
TENANT = f"{PREFIX}tenant"

ROUTE = f"{PREFIX}route"
"""Label of what lets services be found under a name of the cluster."""

NOTE = f"{PREFIX}note"
"""Annotation: what a member without memory needs to know of the object."""
TAKEN_BACK = f"{PREFIX}taken-back"
"""Annotation: the life an object is to be told with once it is gone, and why."""
UNGATED_AT = f"{PREFIX}ungated-at"
"""Annotation of a gang's Job: since when its Pods may be bound, in seconds since 1970."""
BOUND = f"{PREFIX}bound"
"""Annotation of a gang's Job: all its Pods have been bound."""
DONE_SHARE = f"{PREFIX}done-share"
SAVED_SHARE = f"{PREFIX}saved-share"
"""Annotations of a Pod, written by whoever knows: how far a job is, how much of it is saved."""

CHECKPOINT_REQUESTED = f"{PREFIX}checkpoint-requested"
"""Annotation of a Pod, written by the member: number of the checkpoint that is asked for; empty:
none is any more. Its program finds it as a file."""
CHECKPOINT_DONE = f"{PREFIX}checkpoint-done"
"""Annotation of a Pod, written by whoever knows: number of the last one that is saved."""

DIVIDED_FROM = f"{PREFIX}divided-from"
"""Annotation of a node whose devices are divided anew: what it offered before, and since when."""

GATE = f"{PREFIX}placed"
"""Scheduling gate of a gang's Pods, until every rank has its node."""

RANK_LABEL = "batch.kubernetes.io/job-completion-index"
JOB_NAME_LABEL = "batch.kubernetes.io/job-name"

OURS = f"{MANAGED_BY}={MANAGER}"
"""Selects everything of Dure's."""

_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_DNS = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_MOST_JOB_NAME = 40
"""Characters of a job's id in names: with attempt and index they stay a DNS label."""


def is_ours(labels: Mapping[str, str]) -> bool:
    """Whether an object is Dure's."""
    return labels.get(MANAGED_BY) == MANAGER


def label_value(text: str) -> str:
    """A text as a label's value; one that cannot be is replaced by its digest."""
    return text if _LABEL.fullmatch(text) else _digest(text)


def attempt_name(key: AttemptKey) -> str:
    """What the names of an attempt's objects begin with."""
    plain = key.job.lower()
    if not _DNS.fullmatch(plain) or plain != key.job or len(plain) > _MOST_JOB_NAME:
        plain = _digest(key.job)
    return f"dure-{plain}-{key.attempt}"


def object_name(instance: InstanceId) -> str:
    """What the object of an instance is called; the same whenever it is asked for."""
    key = AttemptKey(instance.workload, instance.attempt)
    return f"{attempt_name(key)}-{instance.index}"


def attempt_labels(job: WorkloadId, attempt: int) -> dict[str, str]:
    """Labels that all objects of an attempt have."""
    return {MANAGED_BY: MANAGER, JOB: label_value(job), ATTEMPT: str(attempt)}


def selector(instance: InstanceId) -> str:
    """Selects the objects of an instance's attempt."""
    labels = attempt_labels(instance.workload, instance.attempt)
    return ",".join(f"{key}={value}" for key, value in labels.items())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:26]
