from pathlib import Path

import pytest

from dure.client.places import Places, candidate_places, own_places, run_dir_of


def test_the_folder_is_the_stated_one_else_goes_by_rank() -> None:
    assert run_dir_of({"DURE_RUN_DIR": "/x"}, 0) == Path("/x")
    assert run_dir_of({}, 0) == Path("/run/dure")
    assert run_dir_of({"XDG_RUNTIME_DIR": "/run/user/5"}, 5) == Path("/run/user/5/dure")
    assert run_dir_of({}, 5) == Path("/tmp/dure-5")


def test_a_user_without_an_agent_of_his_own_finds_roots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DURE_RUN_DIR", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/5")
    monkeypatch.setattr("os.getuid", lambda: 5)
    found = [places.run_dir for places in candidate_places()]
    assert found == [Path("/run/user/5/dure"), Path("/run/dure")]
    monkeypatch.setenv("DURE_RUN_DIR", "/x")
    assert candidate_places() == [Places(Path("/x"))]
    assert own_places(Path("/y")).api_socket == Path("/y/api.sock")
