import subprocess
import sys
from pathlib import Path

import pytest

import dure.client
from dure.client.api import AgentClient, AgentUnreachableError, find_agent
from dure.client.places import Places


def test_a_report_without_shim_or_agent_goes_nowhere_and_harms_nobody(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("DURE_SOCKET", raising=False)
    monkeypatch.delenv("DURE_TENANT", raising=False)
    assert not dure.client.report(latency_s=0.1)
    monkeypatch.setenv("DURE_SOCKET", str(tmp_path / "shim.sock"))
    monkeypatch.setenv("DURE_TENANT", "web")
    assert not dure.client.report(latency_s=0.1)
    assert not dure.client.report_progress(1.0, 2.0)
    for nonsense in (-1.0, float("nan")):
        assert not dure.client.report(latency_s=nonsense)
    assert not dure.client.report_progress(1.0, 0.0)


def test_a_report_goes_to_the_shim_that_is_loaded(tmp_path: Path) -> None:
    source = tmp_path / "shim.c"
    source.write_text(
        "#include <stdio.h>\n#include <stdint.h>\n"
        'void dure_report_latency_ns(uint64_t ns) { printf("%llu\\n", (unsigned long long)ns); '
        "fflush(stdout); }\n"
        'void dure_report_progress(double d, double t) { printf("%g of %g\\n", d, t); '
        "fflush(stdout); }\n"
    )
    shim = tmp_path / "shim.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", shim, source], check=True)
    code = (
        "import dure.client; assert dure.client.report(latency_s=0.02); "
        "assert dure.client.report_progress(3, 4)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"LD_PRELOAD": str(shim)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["20000000", "3 of 4"]


def test_an_absent_agent_is_one_sentence_with_a_remedy(tmp_path: Path) -> None:
    with (
        AgentClient(Places(tmp_path)) as client,
        pytest.raises(AgentUnreachableError, match=r"no agent answers at .*; start one with"),
    ):
        client.status()
    with pytest.raises(AgentUnreachableError):
        find_agent(tmp_path)
