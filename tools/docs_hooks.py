"""Hooks of the documentation's builder: pages of results and decisions, and links out of docs/.

Results and decisions are many and come by themselves: all of them are in the navigation, by their
titles. In the repository a link may lead to an example or a manifest; a page in out/site has none
beside it, so that there the name of the file stands. A link to a file that is not there stays, and
the strict build refuses it.
"""

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(((?:\.\./)+[^)#\s]+)(#[^)]*)?\)")


def on_config(config: Any) -> Any:
    """Before anything is built."""
    config.nav += [{"Results": _pages("results")}, {"Decisions": _pages("adr")}]
    return config


def _pages(folder: str) -> list[dict[str, str]]:
    """All pages of a folder, its overview first."""
    files = sorted((DOCS / folder).glob("*.md"), key=lambda file: (file.stem != "README", file))
    return [{_title(file): f"{folder}/{file.name}"} for file in files]


def _title(file: Path) -> str:
    first = file.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ").strip()
    return "All" if file.stem == "README" else first


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:  # noqa: ARG001 - the builder's names
    """A page before it is made into HTML."""
    folder = (DOCS / page.file.src_uri).parent

    def named(link: re.Match[str]) -> str:
        target = (folder / link[2]).resolve()
        if target.is_relative_to(DOCS) or not target.exists():
            return link[0]
        return f"{link[1]} (`{target.relative_to(ROOT)}`)"

    return _LINK.sub(named, markdown)
