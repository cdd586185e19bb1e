"""`dure server` and what its operator does to it, without starting it."""

import json
import sqlite3
from pathlib import Path

from typer.testing import CliRunner

from dure.cli.main import app

_RUNNER = CliRunner()


def _server(folder: Path, *args: str) -> str:
    done = _RUNNER.invoke(app, ["server", "--data", str(folder), *args])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output.strip()


def test_the_first_token_is_told_once_and_left_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    secret = _server(folder, "init")
    file = folder / "admin-token"
    assert file.read_text(encoding="utf-8").strip() == secret
    assert file.stat().st_mode & 0o077 == 0
    assert folder.stat().st_mode & 0o077 == 0
    again = _RUNNER.invoke(app, ["server", "--data", str(folder), "init"])
    assert again.exit_code != 0
    assert "has tokens already" in str(again.exception)
    with sqlite3.connect(folder / "state.db") as database:
        stored = database.execute("SELECT secret_hash, role FROM tokens").fetchall()
        audit = database.execute("SELECT action FROM audit").fetchall()
    assert [role for _, role in stored] == ["admin"]
    assert secret not in str(stored)
    assert audit == [("token.create",)]


def test_a_backup_is_restored_into_a_new_folder(tmp_path: Path) -> None:
    _server(tmp_path / "a", "init")
    made = json.loads(
        _server(tmp_path / "a", "token", "create", "--role", "viewer", "--name", "v", "--json")
    )
    assert made["secret"].startswith("dure_")
    file = tmp_path / "backup.gz"
    _server(tmp_path / "a", "backup", str(file))
    _server(tmp_path / "b", "restore", str(file))
    with sqlite3.connect(tmp_path / "b" / "state.db") as database:
        ids = {row[0] for row in database.execute("SELECT id FROM tokens")}
    assert made["id"] in ids
    assert _server(tmp_path / "b", "migrate").startswith("schema 0")


def test_a_token_that_is_bound_to_nothing_is_refused(tmp_path: Path) -> None:
    _server(tmp_path, "migrate")
    for args, says in (
        (["--role", "member"], "must name its cluster"),
        (["--role", "king"], "'king' is no role"),
    ):
        done = _RUNNER.invoke(app, ["server", "--data", str(tmp_path), "token", "create", *args])
        assert done.exit_code != 0
        assert says in str(done.exception)


def test_a_server_that_others_could_listen_in_on_does_not_start(tmp_path: Path) -> None:
    done = _RUNNER.invoke(app, ["server", "--data", str(tmp_path), "--listen", "0.0.0.0:0"])
    assert done.exit_code != 0
    assert "there is no TLS" in str(done.exception)
