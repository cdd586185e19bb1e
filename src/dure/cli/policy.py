"""`dure policy`: which policies there are, which one is in force, and which follows from goals."""

import json
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dure.cli import policy_advice, policy_live

if TYPE_CHECKING:
    from dure.domain.tenant import Tenant
    from dure.kernel.goals import PolicyChoice

app = typer.Typer(
    help="Policies: what there is, what is in force, what follows from goals.",
    no_args_is_help=True,
)
app.command("show")(policy_live.show)
app.command("set")(policy_live.switch)
app.command("advice")(policy_advice.advice)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


@app.command("apply")
def apply(
    file: Annotated[Path, typer.Argument(help="The goals file.", metavar="GOALS.yaml")],
    as_json: AsJson = False,
    gpu: Annotated[
        str | None,
        typer.Option(
            help="Index or UUID of the GPU they are for; an accelerator's name, as 'h200', "
            "only checks that memory claims fit it."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what a running agent would do.")
    ] = False,
) -> None:
    """Choose policy, parameters and tenants' settings from goals; a running agent takes them."""
    from dure.kernel.goals import choose_policy
    from dure.sim.goals_file import read_goals

    goals = read_goals(file)
    if gpu is None or policy_live.is_device(gpu):
        applied = policy_live.apply_to_agent(goals, gpu=gpu, dry_run=dry_run)
        if applied is not None:
            policy_live.print_applied(applied, as_json=as_json)
            return
    choice = choose_policy(goals)
    if gpu is not None:
        _check_memory(choice.tenants, gpu, file)
    if as_json:
        typer.echo(json.dumps(_choice_fields(choice), indent=2, ensure_ascii=False))
    else:
        _print_choice(choice, file)


@app.command("list")
def list_policies(as_json: AsJson = False) -> None:
    """Show every policy with its parameters, their defaults and what they mean."""
    policies = describe_policies()
    if as_json:
        typer.echo(json.dumps({"policies": policies}, indent=2, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    for policy in policies:
        console.print(Text.assemble((policy["name"], "bold"), "  ", policy["purpose"]))
        table = Table("parameter", "default", "meaning")
        for parameter in policy["parameters"]:
            table.add_row(parameter["name"], f"{parameter['default']:g}", parameter["meaning"])
        console.print(table)


def describe_policies() -> list[dict[str, Any]]:
    """Name, purpose and parameters of every registered policy, from its own source."""
    import inspect

    from dure.kernel.policies.registry import POLICIES
    from dure.kit.docstrings import attribute_docs

    found = []
    for name, kind in POLICIES.items():
        docs = attribute_docs(kind)
        module = inspect.getmodule(kind)
        purpose = (inspect.getdoc(module) or "").partition("\n\n")[0]
        found.append(
            {
                "name": name,
                "purpose": " ".join(purpose.split()),
                "parameters": [
                    {
                        "name": parameter.name,
                        "default": parameter.default,
                        "meaning": docs.get(parameter.name, ""),
                    }
                    for parameter in fields(kind)
                    if parameter.default is not MISSING
                ],
            }
        )
    return found


def _check_memory(tenants: "tuple[Tenant, ...]", gpu: str, file: Path) -> None:
    """Refuse claims of memory that the accelerator cannot keep."""
    from dure.domain.catalogue import accelerator
    from dure.domain.errors import InputError
    from dure.kernel.resources import Allotments

    try:
        allotments = Allotments(accelerator(gpu))
    except InputError as error:
        raise error.located(field="--gpu") from error
    for tenant in tenants:
        try:
            allotments.give(tenant)
        except InputError as error:
            raise error.located(file=str(file), field=f"tenants.{tenant.id}.memory") from error


def _all_parameters(choice: "PolicyChoice") -> dict[str, float]:
    """Every parameter of the chosen policy, defaults included."""
    from dataclasses import asdict

    from dure.kernel.policies.registry import make_policy

    policy: Any = make_policy(choice.policy, choice.parameters)
    return dict(sorted(asdict(policy).items()))


def _choice_fields(choice: "PolicyChoice") -> dict[str, Any]:
    return {
        "policy": choice.policy,
        "parameters": _all_parameters(choice),
        "chosen": dict(choice.parameters),
        "tenants": [_tenant_fields(tenant) for tenant in choice.tenants],
        "reasons": list(choice.reasons),
    }


def _tenant_fields(tenant: "Tenant") -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "name": tenant.id,
        "weight": tenant.weight,
        "class": tenant.tenant_class.value,
        "goal": tenant.goal.value,
        "slo": {name: part for name, part in asdict(tenant.slo).items() if part is not None},
        "floor_share": tenant.floor_share,
        "expected_ns": tenant.expected_ns,
        "deadline_ns": tenant.deadline_ns,
        "memory": asdict(tenant.memory),
    }


def _print_choice(choice: "PolicyChoice", file: Path) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    console.print(Text.assemble("policy ", (choice.policy, "bold")))
    stated = dict(choice.parameters)
    for name, value in _all_parameters(choice).items():
        console.print(f"  {name} = {value:g}{'' if name in stated else '  (default)'}")
    if choice.tenants:
        table = Table("tenant", "class", "goal", "weight", "floor", "promises", "deadline")
        for tenant in choice.tenants:
            table.add_row(*_tenant_cells(tenant))
        console.print(table)
    console.print("why")
    for reason in choice.reasons:
        console.print(Text(f"  - {reason}"), soft_wrap=True)
    console.print(
        Text(f"Try it on a load: dure sim kernel SCENARIO.yaml --goals {file}"), soft_wrap=True
    )


def _tenant_cells(tenant: "Tenant") -> tuple[str, ...]:
    from dure.kernel.goal_words import promises_words, share_words, span_words

    deadline = tenant.deadline_ns
    return (
        tenant.id,
        tenant.tenant_class.value,
        tenant.goal.value,
        f"{tenant.weight:g}",
        share_words(tenant.floor_share) if tenant.floor_share else "",
        promises_words(tenant.slo),
        span_words(deadline) if deadline is not None else "",
    )
