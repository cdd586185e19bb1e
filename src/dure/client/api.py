"""A typed client of the agent's API: every endpoint a method, every refusal a `DureError`."""

import socket
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import httpx
from pydantic import BaseModel, ValidationError

from dure.client.advice import AdviceAnswer
from dure.client.containers import (
    ContainersStatus,
    ContainerStatus,
    ContainerWhy,
    ExemptRequest,
)
from dure.client.places import Places, candidate_places
from dure.client.recordings import RecordingQuery
from dure.client.schema import (
    AgentStatus,
    EndAnswer,
    EndRequest,
    GoalsAnswer,
    GoalsRequest,
    PolicyAnswer,
    PolicyRequest,
    Problem,
    Report,
    TenantDeclared,
    TenantList,
    TenantPatch,
    TenantSpec,
    TenantStatus,
    WhyAnswer,
)
from dure.client.telemetry import FeedbackRequest, SeriesAnswer, SeriesNames, Verdict
from dure.domain.errors import DureError, InputError

_TIMEOUT_S = 10.0
"""For an answer; the agent answers within its tick of 20 ms, a loaded machine within seconds."""

_A = TypeVar("_A", bound=BaseModel)


class AgentUnreachableError(DureError):
    """No agent answers there."""


class AgentSilentError(AgentUnreachableError):
    """Somebody listens there and does not answer: to start another would not help."""


