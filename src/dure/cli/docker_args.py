"""`dure docker-args`: what a container needs to be a tenant, as arguments or as a compose file."""

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from dure.client.schema import TenantDeclared

_SHIM_INSIDE = "/opt/dure/libdure.so"
_RUN_INSIDE = "/run/dure"
_DRIVER_INSIDE = "/opt/dure/emulator"
_BROKER_INSIDE = "/run/dure-emulator"
_EMULATOR = "DURE_EMULATOR_DIR"


@dataclass(frozen=True, slots=True)
class ContainerNeeds:
    """Everything that makes a container's programs tenants, besides their image."""

    tenant: str
    mounts: tuple[tuple[str, str, bool], ...]
    """Here, inside, read-only."""
    environment: tuple[tuple[str, str], ...]
    gpus: str
    """As docker takes it; empty on the emulator."""
    share_ipc: bool
    """MPS, like the emulator, shares memory segments of the host between programs."""


def docker_args(
    tenant: Annotated[str, typer.Option(help="The tenant the container is part of.")] = "container",
    gpu: Annotated[str | None, typer.Option(help="Index or UUID; all unless given.")] = None,
    compose: Annotated[
        bool, typer.Option("--compose", help="Print a service of a compose file instead.")
    ] = False,
    image: Annotated[str, typer.Option(help="Image named in the compose service.")] = "IMAGE",
) -> None:
    """Print what `docker run` needs so that the container is a tenant.

    Use it as: docker run $(dure docker-args --tenant web) IMAGE
    """
    from dure.cli.wishes import checked_name

    needs = container_needs(checked_name(tenant), gpu)
    if compose:
        typer.echo(compose_service(needs, image), nl=False)
    else:
        typer.echo(shlex.join(arguments(needs)))


def container_needs(tenant: str, gpu: str | None) -> ContainerNeeds:
    """What the agent of this host asks of a container; declares the tenant where nobody has."""
    from dure.client.api import find_agent
    from dure.client.schema import TenantSpec

    with find_agent() as client:
        known = {each.name: each.spec for each in client.tenants()}
        spec = known.get(tenant, TenantSpec(gpu=gpu))
        declared = client.declare(tenant, spec.model_copy(update={"keep": True}))
        run_dir, sharing = client.places.run_dir, client.status().agent.sharing
    if tenant not in known:
        typer.echo(
            f"dure: tenant '{tenant}' is declared until `dure forget {tenant}`; "
            f"`dure set {tenant} latency-slo=p99=20ms` and the like change it",
            err=True,
        )
    return needs_of(declared, run_dir, gpu, share_ipc=sharing == "mps")


def needs_of(
    declared: "TenantDeclared", run_dir: "Path", gpu: str | None, *, share_ipc: bool
) -> ContainerNeeds:
    """The environment of a tenant's programs, with the paths they have inside a container."""
    given = declared.environment
    emulated = _EMULATOR in given
    places = [
        (str(run_dir), _RUN_INSIDE, False),
        (given.get("LD_PRELOAD", ""), _SHIM_INSIDE, True),
        (given.get(_EMULATOR, ""), _BROKER_INSIDE, False),
        (given.get("LD_LIBRARY_PATH", "") if emulated else "", _DRIVER_INSIDE, True),
    ]
    mounts = tuple(place for place in places if place[0])
    environment = []
    for name, value in sorted(given.items()):
        for here, inside, _ in mounts:
            if value == here or value.startswith(f"{here}/"):
                value = inside + value.removeprefix(here)  # noqa: PLW2901
                break
        environment.append((name, value))
    gpus = "" if emulated else "all" if gpu is None else f"device={gpu}"
    return ContainerNeeds(
        declared.name, mounts, tuple(environment), gpus, share_ipc=share_ipc or emulated
    )


def arguments(needs: ContainerNeeds) -> list[str]:
    """For `docker run`."""
    words = ["--gpus", needs.gpus] if needs.gpus else []
    if needs.share_ipc:
        words += ["--ipc", "host"]
    for here, inside, read_only in needs.mounts:
        words += ["--volume", f"{here}:{inside}{':ro' if read_only else ''}"]
    for name, value in needs.environment:
        words += ["--env", f"{name}={value}"]
    return words


def compose_service(needs: ContainerNeeds, image: str) -> str:
    """A service of a compose file."""
    import yaml

    service: dict[str, object] = {"image": image}
    if needs.share_ipc:
        service["ipc"] = "host"
    service |= {
        "volumes": [
            f"{here}:{inside}{':ro' if read_only else ''}"
            for here, inside, read_only in needs.mounts
        ],
        "environment": dict(needs.environment),
    }
    if needs.gpus:
        device: dict[str, object] = {"driver": "nvidia", "capabilities": ["gpu"]}
        if needs.gpus == "all":
            device["count"] = "all"
        else:
            device["device_ids"] = [needs.gpus.removeprefix("device=")]
        service["deploy"] = {"resources": {"reservations": {"devices": [device]}}}
    return yaml.safe_dump({"services": {needs.tenant: service}}, sort_keys=False)
