"""A service over HTTP: answers at DURE_PORT, after a while, with the attempt it is of.

python -m dure.bench.workloads.greeter SERVICE_MS
"""

import asyncio
import os
import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route


def main() -> None:
    """Answer until told to end; what was begun is finished."""
    serves_s = float(sys.argv[1]) / 1000.0

    async def answer(_: Request) -> PlainTextResponse:
        await asyncio.sleep(serves_s)
        return PlainTextResponse(os.environ["DURE_ATTEMPT"])

    app = Starlette(routes=[Route("/", answer)])
    uvicorn.run(app, port=int(os.environ["DURE_PORT"]), access_log=False, log_level="warning")


if __name__ == "__main__":
    main()
