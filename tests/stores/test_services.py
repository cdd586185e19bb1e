import pytest

from tests.stores.services import REQUIRE_VARIABLE, find_program


def test_a_missing_program_is_named_where_tests_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(REQUIRE_VARIABLE, raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"no-such-server is missing; tools/"):
        find_program("no-such-server")


def test_a_missing_program_fails_tests_that_must_not_be_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(REQUIRE_VARIABLE, "1")
    with pytest.raises(pytest.fail.Exception, match="no-such-server is missing"):
        find_program("no-such-server")
