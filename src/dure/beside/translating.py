"""A Workload of Kueue, or a Pod, as a job that Dure can weigh; or why it cannot be one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from dure.api.base import duration_ns
from dure.api.jobs import Gang, JobSpec, Resources, Sla, Work
from dure.domain.errors import DureError
from dure.domain.fleet.catalogue import CATALOGUE
from dure.domain.fleet.profiles import DeviceProfile
from dure.domain.fleet.slices import ShareMode, SliceTemplate
from dure.domain.fleet.workloads import WorkloadKind
from dure.domain.units import parse_bytes
from dure.kube import labels
from dure.kube.devices import GPU_PRODUCT, matching
from dure.kube.quantities import pod_requests
from dure.kube.resources import Object

WORK = f"{labels.PREFIX}work"
"""Annotation of a Pod: how long the job takes, as `2h`."""
DEADLINE = f"{labels.PREFIX}deadline"
MEMORY = f"{labels.PREFIX}memory"
"""Annotation of a Pod that asks for a shared device: memory that it needs of it."""
_MOST_PRIORITY = 1000
_NAME_CHARACTERS = 63
_SHARED = ".shared"


class UntranslatableError(DureError):
    """Dure could not rank clusters for it."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What one Pod asks for of accelerators."""

    resource: str
    count: int
    profiles: frozenset[str]
    """That could meet it."""
    memory_bytes: int = 0
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Origin:
    """What is known of a job beside its Pods."""

    name: str
    tenant: str
    """`tenant`, `tenant/team` or `tenant/team/service`."""
    priority: int = 0
    clusters: tuple[str, ...] | None = None
    """Where it may run, by Dure's names; None: anywhere."""
    longest_s: int | None = None
    """When it is ended at the latest."""


def wish_of(pod: Object) -> Wish | None:
    """The accelerators that a Pod, or a template of one, asks for; None: none."""
    asked = {
        name: amount for name, amount in pod_requests(pod).items() if amount > 0 and _offering(name)
    }
    if not asked:
        return None
    if len(asked) > 1:
        raise UntranslatableError(
            f"it asks for {' and '.join(sorted(asked))} at once", "ask for one kind of accelerator"
        )
    [(resource, amount)] = asked.items()
    spec, metadata = pod["spec"], pod.get("metadata") or {}
    fitting = _selected(_offering(resource), spec.get("nodeSelector") or {})
    if not fitting:
        raise UntranslatableError(
            f"no accelerator that is known offers {resource} on the nodes it selects",
            "correct its node selector",
        )
    names = frozenset(profile.name for profile in fitting)
    template = _template(resource, fitting[0])
    if template is not None:
        return Wish(resource, int(amount), names, template.memory_bytes, whole=False)
    if resource.endswith(_SHARED):
        stated = (metadata.get("annotations") or {}).get(MEMORY, "")
        if not stated:
            raise UntranslatableError(
                f"it asks for {resource}, a share of a device of which nobody says how large it is",
                f"annotate its Pods with {MEMORY}",
            )
        try:
            memory_bytes = parse_bytes(stated)
        except ValueError as error:
            raise UntranslatableError(
                f"{MEMORY}: {error}", f"correct the annotation {MEMORY}"
            ) from error
        return Wish(resource, int(amount), names, memory_bytes, whole=False)
    return Wish(resource, int(amount), names)


def job_of(templates: Sequence[tuple[int, Object]], origin: Origin) -> JobSpec:
    """Pods that run together, each kind with its count, as one job."""
    wishes = [(count, wish_of(template), template) for count, template in templates]
    asking = [(count, wish, pod) for count, wish, pod in wishes if wish is not None and count > 0]
    if not asking:
        raise UntranslatableError(
            "none of its Pods asks for an accelerator", "let MultiKueue itself dispatch it"
        )
    first = asking[0][1]
    if any(wish != first for _, wish, _ in asking):
        raise UntranslatableError(
            "its Pods ask for different accelerators", "split it into one job for each kind"
        )
    workers = sum(count for count, _, _ in asking)
    if not first.whole and first.count > 1:
        raise UntranslatableError(
            f"a Pod of it asks for {first.count} of {first.resource}", "ask for one slice a Pod"
        )
    pod = asking[0][2]
    return _spec(first, workers, pod, origin)


def _spec(wish: Wish, workers: int, pod: Object, origin: Origin) -> JobSpec:
    requests = pod_requests(pod)
    notes = (pod.get("metadata") or {}).get("annotations") or {}
    tenant, team, service = [*origin.tenant.split("/"), "", ""][:3]
    container = (pod["spec"].get("containers") or [{}])[0]
    kind = WorkloadKind.TRAINING if workers > 1 else WorkloadKind.BATCH
    try:
        return JobSpec(
            name=origin.name[:_NAME_CHARACTERS],
            kind=kind,
            tenant=tenant,
            team=team or None,
            service_name=service or None,
            priority=max(-_MOST_PRIORITY, min(_MOST_PRIORITY, origin.priority)),
            image=str(container.get("image") or "unknown"),
            resources=Resources(
                memory=f"{wish.memory_bytes}B",
                cpu=float(requests.get("cpu", Decimal(0))),
                host_memory=f"{int(requests.get('memory', Decimal(0)))}B",
                devices=wish.count if wish.whole else 1,
                whole=wish.whole,
                profiles=sorted(wish.profiles),
            ),
            work=_work(notes, origin.longest_s),
            gang=Gang(workers=workers),
            sla=Sla(deadline=notes.get(DEADLINE)),
            clusters=None if origin.clusters is None else list(origin.clusters),
        )
    except ValueError as error:  # pydantic's, too
        raise UntranslatableError(
            f"it cannot be a job of Dure's: {_first_line(error)}", "correct it, or its annotations"
        ) from error


def _work(notes: Mapping[str, str], longest_s: int | None) -> Work | None:
    stated = notes.get(WORK, "")
    if stated:
        duration_ns(stated)
        return Work(time=stated)
    return None if longest_s is None else Work(time=f"{longest_s}s")


def _first_line(error: ValueError) -> str:
    told: Any = getattr(error, "errors", None)
    if told is None:
        return str(error)
    first = told()[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else str(first["msg"])


# --- resources and profiles ------------------------------------------------------------------


def _offering(resource: str) -> list[DeviceProfile]:
    """Accelerators that can appear as an extended resource."""
    plain = resource.removesuffix(_SHARED)
    return [each for each in CATALOGUE.values() if plain in each.resource_names]


def _selected(candidates: list[DeviceProfile], selector: Mapping[str, str]) -> list[DeviceProfile]:
    """Those that a node selector leaves."""
    stated = selector.get(labels.PROFILE, "").lower()
    if stated:
        return [each for each in candidates if each.name == stated]
    product = selector.get(GPU_PRODUCT, "")
    return matching(product, 0, candidates) if product else candidates


def _template(resource: str, profile: DeviceProfile) -> SliceTemplate | None:
    """The hardware slice that a resource means; None: whole devices, or a software share."""
    if resource == profile.whole.resource_name:
        return None
    return next(
        (
            each
            for each in profile.slices
            if each.resource_name == resource and each.mode in (ShareMode.MIG, ShareMode.CORE_GROUP)
        ),
        None,
    )
