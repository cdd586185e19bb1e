"""Shards one after another: one that breaks off does not take the others with it."""

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dure.bench.kernel import run as running
from dure.bench.kernel.merge import merged
from dure.bench.kernel.run import run_shards
from dure.bench.kernel.shard import Settings
from dure.bench.kernel.specials import SPECIALS
from dure.bench.kernel.store import Store
from dure.domain.errors import DureError

GOOD = {"waits_ms": [10.0] * 100, "errors": [], "forgotten": []}


@pytest.mark.parametrize(
    "error",
    [DureError("no"), OSError("no"), subprocess.CalledProcessError(1, ["no"])],
    ids=lambda error: type(error).__name__,
)
def test_a_shard_that_breaks_off_keeps_its_parts_and_lets_the_next_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def breaks_off(store: Store, *_: object) -> dict[str, Any]:
        store.note("parts", {"isolated": {"killed": 3, "errors": [], "done": {}}})
        raise error

    def runs(store: Store, *_: object) -> dict[str, Any]:
        store.note("parts", GOOD)
        return GOOD

    monkeypatch.setitem(SPECIALS, "kills", replace(SPECIALS["kills"], run=breaks_off))
    monkeypatch.setitem(SPECIALS, "switch", replace(SPECIALS["switch"], run=runs))
    monkeypatch.setattr(running, "gpu_machine", lambda: {"gpu": "toy"})
    said: list[str] = []
    names = ("kills", "switch")
    assert not run_shards(names, Settings(), tmp_path, emulated=False, tell=said.append)
    assert any("kills broke off" in words for words in said)
    report = merged(tmp_path)
    claims = {verdict.claim: verdict.passed for verdict in report.verdicts}
    assert claims["3 SIGKILLs in mid-kernel, isolated: no survivor harmed"] is False
    assert claims["no tenant error while policies switch"] is True
    absent = next(each for each in report.verdicts if "not measured" in each.claim)
    assert "overhead" in absent.found
    assert "kills" not in absent.found
