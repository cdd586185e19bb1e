"""The `dure` command: its global options, its groups of commands, and how it ends.

A group is a typer app in a file of its own, registered below with `app.add_typer`. Commands raise;
only this file turns what they raise into a sentence and an exit code. Groups import what is slow
to load inside the command that needs it, so that `dure --help` answers at once.
"""

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from dure import __version__
from dure.cli import (
    access,
    agent,
    bench,
    bill,
    clusters,
    dashboard,
    demo,
    docker_args,
    doctor,
    feedback,
    fleet,
    front,
    jobs,
    kueue,
    load,
    member,
    metrics,
    migrate,
    money,
    node,
    policy,
    pools,
    record,
    risk,
    run,
    server,
    shadow,
    sim,
    submit,
    tenants,
    top,
    vcluster,
    why,
)
from dure.cli.child import NotStarted
from dure.domain.errors import DureError, InputError
from dure.kit.files import FileProblem

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_BUG = 70  # EX_SOFTWARE of sysexits.h

DEBUG_FLAG = "--debug"

app = typer.Typer(
    name="dure",
    help="Share accelerators between tenants: kernels, containers, jobs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("agent")(agent.agent)
# A program's own options are its own: nothing after its name is read here.
app.command("run", context_settings={"allow_interspersed_args": False})(run.run)
app.command("top")(top.top)
app.command("dashboard")(dashboard.dashboard)
app.command("demo")(demo.demo)
app.command("why")(why.why)
app.command("tenants")(tenants.tenants)
app.command("set")(tenants.change)
app.command("forget")(tenants.forget)
app.command("end")(tenants.end)
app.command("metrics")(metrics.metrics)
app.command("feedback")(feedback.feedback)
app.command("record")(record.record)
app.command("risk")(risk.risk)
app.command("doctor")(doctor.doctor)
app.command("docker-args")(docker_args.docker_args)
app.command("login")(access.login)
app.command("whoami")(access.whoami)
app.command("submit")(submit.submit)
app.command("jobs")(jobs.jobs)
app.command("wait")(jobs.wait)
app.command("logs")(jobs.logs)
app.command("explain")(jobs.explain)
app.command("cancel")(jobs.cancel)
app.command("front")(front.front)
app.command("migrate")(migrate.migrate)
app.command("pin")(migrate.pin)
app.command("unpin")(migrate.unpin)
app.command("load")(load.load)
app.command("edit")(jobs.edit)
app.command("events")(access.events)
app.command("audit")(access.audit)
app.add_typer(bench.app, name="bench")
app.add_typer(bill.app, name="bill")
app.add_typer(money.budget_app, name="budget")
app.add_typer(clusters.app, name="clusters")
app.add_typer(money.feed_app, name="feed")
app.add_typer(fleet.app, name="fleet")
app.add_typer(node.app, name="node")
app.add_typer(policy.app, name="policy")
app.add_typer(pools.app, name="pool")
app.command("member")(member.member)
app.command("kueue")(kueue.kueue)
app.add_typer(shadow.app, name="shadow")
app.add_typer(server.app, name="server")
app.add_typer(sim.app, name="sim")
app.add_typer(access.token_app, name="token")
app.add_typer(vcluster.app, name="vcluster")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dure {__version__}")
        raise typer.Exit


@app.callback()
def _global_options(
    debug: Annotated[
        bool, typer.Option(DEBUG_FLAG, help="Show the whole trace of an error.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Share accelerators between tenants: kernels, containers, jobs."""


def main() -> None:
    """Run the command line of this process and exit."""
    arguments = _debug_first(sys.argv[1:])
    try:
        try:
            app(arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        sys.exit(EXIT_FAILED)
    except Exception as error:  # noqa: BLE001, the last place that can say something useful
        sys.exit(_report(error, debug=DEBUG_FLAG in arguments[:1]))


def _debug_first(arguments: Sequence[str]) -> list[str]:
    """Let `--debug` stand anywhere before `--`, since people add it to the end of a failed line."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    ours, rest = arguments[:end], arguments[end:]
    kept = [argument for argument in ours if argument != DEBUG_FLAG]
    return [*([DEBUG_FLAG] if len(kept) < len(ours) else []), *kept, *rest]


def _report(error: Exception, *, debug: bool) -> int:
    """Say on stderr what happened, in one sentence, and give the exit code that belongs to it."""
    if debug:
        traceback.print_exception(error)
    match error:
        case NotStarted():
            sentence, code = str(error), error.exit_code
        case InputError() | FileProblem():
            sentence, code = str(error), EXIT_BAD_INPUT
        case DureError():
            sentence, code = str(error), EXIT_FAILED
        case _:
            story = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            advice = (
                "please report the trace above"
                if debug
                else (f"please run the command again with {DEBUG_FLAG} and report what it prints")
            )
            sentence, code = f"Dure failed in a way it should not ({story}); {advice}.", EXIT_BUG
    one_line = Text(" ".join(sentence.split()), style="red")
    Console(stderr=True).print(one_line, soft_wrap=True)
    return code


def _drop_output() -> None:
    """The reader of our output has gone: what is still buffered goes nowhere, without complaint."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
