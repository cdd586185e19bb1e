import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from dure import __version__
from dure.cli import main as cli
from dure.domain.errors import DureError, InputError
from dure.kit.files import FileProblem


@pytest.fixture
def dure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Run the command line in this process; gives the exit code, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["dure", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        code = ended.value.code
        output = capsys.readouterr()
        return (code if isinstance(code, int) else int(code is not None)), output.out, output.err

    return run


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Give the command line one command, `fail`, that raises what it is told to."""

    def install(error: BaseException) -> None:
        app = typer.Typer(pretty_exceptions_enable=False)
        app.callback()(cli._global_options)

        @app.command()
        def fail() -> None:
            raise error

        monkeypatch.setattr(cli, "app", app)

    return install


Run = Callable[..., tuple[int, str, str]]
Install = Callable[[BaseException], None]


def test_version_is_printed(dure: Run) -> None:
    assert dure("--version") == (0, f"dure {__version__}\n", "")


def test_help_names_the_global_options(dure: Run) -> None:
    code, out, _ = dure("--help")
    assert code == 0
    assert "--debug" in out
    assert "--version" in out


@pytest.mark.parametrize("arguments", [("no-such-command",), ("--no-such-option",)])
def test_a_usage_error_exits_2_with_the_normal_message(
    dure: Run, arguments: tuple[str, ...]
) -> None:
    code, out, err = dure(*arguments)
    assert code == 2
    assert out == ""
    assert arguments[0] in err
    assert "Usage" in err


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (
            InputError("must be positive", "write a number above 0", file="a.yaml", field="weight"),
            2,
            "a.yaml: weight: must be positive; write a number above 0\n",
        ),
        (
            FileProblem(Path("a.yaml"), "this is not valid YAML", "correct it", 3),
            2,
            "a.yaml, line 3: this is not valid YAML; correct it\n",
        ),
        (
            DureError("the agent is not running", "start it with `dure agent`"),
            1,
            "the agent is not running; start it with `dure agent`\n",
        ),
        (DureError("two\nlines [red]"), 1, "two lines [red]\n"),
        (DureError("long " * 60 + "end"), 1, "long " * 60 + "end\n"),
    ],
)
def test_an_error_made_on_purpose_is_one_plain_line(
    dure: Run, failing: Install, error: Exception, code: int, sentence: str
) -> None:
    failing(error)
    assert dure("fail") == (code, "", sentence)


@pytest.mark.parametrize("arguments", [("--debug", "fail"), ("fail", "--debug")])
def test_debug_shows_the_trace_wherever_it_stands(
    dure: Run, failing: Install, arguments: tuple[str, ...]
) -> None:
    failing(DureError("the agent is not running"))
    code, _, err = dure(*arguments)
    assert code == 1
    assert "Traceback" in err
    assert err.endswith("the agent is not running\n")


def test_debug_after_a_double_dash_belongs_to_the_program_run() -> None:
    line = ["run", "--", "python", "--debug"]
    assert cli._debug_first(line) == line


def test_a_bug_asks_for_a_report_and_exits_70(dure: Run, failing: Install) -> None:
    failing(ZeroDivisionError("division by zero"))
    code, out, err = dure("fail")
    assert (code, out) == (70, "")
    assert err.count("\n") == 1
    assert "ZeroDivisionError: division by zero" in err
    assert "--debug" in err


def test_a_bug_under_debug_shows_the_trace(dure: Run, failing: Install) -> None:
    failing(ZeroDivisionError())
    code, _, err = dure("fail", "--debug")
    assert code == 70
    assert "Traceback" in err


def test_ctrl_c_exits_130_without_a_word(dure: Run, failing: Install) -> None:
    failing(KeyboardInterrupt())
    assert dure("fail") == (130, "", "")


def test_a_sentence_is_red_on_a_terminal_only(
    dure: Run, failing: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(DureError("no GPU"))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    assert dure("fail")[2] == "\x1b[31mno GPU\x1b[0m\n"


WRITER = """
    import sys
    from dure.cli import main as cli

    @cli.app.command()
    def write() -> None:
        sys.stdout.write("line\\n" * {lines})

    sys.argv = ["dure", "write"]
    cli.main()
"""


@pytest.mark.parametrize("lines", [1, 100_000])
def test_a_reader_that_goes_away_is_no_error(lines: int) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(WRITER.format(lines=lines))],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN),
        )
    finally:
        os.close(writing)
    assert ended.stderr == ""
    assert ended.returncode == 1
