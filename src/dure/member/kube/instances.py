"""Dure's Pods and gangs' Jobs as instances: which objects carry each out, and what was told."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache

from dure.domain.fleet.decisions import InstanceId
from dure.domain.fleet.protocol.desired import Desired
from dure.domain.fleet.workloads import WorkloadKind
from dure.domain.ids import WorkloadId
from dure.kube.resources import Object, ObjectKey, key_of, uid_of
from dure.member.kube import names
from dure.member.kube.gangs import finished, rank_of
from dure.member.kube.lives import PodLife, pod_life
from dure.member.kube.notes import Note, read_note
from dure.member.kube.numbering import Numbering
from dure.member.kube.spots import NodeSpot
from dure.member.ports import Checkpointed, Life, Progressed, Seen

_CACHED_NOTES = 4096
"""Notes kept as they were read: an object's changes many times, its note never."""


@lru_cache(_CACHED_NOTES)
def _cached_note(text: str) -> Note | None:
    return read_note(text)


def note_of(thing: Object) -> Note | None:
    """What an object says of itself; None where it says nothing that can be read."""
    text = (thing["metadata"].get("annotations") or {}).get(names.NOTE, "")
    return _cached_note(text) if text else None


@dataclass(frozen=True, slots=True)
class TakenBack:
    """Of an object that is removed because it could not be carried out: how that is to be told."""

    life: Life
    why: str

    def __str__(self) -> str:
        return f"{self.life.value}: {self.why}"


def taken_back(thing: Object) -> TakenBack | None:
    """What an object's annotation says; None: it was not taken back."""
    text = (thing["metadata"].get("annotations") or {}).get(names.TAKEN_BACK, "")
    life, _, why = text.partition(": ")
    return TakenBack(Life(life), why) if life in _TAKEN_BACK_AS else None


_TAKEN_BACK_AS = (Life.UNBOUND.value, Life.FAILED.value)


@dataclass
class Carried:
    """One instance and the objects that carry it out."""

    instance: InstanceId
    desired: Desired | None
    """None: its object does not tell any more."""
    spot: NodeSpot
    devices: tuple[str, ...] = ()
    """Those that a claim must give."""
    rank: int = 0
    """Its place in the gang's Job."""
    pods: dict[str, Object] = field(default_factory=dict)
    """By uid; more than one only while an old one ends."""
    job: Object | None = None
    """Of a gang's rank."""
    last: PodLife | None = None
    """Of its last Pod, also after that has gone."""
    end: TakenBack | None = None
    told: Seen | None = None
    told_of: frozenset[str] = frozenset()
    """Objects there were when it was told."""
    progress: Progressed | None = None
    checkpointed: int = 0
    """The last checkpoint that was told to be saved."""

    @property
    def kind(self) -> WorkloadKind | None:
        """What it is an instance of."""
        return self.desired.order.workload.kind if self.desired else None

    @property
    def pod(self) -> Object | None:
        """The one that counts: not told to end where there is one, then the youngest."""
        return max(self.pods.values(), key=_youth, default=None)

    @property
    def uids(self) -> frozenset[str]:
        """Of the objects there are."""
        return frozenset(self.pods) | ({uid_of(self.job)} if self.job else frozenset())

    def take_end(self, thing: Object) -> None:
        """Remember how it is to be told; a new object has nothing to do with the old one's end."""
        end = taken_back(thing)
        if end is not None or uid_of(thing) not in self.uids:
            self.end = end


def _youth(pod: Object) -> tuple[bool, str]:
    metadata = pod["metadata"]
    return ("deletionTimestamp" not in metadata, str(metadata.get("creationTimestamp", "")))


