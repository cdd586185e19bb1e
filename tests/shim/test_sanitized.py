"""The whole shim under the address and undefined-behaviour sanitizers."""

import pytest

from dure.domain.ids import TenantId
from tests.shim.agents import StubAgent, Words, member
from tests.shim.kit import Kit, build_kit

STEPS = (
    *(
        "launch:20",
        "ex:20",
        "coop:20",
        "sync",
        "stream",
        "capture",
        "graph:4",
        "event",
        "poll",
        "callback",
    ),
    *("alloc:10", "alloc:20", "info", "free", "create:5", "copyin:100000", "copyout", "ctxsync"),
    *(
        "threads:4:20:100",
        "fork",
        "burn:100:20",
        "train:3000:1",
        "event",
        "capture",
        "train:2000:1",
        "report:1000",
        "progress:1",
        "leftovers",
    ),
)


@pytest.fixture(scope="session")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Kit:
    return build_kit(tmp_path_factory.mktemp("sanitized"), "address")


@pytest.mark.slow
@pytest.mark.parametrize("via", ["dlsym", "proc", "proc_ptsz"])
def test_no_step_touches_what_it_should_not(sanitized: Kit, agent: StubAgent, via: str) -> None:
    agent.segments.set_sample_every(4)
    agent.set_words("t", Words(memory_limit_bytes=1 << 30))
    agent.publish(member("t", inflight_ns=500_000, yields_to=(TenantId("other"),)), member("other"))
    done = sanitized.drive(f"via={via}", *STEPS, socket=agent.path)
    assert done.code == 0, done.errors
    assert "ERROR" not in done.errors
    assert "runtime error" not in done.errors
    assert agent.read(0).counters.launches > 1000


@pytest.mark.slow
def test_nor_one_that_passes_lightly(sanitized: Kit, agent: StubAgent) -> None:
    agent.segments.set_sample_every(16)
    done = sanitized.drive(*STEPS, "threads:4:2:2000", *STEPS, socket=agent.path)
    assert done.code == 0, done.errors
    assert "ERROR" not in done.errors
    assert "runtime error" not in done.errors
    assert agent.read(0).counters.launches > 10_000


@pytest.mark.slow
def test_nor_without_an_agent(sanitized: Kit) -> None:
    done = sanitized.drive(*STEPS)
    assert done.code == 0, done.errors
    assert "ERROR" not in done.errors
    assert sanitized.run(["linked"]).code == 0
