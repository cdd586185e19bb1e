import stat
from pathlib import Path

import httpx
import pytest

from dure.client.fleet import calls
from dure.client.fleet.config import Context, config_file, load_context, save_context
from dure.client.fleet.errors import RefusedError, UnreachableError, refusal
from dure.client.fleet.patience import Patience, Tries
from dure.client.fleet.sse import EventLines, ServerEvent
from dure.domain.errors import InputError


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def test_a_stored_context_is_read_back_and_only_its_owner_may(environment: dict[str, str]) -> None:
    context = Context(("https://a:1", "https://b:2"), "secret", "/etc/ca.pem")
    file = save_context("prod", context, environment)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert load_context("", environment) == context
    save_context("dev", Context(("http://c:3",)), environment)
    assert load_context("", environment).servers == ("http://c:3",)
    assert load_context("prod", environment) == context
    assert load_context("", environment | {"DURE_CONTEXT": "prod"}) == context


def test_variables_go_before_the_file(environment: dict[str, str]) -> None:
    save_context("prod", Context(("https://a:1",), "stored"), environment)
    given = environment | {"DURE_SERVER": "http://x:1/, http://y:2", "DURE_TOKEN": "t"}
    assert load_context("", given) == Context(("http://x:1", "http://y:2"), "t")


def test_without_anything_a_server_on_this_machine_is_meant(environment: dict[str, str]) -> None:
    assert load_context("", environment) == Context(("http://127.0.0.1:7600",))


def test_what_cannot_be_used_is_refused_in_a_sentence(environment: dict[str, str]) -> None:
    with pytest.raises(InputError, match="run `dure login`"):
        load_context("prod", environment)
    with pytest.raises(InputError, match="is no server"):
        load_context("", environment | {"DURE_SERVER": "localhost:1"})
    file = config_file(environment)
    file.parent.mkdir(parents=True)
    file.write_text("contexts:\n  a:\n    server: x\n")
    with pytest.raises(InputError, match="servers"):
        load_context("", environment)


@pytest.mark.parametrize("token", ["dure_a\nb", "dure_é", "dure_a b", "dure_\x00"])
def test_a_token_that_cannot_be_sent_is_refused_and_not_repeated(
    environment: dict[str, str], token: str
) -> None:
    for server in ({}, {"DURE_SERVER": "http://a"}):
        with pytest.raises(InputError, match="DURE_TOKEN: is no token") as refused:
            load_context("", environment | server | {"DURE_TOKEN": token})
        assert "dure_" not in str(refused.value)
    around = load_context("", environment | {"DURE_TOKEN": " dure_a\r\n"})
    assert around.token == "dure_a"


def test_no_name_leads_to_another_part_of_the_interface() -> None:
    for call in (
        calls.get_tenant("../clusters/seoul"),
        calls.get_tenant("acme/../.."),
        calls.get_job(".."),
        calls.get_job("../clusters/seoul"),
        calls.get_cluster("seoul/../busan"),
    ):
        path = httpx.URL(f"http://centre{call.path}").raw_path.decode()
        assert path.startswith(("/v1/tenants/", "/v1/jobs/", "/v1/clusters/seoul%2F"))
        assert path == call.path


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def tries(*, repeatable: bool, clock: Clock | None = None) -> Tries:
    servers = ["http://a", "http://b"]
    return Tries(
        servers, 0, Patience(within_s=5.0), repeatable=repeatable, monotonic_s=clock or Clock()
    )


def test_what_was_not_sent_is_tried_at_the_next_server_and_what_was_only_if_it_may() -> None:
    for repeatable in (True, False):
        each = tries(repeatable=repeatable)
        each.failed(httpx.ConnectError("refused"))
        assert each.url == "http://b"
    with pytest.raises(UnreachableError):
        tries(repeatable=False).failed(httpx.ReadTimeout("no answer"))
    tries(repeatable=True).failed(httpx.ReadTimeout("no answer"))


def test_a_server_that_is_away_is_left_and_a_busy_one_is_waited_for() -> None:
    each = tries(repeatable=True)
    each.answered(503, httpx.Headers(), b"")
    assert each.url == "http://b"
    assert each.answered(429, httpx.Headers({"Retry-After": "3"}), b"") >= 3.0
    assert each.url == "http://b"
    with pytest.raises(RefusedError):
        tries(repeatable=False).answered(503, httpx.Headers(), b"")
    with pytest.raises(RefusedError):
        each.answered(422, httpx.Headers(), b"")


def test_patience_ends() -> None:
    clock = Clock()
    each = tries(repeatable=True, clock=clock)
    clock.now_s = 6.0
    with pytest.raises(UnreachableError):
        each.failed(httpx.ConnectError("refused"))


def test_an_answer_that_is_not_of_dure_is_told_as_it_is() -> None:
    error = refusal(502, b"<html>Bad   gateway</html>")
    assert "502 '<html>Bad gateway</html>'" in str(error)


def test_server_sent_events_are_put_together_from_lines() -> None:
    lines = EventLines()
    text = ": alive\n\nid: 7\nevent: job\ndata: {}\n\ndata: a\ndata: b\n\n"
    found = [said for line in text.split("\n") if (said := lines.feed(line))]
    assert found == [ServerEvent("job", "{}", "7"), ServerEvent("message", "a\nb", "7")]
