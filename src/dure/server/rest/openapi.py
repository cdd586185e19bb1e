"""The OpenAPI document: what FastAPI finds in the routes, and the documents bodies are read as."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from dure.api.base import Document
from dure.api.problems import Problem
from dure.server.rest.door import TAKEN_MODELS


def describe(app: FastAPI) -> dict[str, Any]:
    """The document, made once."""
    if app.openapi_schema:
        return app.openapi_schema
    document = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
        tags=[],
    )
    taken: set[type[Document]] = {*TAKEN_MODELS, Problem}
    models = sorted(taken, key=lambda model: model.__name__)
    _, defined = models_json_schema(
        [(model, "validation") for model in models],
        ref_template="#/components/schemas/{model}",
    )
    components = document.setdefault("components", {})
    components["schemas"] = components.get("schemas", {}) | defined.get("$defs", {})
    components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    app.openapi_schema = document
    return document
