"""Kubernetes' errors, translated once: nobody answers, not allowed, not there, changed since."""

import json
import ssl
from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from dure.domain.errors import DureError


class KubeError(DureError):
    """A cluster refused a request, or could not be asked."""


class KubeUnreachableError(KubeError):
    """Nobody answers, or not in time; it may later. What was asked may have been done."""


class KubeOverloadedError(KubeError):
    """The API server is starting, ending or overloaded, and did nothing; it may later."""

    def __init__(self, what: str, remedy: str = "", *, retry_after_s: float = 0.0) -> None:
        super().__init__(what, remedy)
        self.retry_after_s = retry_after_s


class KubeServerError(KubeError):
    """The API server failed; what was asked may have been done."""


class KubeNotFoundError(KubeError):
    """There is no such object, or no such kind of object."""


class KubeExistsError(KubeError):
    """An object of that name is there already."""


class KubeConflictError(KubeError):
    """The object changed meanwhile, is not the one that was meant, or a field has another owner."""


class KubeExpiredError(KubeError):
    """The cluster no longer knows what happened since then: list again."""


class KubeForbiddenError(KubeError):
    """The credentials are unknown, or do not allow this."""


class KubeInvalidError(KubeError):
    """The object does not fit the cluster's schema or rules."""


_MEANINGS: Mapping[int, tuple[type[KubeError], str]] = {
    400: (KubeInvalidError, "correct the object"),
    401: (KubeForbiddenError, "renew the credentials"),
    403: (KubeForbiddenError, "give the account a role that allows it"),
    404: (KubeNotFoundError, ""),
    405: (KubeInvalidError, "this kind of object does not allow it"),
    409: (KubeConflictError, "read it again and decide anew"),
    410: (KubeExpiredError, "list again"),
    413: (KubeInvalidError, "make the object smaller"),
    415: (KubeInvalidError, "this kind of object does not take such a patch"),
    422: (KubeInvalidError, "correct the object"),
}
"""What codes mean whatever the reason; others are failures of the server."""
_LATER = (429, 503, 504)
"""Not now; a 504 with a time to wait is a server whose cache has yet to catch up."""


def refused(response: httpx.Response, subject: str) -> KubeError:
    """What an answer that is an error means; its body must have been read."""
    retry_after_s = _seconds(response.headers.get("retry-after", ""))
    return refused_status(_status_in(response), subject, retry_after_s)


def refused_status(
    status: Mapping[str, Any], subject: str, retry_after_s: float = 0.0
) -> KubeError:
    """What a `Status` object means, also one sent in the middle of a watch."""
    code = int(status.get("code") or 0)
    reason = str(status.get("reason") or "")
    what = f"{subject}: {status.get('message') or reason or code}"
    after_s = retry_after_s or float((status.get("details") or {}).get("retryAfterSeconds") or 0)
    if code in _LATER and (after_s or code != 504):
        return KubeOverloadedError(what, "try again later", retry_after_s=after_s)
    if reason == "AlreadyExists":
        return KubeExistsError(what, "choose another name, or apply to it")
    kind, remedy = _MEANINGS.get(code, (KubeServerError, "look into the API server's log"))
    return kind(what, remedy)


def unreachable(url: str, error: Exception) -> KubeUnreachableError:
    """What a request that got no answer means."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return KubeUnreachableError(
                f"the certificate of {url} is not to be trusted ({cause.verify_message})",
                "check certificate-authority and tls-server-name in the kubeconfig",
            )
    if isinstance(error, httpx.TimeoutException):
        return KubeUnreachableError(f"the API server at {url} does not answer in time", "try again")
    if isinstance(error, httpx.ConnectError):
        return KubeUnreachableError(
            f"no API server can be reached at {url} ({error})", "check the address and the network"
        )
    said = str(error) or type(error).__name__
    return KubeUnreachableError(f"the API server at {url} broke off ({said})", "try again")


def _status_in(response: httpx.Response) -> Mapping[str, Any]:
    """The `Status` an error answer holds; made up where something in between answered."""
    try:
        body = json.loads(response.content)
    except ValueError:
        body = None
    if isinstance(body, dict) and body.get("kind") == "Status":
        return {"code": response.status_code, **body}
    return {"code": response.status_code, "message": response.text[:200].strip()}


def _seconds(header: str) -> float:
    return float(header) if header.isdigit() else 0.0


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
