"""`dure run`: run a program as a tenant of a GPU.

Absence fails open: without an agent, a GPU or the shim the program runs as it would without Dure,
after a sentence that says so (`--require` refuses instead). A refusal does not: what an agent that
shares the GPU between others does not admit would disturb them, so it is not run.
"""

import contextlib
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dure.cli import run_options as opt
from dure.cli.child import EXIT_NOT_FOUND, NotStarted, run_child
from dure.domain.errors import DureError, InputError

if TYPE_CHECKING:
    from dure.client.api import AgentClient
    from dure.client.schema import TenantDeclared, TenantSpec

_PRELOAD = "LD_PRELOAD"
_LIBRARIES = "LD_LIBRARY_PATH"
_MOST_TRIES = 100
"""Names tried for a tenant nobody named."""


def run(
    command: opt.Command,
    tenant: opt.Tenant = None,
    gpu: opt.Gpu = None,
    memory_limit: opt.MemoryLimit = None,
    memory_reserve: opt.MemoryReserve = None,
    sm_share: opt.SmShare = None,
    weight: opt.Weight = None,
    tenant_class: opt.TenantClass = None,
    best_effort: opt.BestEffort = False,
    goal: opt.Goal = None,
    expect: opt.Expect = None,
    deadline: opt.Deadline = None,
    latency_slo: opt.LatencySlo = None,
    throughput_slo: opt.ThroughputSlo = None,
    availability_slo: opt.AvailabilitySlo = None,
    copy_limit: opt.CopyLimit = None,
    free: opt.Free = False,
    require: opt.Require = False,
    quiet: opt.Quiet = False,
) -> None:
    """Run a program as a tenant of a GPU; exit code and signals pass through."""
    from dure.cli.wishes import checked_name, spec_of

    stated = {
        "memory-limit": memory_limit,
        "memory-reserve": memory_reserve,
        "sm-share": sm_share,
        "weight": weight,
        "class": _class(tenant_class, best_effort=best_effort),
        "goal": goal,
        "expect": expect,
        "deadline": deadline,
        "latency-slo": latency_slo,
        "throughput-slo": throughput_slo,
        "availability-slo": availability_slo,
        "copy-limit": copy_limit,
    }
    more = {"gpu": gpu or None, "free": free or None}
    said = {key: value for key, value in more.items() if value is not None}
    spec = spec_of(stated, command=tuple(command), **said)
    name = checked_name(tenant) if tenant is not None else None
    raise typer.Exit(_run(command, name, spec, require=require, quiet=quiet))


def _class(stated: str | None, *, best_effort: bool) -> str | None:
    """The tenant's class, of which `--best-effort` is the short form."""
    if best_effort and stated not in (None, "best-effort"):
        raise InputError(
            f"the class cannot be both best-effort and {stated}",
            "leave out one of the two",
            field="--best-effort",
        )
    return "best-effort" if best_effort else stated


def _run(
    command: list[str], name: str | None, spec: "TenantSpec", *, require: bool, quiet: bool
) -> int:
    """The program's exit code; it runs as a tenant where there is an agent to be had."""
    from dure.cli.wishes import name_of

    _refuse_missing(command[0])
    tenancy = _tenancy(name, name_of(command), spec, require=require)
    if tenancy is None:
        return run_child(command, os.environ)
    with contextlib.closing(tenancy.client):
        if not quiet:
            for note in tenancy.declared.notes:
                _say(note)
        code = run_child(command, environment_with(tenancy.declared.environment, os.environ))
        if not quiet and tenancy.unused():
            _say(f"'{command[0]}' did not use the GPU under Dure")
    return code


@dataclass(frozen=True, slots=True)
class Tenancy:
    """A tenant that was declared, and to whom."""

    client: "AgentClient"
    declared: "TenantDeclared"
    since_unix_s: float

    def unused(self) -> bool:
        """Whether no process of it ever registered; False where nobody can tell."""
        try:
            status = self.client.status()
        except DureError:
            return False
        mine = [each for each in status.tenants if each.name == self.declared.name]
        if not mine or any(each.clients or each.launches for each in mine):
            return False
        return not any(
            event.kind == "client"
            and event.tenant == self.declared.name
            and event.at_unix_s >= self.since_unix_s
            for event in status.events
        )


def _tenancy(
    name: str | None, suggested: str, spec: "TenantSpec", *, require: bool
) -> Tenancy | None:
    """Declare the tenant to an agent, found or started; None where there is none to be had."""
    from dure.agent.spawn import ensure_agent

    try:
        client = ensure_agent()
        since = time.time()
        declared = _declare(client, name, suggested, spec)
        if require and _PRELOAD not in declared.environment:
            raise DureError(" ".join(declared.notes) or "the agent has no shim to load")
    except InputError:
        raise
    except DureError as error:
        if require:
            raise
        advice = f" ({error.remedy})" if error.remedy else ""
        _say(f"{error.what}; the program runs without Dure{advice}")
        return None
    return Tenancy(client, declared, since)


def _declare(
    client: "AgentClient", name: str | None, suggested: str, spec: "TenantSpec"
) -> "TenantDeclared":
    """Declare the tenant; what was said of one that is there already holds unless stated anew."""
    known = {tenant.name: tenant.spec for tenant in client.tenants()}
    if name is None:
        numbered = (f"{suggested[:28]}-{number}" for number in range(2, _MOST_TRIES))
        name = next((each for each in (suggested, *numbered) if each not in known), suggested)
    elif name in known:
        stated = {field: getattr(spec, field) for field in spec.model_fields_set}
        spec = known[name].model_copy(update=stated)
    return client.declare(name, spec)


def environment_with(added: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The environment of the program: what the agent asks for, beside what is there already.

    Among preloaded libraries ours comes last: a sanitizer's run-time must be first, and the shim
    leaves other names alone. Among folders of libraries ours comes first.
    """
    environment = {**own, **added}
    shim, others = added.get(_PRELOAD), own.get(_PRELOAD, "")
    if shim and others:
        kept = [each for each in others.replace(":", " ").split() if each != shim]
        environment[_PRELOAD] = ":".join([*kept, shim])
    folder, paths = added.get(_LIBRARIES), own.get(_LIBRARIES)
    if folder and paths:
        kept = [each for each in paths.split(":") if each != folder]
        environment[_LIBRARIES] = ":".join([folder, *kept])
    return environment


def _refuse_missing(program: str) -> None:
    """Know that there is nothing to run before an agent is started for it."""
    if os.sep in program:
        found, remedy = Path(program).exists(), "check its name"
    else:
        found, remedy = shutil.which(program) is not None, "check its name and PATH"
        if Path(program).exists():
            remedy = f"write './{program}' for the one in this folder"
    if not found:
        raise NotStarted(f"no program '{program}' was found", remedy, EXIT_NOT_FOUND)


def _say(sentence: str) -> None:
    typer.echo(f"dure: {' '.join(sentence.split())}", err=True)