class Instances:
    """Everything of Dure's in the cluster."""

    def __init__(self) -> None:
        self.carried: dict[InstanceId, Carried] = {}
        self.jobs: dict[ObjectKey, Object] = {}
        self.awaited: set[InstanceId] = set()
        """Instances that are to be made anew as soon as an old object of theirs has gone."""
        self._dirty: dict[InstanceId, None] = {}

    def put_pod(self, pod: Object, *, gone: bool) -> None:
        """A Pod of ours came, changed or went."""
        carried = self._carrying(pod)
        if carried is None:
            return
        carried.last = pod_life(pod, carried.kind)
        carried.take_end(pod)
        if gone:
            carried.pods.pop(uid_of(pod), None)
        else:
            carried.pods[uid_of(pod)] = pod

    def put_job(self, job: Object, *, gone: bool) -> None:
        """A gang's Job came, changed or went."""
        if gone:
            self.jobs.pop(key_of(job), None)
        else:
            self.jobs[key_of(job)] = job
        note = note_of(job)
        if note is None:
            return
        for place in range(len(note.indexes)):
            carried = self._carried(note, place)
            carried.take_end(job)
            carried.job = None if gone else job

    def gang_pods(self, job: Object) -> list[Object | None]:
        """The Pods of a gang's ranks; None where a rank has none."""
        note = note_of(job)
        count = job["spec"]["completions"]
        found = [self.carried.get(instance) for instance in note.instances[:count]] if note else []
        return [carried.pod if carried else None for carried in found]

    def renumbered(self) -> None:
        """Numbers of nodes and devices have changed: what was told of places is void."""
        self._dirty |= dict.fromkeys(self.carried)

    def news(self, numbering: Numbering) -> Iterator[Seen | Progressed | Checkpointed]:
        """What has changed of them."""
        dirty, self._dirty = self._dirty, {}
        for instance in dirty:
            carried = self.carried[instance]
            if not carried.uids:
                del self.carried[instance]
            seen = self._seen(carried, numbering)
            if seen is not None:
                carried.told, carried.told_of = seen, carried.uids
                yield seen
            progress = _progress(carried)
            if progress is not None and progress != carried.progress:
                carried.progress = progress
                yield progress
            number = _checkpointed(carried)
            if number > carried.checkpointed:
                carried.checkpointed = number
                yield Checkpointed(carried.instance, number)

    def _carrying(self, pod: Object) -> Carried | None:
        """The instance of a Pod; by its labels where somebody has spoilt its note."""
        note = note_of(pod)
        place = rank_of(pod) or 0
        if note is not None and place < len(note.indexes):
            return self._carried(note, place)
        labels = pod["metadata"]["labels"]
        numbers = (labels.get(names.ATTEMPT, ""), labels.get(names.INDEX, ""))
        if names.JOB not in labels or not all(number.isdigit() for number in numbers):
            return None
        instance = InstanceId(WorkloadId(labels[names.JOB]), *map(int, numbers))
        self._dirty[instance] = None
        nowhere = NodeSpot(str(pod["spec"].get("nodeName", "")), ())
        return self.carried.setdefault(instance, Carried(instance, None, nowhere))

    def _carried(self, note: Note, place: int) -> Carried:
        instance = note.instances[place]
        self._dirty[instance] = None
        devices = note.devices[place] if note.devices else ()
        carried = self.carried.get(instance)
        if carried is None:
            carried = Carried(instance, note.desired, note.spots[place])
            self.carried[instance] = carried
        carried.desired, carried.spot = note.desired, note.spots[place]
        carried.devices, carried.rank = devices, place
        return carried

    def _seen(self, carried: Carried, numbering: Numbering) -> Seen | None:
        """What is to be told of an instance; None: nothing new.

        An end is final for the objects it was told of: that they are removed later is no news.
        """
        told = carried.told
        if told is not None and told.life.over and carried.uids <= carried.told_of:
            return None
        if not carried.uids and carried.instance in self.awaited:
            return None  # who wants it anew need not hear of the end of the old one
        pod = carried.pod
        life = _life(carried)
        seen = Seen(
            instance=carried.instance,
            life=life.life,
            node=carried.spot.node,
            name=str((pod or carried.job or _NAMELESS)["metadata"]["name"]) or _told_name(told),
            placement=numbering.placement(carried.spot) if carried.desired else None,
            desired=carried.desired,
            why=life.why,
            exit_code=life.exit_code,
            started_ns=life.started_ns,
            ended_ns=life.ended_ns,
            address=_address(carried),
        )
        return None if seen == told else seen


def _address(carried: Carried) -> str:
    """Where a service answers: at its Pod's address, which other clusters may not reach."""
    port = carried.desired.program.port if carried.desired else None
    host = str((carried.pod or {}).get("status", {}).get("podIP") or "")
    if port is None or not host:
        return ""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


_NAMELESS: Object = {"metadata": {"name": ""}}


def _told_name(told: Seen | None) -> str:
    return told.name if told else ""


def _life(carried: Carried) -> PodLife:
    """Where an instance is, from all its objects."""
    pod, job = carried.pod, carried.job
    if pod is not None:
        return pod_life(pod, carried.kind)
    if job is not None:
        return _life_of_job(job, carried.rank)
    if carried.end is not None:
        return PodLife(carried.end.life, carried.end.why)
    last = carried.last
    if last is None:
        return PodLife(Life.GONE)
    return last if last.life.over else replace(last, life=Life.GONE)


def _life_of_job(job: Object, rank: int) -> PodLife:
    """Of a rank that has no Pod: not yet, or not any more."""
    over = finished(job)
    if rank >= job["spec"]["completions"]:
        return PodLife(Life.GONE, "its gang goes on without it")
    if over == "Complete":
        return PodLife(Life.SUCCEEDED)
    if over == "Failed":
        return PodLife(Life.GONE, "another rank of its gang failed")
    if job["metadata"].get("deletionTimestamp"):
        return PodLife(Life.ENDING)
    return PodLife(Life.PENDING)


def _progress(carried: Carried) -> Progressed | None:
    """How far a job is, where somebody noted that on its Pod."""
    pod = carried.pod
    stated = (pod["metadata"].get("annotations") or {}) if pod else {}
    if names.DONE_SHARE not in stated:
        return None
    try:
        done = min(1.0, max(0.0, float(stated[names.DONE_SHARE])))
        saved = min(done, max(0.0, float(stated.get(names.SAVED_SHARE, "0"))))
    except ValueError:
        return None
    return Progressed(carried.instance, done, saved)


def _checkpointed(carried: Carried) -> int:
    """The last checkpoint that somebody noted on its Pod to be saved; 0: none."""
    pod = carried.pod
    stated = (pod["metadata"].get("annotations") or {}) if pod else {}
    number = str(stated.get(names.CHECKPOINT_DONE, ""))
    return int(number) if number.isascii() and number.isdecimal() else 0
