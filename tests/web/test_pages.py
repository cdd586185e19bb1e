"""The dashboard's files: complete, from here alone, with nothing that a strict browser refuses."""

import re
from collections.abc import Iterator

import httpx
import pytest
from starlette.applications import Starlette

from dure.web.pages import Levels, SignIn, assets, page_routes
from tests.web.served import served

SCRIPTS = {path: asset.content.decode() for path, asset in assets().items() if path.endswith(".js")}
STYLES = {path: asset.content.decode() for path, asset in assets().items() if path.endswith(".css")}
INDEX = assets()["index.html"].content.decode()


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    levels = Levels(agent="/agent", fleet=None, sign_in=SignIn.KEY, changes=False, remedy="ask")
    with served(lambda _: Starlette(routes=page_routes(lambda: levels))) as made:
        yield made


def test_the_address_alone_leads_to_the_pages(client: httpx.Client) -> None:
    for path in ("/", "/ui"):
        assert client.get(path).headers["location"] == "/ui/"
    assert "<main" in client.get("/ui/").text


def test_pages_say_which_levels_can_be_asked_here(client: httpx.Client) -> None:
    told = client.get("/ui/levels.json").json()
    assert told.pop("version")
    assert told == {
        "agent": "/agent",
        "fleet": None,
        "signIn": "key",
        "changes": False,
        "remedy": "ask",
    }


@pytest.mark.parametrize("path", ["", "js/main.js", "levels.json", "nothing-like-that"])
def test_every_answer_forbids_what_no_page_of_ours_does(client: httpx.Client, path: str) -> None:
    headers = client.get(f"/ui/{path}").headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_a_file_that_has_not_changed_is_not_sent_again(client: httpx.Client) -> None:
    first = client.get("/ui/js/dom.js")
    assert first.headers["content-type"].startswith("text/javascript")
    again = client.get("/ui/js/dom.js", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("path", ["../pages.py", "js", "css/", "%2e%2e/pages.py", "js/main.js/"])
def test_nothing_but_the_files_is_sent(client: httpx.Client, path: str) -> None:
    assert client.get(f"/ui/{path}").status_code == 404


def test_everything_that_is_named_is_there() -> None:
    for name in re.findall(r'(?:href|src)="([^"#]+)"', INDEX):
        assert name in assets()
    for path, text in SCRIPTS.items():
        for name in re.findall(r'from "([^"]+)"', text):
            parts = path.split("/")[:-1]
            for step in name.split("/"):
                if step == "..":
                    parts.pop()
                elif step != ".":
                    parts.append(step)
            assert "/".join(parts) in assets(), f"{path} imports {name}"


def test_nothing_comes_from_elsewhere() -> None:
    for path, text in {**SCRIPTS, **STYLES, "index.html": INDEX}.items():
        named = [each for each in re.findall(r"https?://[^\s\"')]+", text) if "w3.org" not in each]
        assert named == [], path


def test_no_text_of_others_becomes_markup_or_code() -> None:
    for path, text in SCRIPTS.items():
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert word not in text, f"{path} uses {word}"
    assert not re.search(r"<script(?![^>]*src=)", INDEX)
    assert "style=" not in INDEX
    assert not re.search(r"\son\w+=", INDEX)


def test_no_file_is_so_large_that_nobody_reads_it() -> None:
    lines = {path: text.count("\n") for path, text in SCRIPTS.items()}
    assert max(lines.values()) <= 400, lines
