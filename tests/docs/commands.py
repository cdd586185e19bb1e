"""Every `dure …` that is written in the documentation, and whether the command line takes it."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.main import get_command

from dure.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
COMMAND: Any = get_command(app)
_FENCE = re.compile(r"^ *(`{3,})(\w*)[^\n]*\n(.*?)^ *\1 *$", flags=re.DOTALL | re.MULTILINE)
_DRAWN = re.compile(r"[▶◀┌┐└┘▼▲]")
"""A line of a picture that is made of letters holds no commands."""
_SHELL = {"", "bash", "console", "sh", "shell"}
_START = re.compile(
    r"^(?:\$ )?(?:export \S+ && )?(?:[A-Z_]+=\S* )*(?:sudo (?:-\S+ )*)?(?:\S*/)?dure (?=[a-z-])"
)
_INNER = re.compile(r"\$\((?:\S*/)?dure ([^()]*)\)")
_INLINE = re.compile(r"(?<!`)`(?:sudo )?dure ([a-z][^`\n]*)`(?!`)")
_OPEN = "…"
"""Something was left out: what stands before it is checked alone."""


@dataclass(frozen=True)
class Written:
    """A command, and where it stands."""

    page: str
    words: tuple[str, ...]
    whole: bool = True
    """Whether it is meant to be typed as it stands; else it only names a command."""

    def __str__(self) -> str:
        return f"{self.page}: dure {' '.join(self.words)}"


def pages() -> list[Path]:
    """Everything people read."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").rglob("*.md")]
    return sorted(found)


def written() -> Iterator[Written]:
    """All commands of all pages."""
    for path in pages():
        page, text = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
        for _, language, block in _FENCE.findall(text):
            if language in _SHELL:
                yield from _of_block(page, block)
        for line in _INLINE.findall(_FENCE.sub("", text)):
            yield Written(page, _words(line), whole=False)


def _of_block(page: str, block: str) -> Iterator[Written]:
    lines = re.sub(r"\\\n *", "", block).splitlines()
    for line in (each for each in lines if not _DRAWN.search(each)):
        for inner in _INNER.findall(line):
            yield Written(page, _words(inner))
        for part in re.split(r" && | ; |; |\| (?=dure)", line.strip()):
            start = _START.match(part.strip())
            if start is not None:
                yield Written(page, _words(part.strip()[start.end() :]))


def _words(line: str) -> tuple[str, ...]:
    """The words of a command, without what explains it, redirects it or follows it."""
    line = re.split(r"  +(?=[^ ])|\s#|\s[|&<>]|\s2>|\s&$", f"{line} ")[0].partition(_OPEN)[0]
    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        return tuple(lexer)
    except ValueError:
        return tuple(line.split())


def complaint(command: Written) -> str:
    """Why the command line would not take it; empty: it would."""
    here, words = COMMAND, list(command.words)
    context = here.context_class(here, info_name="dure")
    while hasattr(here, "commands"):
        while words and words[0] in {"--debug", "--version", "--help"}:
            words.pop(0)
        if not words or (not command.whole and words[0].isupper()):
            return ""
        options = {name for each in here.params for name in each.opts}
        if words[0] in options or (words[0] not in here.commands and here.invoke_without_command):
            break
        if words[0] not in here.commands:
            return f"there is no command '{words[0]}'"
        here = here.commands[words.pop(0)]
        context = here.context_class(here, parent=context, info_name="")
        context.allow_interspersed_args = here.allow_interspersed_args
    if not command.whole and words[:1] == ["--"]:
        return ""
    if not command.whole and words and words[-1].startswith("--"):
        # In a sentence an option may be named without its value.
        flags = {
            name for each in here.params if getattr(each, "is_flag", False) for name in each.opts
        }
        words += [] if words[-1] in flags else ["VALUE"]
    try:
        parsed = here.make_parser(context).parse_args([each for each in words if each != "--help"])
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        return str(error.format_message())
    rest = parsed[1]
    return f"nothing takes '{rest[0]}'" if rest and not here.allow_extra_args else ""
