"""Requests that the OpenAPI document allows or forbids, and what their answers are held to."""

from typing import Any

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from dure.server.rest.app import build_app
from dure.server.services import Services
from dure.stores.bus.local import LocalBus
from dure.stores.store import Store
from tests.server.rest.centre import Centre, TestLogs

CHECKED = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
    unsupported_method,
]
REFUSALS = [400, 401, 403, 404, 405, 409, 412, 413, 415, 422, 428]


def described(*, bounds: bool) -> Any:
    """The document itself needs no database; what is served is checked against it below."""
    store = Store.open("sqlite:///unused.db")
    services = Services(store, LocalBus(), TestLogs())
    config = schemathesis.Config.from_dict(
        {
            "checks": {"negative_data_rejection": {"expected-statuses": REFUSALS}},
            "phases": {"coverage": {"enabled": bounds}},
        }
    )
    whole = schemathesis.openapi.from_dict(build_app(services).openapi(), config=config)

    @whole.hook
    def filter_query(_: Any, query: dict[str, Any] | None) -> bool:
        # A query has no objects, nulls and empty lists: on the line a wrong one is a text like any
        # other, or nothing.
        values = (query or {}).values()
        return not any(isinstance(each, dict) or each is None or each == [] for each in values)

    return whole.exclude(path=["/v1/events/stream", "/v1/recording"])


def search(examples: int) -> Any:
    """How far one test looks."""
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )


def answered_as_described(case: "Case[Any]", centre: Centre) -> None:
    case.call_and_validate(
        headers={"Authorization": f"Bearer {centre.secrets['admin']}"},
        base_url=centre.url,
        checks=CHECKED,
        timeout=30,
    )