class AgentClient:
    """Talks to one agent over its UNIX socket; not for use by several threads at once."""

    def __init__(self, places: Places, timeout_s: float = _TIMEOUT_S) -> None:
        self.places = places
        self._met = False
        self._http = httpx.Client(
            transport=httpx.HTTPTransport(uds=str(places.api_socket)),
            base_url="http://agent",
            timeout=timeout_s,
        )

    def __enter__(self) -> "AgentClient":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the connection back."""
        self._http.close()

    # What is going on

    def status(self) -> AgentStatus:
        """Everything `dure top` shows."""
        return self._ask("GET", "/v1/status", AgentStatus)

    def tenants(self) -> tuple[TenantStatus, ...]:
        """All declared tenants."""
        return self._ask("GET", "/v1/tenants", TenantList).tenants

    def why(self, tenant: str) -> WhyAnswer:
        """By whom and for which reason a tenant was held lately."""
        return self._ask("GET", f"/v1/tenants/{tenant}/why", WhyAnswer)

    # Tenants

    def declare(self, tenant: str, spec: TenantSpec) -> TenantDeclared:
        """Declare a tenant, or replace what was said of it."""
        return self._ask("PUT", f"/v1/tenants/{tenant}", TenantDeclared, spec)

    def change(self, tenant: str, patch: TenantPatch) -> TenantStatus:
        """Change some keys while it runs."""
        return self._ask("PATCH", f"/v1/tenants/{tenant}", TenantStatus, patch)

    def forget(self, tenant: str) -> None:
        """Forget a tenant that has no processes; `end` ends those it has."""
        self._send("DELETE", f"/v1/tenants/{tenant}")

    def end(self, tenant: str, grace_s: float = 5.0) -> EndAnswer:
        """End a tenant's processes; under MPS without harm to the others."""
        request = EndRequest(grace_s=grace_s)
        return self._ask(
            "POST", f"/v1/tenants/{tenant}/end", EndAnswer, request, wait_s=grace_s + _TIMEOUT_S
        )

    # Policies

    def policy(self) -> PolicyAnswer:
        """The policy of every GPU, with the plan in force."""
        return self._ask("GET", "/v1/policy", PolicyAnswer)

    def set_policy(self, request: PolicyRequest) -> PolicyAnswer:
        """Switch, or see what a switch would do."""
        return self._ask("PUT", "/v1/policy", PolicyAnswer, request)

    def advice(self) -> AdviceAnswer:
        """Which policy would do better, and what was done about it."""
        return self._ask("GET", "/v1/policy/advice", AdviceAnswer)

    def apply_goals(self, request: GoalsRequest) -> GoalsAnswer:
        """Choose a policy from goals and apply it, tenants' settings included."""
        return self._ask("POST", "/v1/goals", GoalsAnswer, request)

    # Reports

    def report_latencies(self, tenant: str, latencies_ns: Iterable[int]) -> None:
        """Requests as the program itself measured them."""
        self._send(
            "POST", f"/v1/tenants/{tenant}/reports", Report(latencies_ns=tuple(latencies_ns))
        )

    def report_progress(self, tenant: str, done: float, total: float) -> None:
        """How far the program is, in its own units."""
        self._send("POST", f"/v1/tenants/{tenant}/reports", Report(done=done, total=total))

    # Measurements

    def series(self, name: str, labels: Mapping[str, str], **asked: str) -> SeriesAnswer:
        """Series of a name over a span; `since`, `start`, `end` and `step` may be stated."""
        pairs = [("name", name), *((key, value) for key, value in asked.items() if value)]
        pairs += [("label", f"{label}={value}") for label, value in labels.items()]
        return self._ask("GET", f"/v1/series?{urlencode(pairs)}", SeriesAnswer)

    def series_names(self) -> tuple[str, ...]:
        """Names of all series."""
        return self._ask("GET", "/v1/series/names", SeriesNames).names

    def feedback(self, tenant: str, verdict: Verdict, note: str = "") -> None:
        """How a user finds what a tenant does."""
        request = FeedbackRequest(verdict=verdict, note=note)
        self._send("POST", f"/v1/tenants/{quote(tenant, safe='')}/feedback", request)

    def metrics(self) -> str:
        """Everything that was measured last, in Prometheus' format."""
        return self._send("GET", "/metrics").text

    # Recordings

    def record(self, asked: RecordingQuery) -> Iterator[bytes]:
        """A recording as it comes; to stop reading ends it."""
        self._knock()
        path = f"/v1/recording?{urlencode(asked.model_dump())}"
        try:
            patience = httpx.Timeout(_TIMEOUT_S, read=asked.seconds + _TIMEOUT_S)
            with self._http.stream("GET", path, timeout=patience) as response:
                if response.is_error:
                    response.read()
                    raise _refusal(response)
                yield from response.iter_raw()
        except httpx.HTTPError as error:
            raise AgentUnreachableError(
                f"the agent at {self.places.api_socket} broke off ({error})", "try again"
            ) from error

    # Containers

    def containers(self) -> ContainersStatus:
        """Every container with a GPU: state, reason, queue place, wait."""
        return self._ask("GET", "/v1/containers", ContainersStatus)

    def why_container(self, container: str) -> ContainerWhy:
        """Why a container, by name or the beginning of its id, stands where it does."""
        return self._ask("GET", _container_path(container, "why"), ContainerWhy)

    def pause_container(self, container: str) -> ContainerStatus:
        """Keep a container from the GPU until it is resumed."""
        return self._ask("POST", _container_path(container, "pause"), ContainerStatus)

    def resume_container(self, container: str) -> ContainerStatus:
        """Let a container go, and leave it alone for a while."""
        return self._ask("POST", _container_path(container, "resume"), ContainerStatus)

    def exempt_container(self, container: str, *, exempt: bool = True) -> ContainerStatus:
        """Never touch a container, or do so again."""
        request = ExemptRequest(exempt=exempt)
        return self._ask("PUT", _container_path(container, "exempt"), ContainerStatus, request)

    # Transport

    def _ask(
        self,
        method: str,
        path: str,
        answer: type[_A],
        message: BaseModel | None = None,
        *,
        wait_s: float | None = None,
    ) -> _A:
        response = self._send(method, path, message, wait_s)
        try:
            return answer.model_validate_json(response.content)
        except ValidationError as error:
            raise DureError(
                f"the agent at {self.places.api_socket} gave an answer this version cannot read",
                "restart it so that both are of one version",
            ) from error

    def _send(
        self,
        method: str,
        path: str,
        message: BaseModel | None = None,
        wait_s: float | None = None,
    ) -> httpx.Response:
        if not self._met:
            self._knock()
        sent: dict[str, Any] = {} if wait_s is None else {"timeout": wait_s}
        if message is not None:
            unset = isinstance(message, TenantPatch)
            sent["content"] = message.model_dump_json(by_alias=True, exclude_unset=unset)
            sent["headers"] = {"content-type": "application/json"}
        self._met = False
        try:
            response = self._http.request(method, path, **sent)
        except httpx.ConnectError as error:
            raise _absent(self.places) from error
        except httpx.TimeoutException as error:
            raise AgentSilentError(
                f"the agent at {self.places.api_socket} did not answer in time",
                f"look into {self.places.log_file}",
            ) from error
        except httpx.HTTPError as error:
            raise AgentUnreachableError(
                f"the agent at {self.places.api_socket} broke off ({error})", "try again"
            ) from error
        self._met = True
        if response.is_error:
            raise _refusal(response)
        return response

    def _knock(self) -> None:
        """See whether anybody listens: httpx leaves a socket open where nobody does."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as knocking:
            try:
                knocking.connect(str(self.places.api_socket))
            except OSError as error:
                raise _absent(self.places) from error


def _container_path(container: str, what: str) -> str:
    return f"/v1/containers/{quote(container, safe='')}/{what}"


def _absent(places: Places) -> AgentUnreachableError:
    return AgentUnreachableError(
        f"no agent answers at {places.api_socket}",
        "start one with `dure agent`, or name its folder in DURE_RUN_DIR",
    )


def _refusal(response: httpx.Response) -> DureError:
    try:
        problem = Problem.model_validate_json(response.content)
    except ValidationError:
        return DureError(
            f"the agent answered {response.status_code} without a reason", "look into its log"
        )
    kind = InputError if response.is_client_error else DureError
    return kind(problem.error, problem.remedy)


def find_agent(run_dir: Path | None = None) -> AgentClient:
    """The agent that serves this user: one that answers; raises where there is none."""
    places = candidate_places(run_dir)
    silent: AgentSilentError | None = None
    for place in places:
        if not place.api_socket.is_socket():
            continue  # a failed connection would leave a socket behind in the HTTP library
        client = AgentClient(place)
        try:
            client.policy()
        except AgentUnreachableError as error:
            client.close()
            silent = error if isinstance(error, AgentSilentError) else silent
        else:
            return client
    raise silent or _absent(places[0])
