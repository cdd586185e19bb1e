"""Docker's errors, translated once: nobody answers, it is not possible, it is gone."""

from collections.abc import Iterator
from contextlib import contextmanager

import docker.errors
import requests.exceptions

from dure.domain.errors import DureError


class RuntimeUnreachableError(DureError):
    """The runtime does not answer; it may later."""


class DaemonGoneError(RuntimeUnreachableError):
    """Nobody listens: what was asked before will not be done later either."""


class ContainerGoneError(DureError):
    """It does not run any more."""


class AlreadyPausedError(DureError):
    """Somebody else paused it."""


class NotPausedError(DureError):
    """It is not paused."""


class FlagLostError(DureError):
    """The runtime takes it for paused though it runs."""


class PauseUnsupportedError(DureError):
    """Its runtime cannot pause it, now or later."""


_NO_SUCH = 404
_CONFLICT = 409
_NOT_IMPLEMENTED = 501
_UNABLE = (
    "not implemented",
    "not supported",
    "unsupported",
    "freezer cgroup",
    "cgroup.freeze",
    "no such command",
    "unknown command",
)
"""Words of runtimes that cannot pause, in lower case."""

_MEANINGS: tuple[tuple[tuple[str, ...], type[DureError], str], ...] = (
    (("container not paused",), FlagLostError, "Docker takes it for paused though it runs"),
    (("is not paused",), NotPausedError, "it is not paused"),
    (("already paused", "is paused"), AlreadyPausedError, "somebody else paused it"),
    (("not running", "no such process"), ContainerGoneError, "it does not run"),
)
"""What Docker's words mean, first match first."""


@contextmanager
def translated(url: str) -> Iterator[None]:
    """Raise our errors in place of the SDK's."""
    try:
        yield
    except docker.errors.APIError as error:
        raise _answered(error) from error
    except (docker.errors.DockerException, requests.exceptions.RequestException, OSError) as error:
        raise _unreachable(url, error) from error


def _answered(error: "docker.errors.APIError") -> DureError:
    status = error.response.status_code if error.response is not None else 0
    said = " ".join(str(error.explanation or error).split())
    low = said.lower()
    if status == _NOT_IMPLEMENTED or ("pause" in low and any(word in low for word in _UNABLE)):
        return PauseUnsupportedError(
            f"its runtime cannot pause ({said})", "run it under runc, or label it dure.exempt=true"
        )
    for words, kind, what in _MEANINGS:
        if any(word in low for word in words):
            return kind(f"{what} ({said})")
    if status in (_NO_SUCH, _CONFLICT):
        return ContainerGoneError(f"it does not run ({said})")
    return DureError(f"Docker refused ({said})", "look into its log")


def _unreachable(url: str, error: Exception) -> RuntimeUnreachableError:
    causes = tuple(_causes(error))
    if any(isinstance(cause, PermissionError) for cause in causes):
        return RuntimeUnreachableError(
            f"this user may not use Docker's socket ({url})",
            "run as root, or add the user to the group docker",
        )
    if any(isinstance(cause, FileNotFoundError) for cause in causes):
        return DaemonGoneError(
            f"there is no Docker at {url}", "start it, or say in DOCKER_HOST where it is"
        )
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        return DaemonGoneError(f"Docker does not run at {url}", "start it")
    if any(isinstance(cause, TimeoutError | requests.exceptions.Timeout) for cause in causes):
        return RuntimeUnreachableError(f"Docker does not answer at {url}", "look into its log")
    return RuntimeUnreachableError(f"Docker cannot be reached at {url} ({error})", "start it")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error with everything it came from; libraries wrap them in arguments, too."""
    seen: set[int] = set()
    todo: list[BaseException] = [error]
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        more = (one.__cause__, one.__context__, *one.args, getattr(one, "reason", None))
        todo += [each for each in more if isinstance(each, BaseException)]
