"""What survives an agent: tenants, policies and history in one file, written whole or not."""

import json
import logging
from pathlib import Path

from pydantic import BaseModel, ValidationError

from dure.agent.registry import CommandHistory, Declared, Holder, Registry
from dure.client.schema import TenantSpec
from dure.kit.files import FileProblem, write_text

_log = logging.getLogger(__name__)

_VERSION = 1


class _Holder(BaseModel):
    pid: int
    started: int


class _Tenant(BaseModel):
    uid: int
    spec: TenantSpec
    deadline_unix_ns: int | None = None
    holders: list[_Holder] = []


class PolicyState(BaseModel):
    """The policy of one GPU."""

    policy: str
    parameters: dict[str, float] = {}


class _History(BaseModel):
    runs: int
    gpu_ns: float


class _State(BaseModel):
    version: int = _VERSION
    tenants: dict[str, _Tenant] = {}
    policies: dict[str, PolicyState] = {}
    history: dict[str, _History] = {}


Policies = dict[str, PolicyState]
"""By the UUID of their GPU."""


def save(file: Path, registry: Registry, policies: Policies) -> None:
    """Write the state; a reader sees the old or the new, never a part."""
    state = _State(
        tenants={
            name: _Tenant(
                uid=declared.uid,
                spec=declared.spec,
                deadline_unix_ns=declared.deadline_unix_ns,
                holders=[_Holder(pid=h.pid, started=h.started) for h in declared.holders],
            )
            for name, declared in registry.tenants.items()
        },
        policies=policies,
        history={
            command: _History(runs=known.runs, gpu_ns=known.gpu_ns)
            for command, known in registry.history.items()
        },
    )
    write_text(file, json.dumps(state.model_dump(mode="json", by_alias=True), indent=1))
    file.chmod(0o600)  # it holds command lines of users


def load(file: Path) -> tuple[Registry, Policies]:
    """The state as it was; an unreadable file is put aside, since an agent must start."""
    try:
        state = _State.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return Registry(), {}
    except (OSError, ValidationError) as error:
        aside = file.with_name(file.name + ".unreadable")
        _log.warning("%s cannot be used (%s); it is kept as %s", file, error, aside.name)
        try:
            file.replace(aside)
        except OSError as problem:
            _log.warning("%s cannot be put aside (%s)", file, problem)
        return Registry(), {}
    tenants = {
        name: Declared(
            name=name,
            uid=kept.uid,
            spec=kept.spec,
            deadline_unix_ns=kept.deadline_unix_ns,
            holders={Holder(h.pid, h.started) for h in kept.holders},
        )
        for name, kept in state.tenants.items()
    }
    history = {
        command: CommandHistory(known.runs, known.gpu_ns)
        for command, known in state.history.items()
    }
    return Registry(tenants, history), state.policies


def try_save(file: Path, registry: Registry, policies: Policies) -> None:
    """Save; a full disk must not stop the agent."""
    try:
        save(file, registry, policies)
    except FileProblem as problem:
        _log.error("the state cannot be saved: %s", problem)
