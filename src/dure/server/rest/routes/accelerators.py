"""Accelerators that the fleet knows by name."""

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from dure.api.accelerators import AcceleratorDocument, accelerator_document
from dure.api.base import Name
from dure.api.history import Page
from dure.domain.fleet.catalogue import CATALOGUE
from dure.server.rest.door import Reader, Speaks, answer, route
from dure.server.rest.named import Part, part_of
from dure.server.rest.problems import not_found

router = APIRouter(prefix="/v1/accelerators", tags=["accelerators"])


@route(router, "GET", "", Speaks(gives=Page[AcceleratorDocument]))
async def list_accelerators(_: Reader, query: Part) -> Response:
    """List the accelerators that jobs and pools may name."""
    part, more = part_of(list(CATALOGUE.values()), lambda each: each.name, query)
    documents = [accelerator_document(each) for each in part]
    return answer(Page[AcceleratorDocument](items=documents, cursor=more))


@route(router, "GET", "/{name}", Speaks(gives=AcceleratorDocument))
async def get_accelerator(_: Reader, name: Annotated[Name, Path()]) -> Response:
    """Show one accelerator with its slices."""
    profile = CATALOGUE.get(name.lower())
    if profile is None:
        raise not_found("accelerator", name)
    return answer(accelerator_document(profile))
