"""An agent's status as the tests of views want it: two tenants on one GPU, one of them promised."""

import json
import signal
import socketserver
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from dure.client.schema import AgentStatus
from dure.domain.units import GIB, NS_PER_MS

UUID = "GPU-8f2c1d3e-0000-4444-8888-123456789abc"

WEB: dict[str, Any] = {
    "name": "web",
    "gpu": UUID,
    "uid": 0,
    "spec": {
        "class": "guaranteed",
        "latency_slo": {"target_ns": 20 * NS_PER_MS},
        "memory_limit_bytes": 20 * GIB,
        "command": ["python", "serve.py"],
    },
    "clients": [
        {
            "pid": 4001,
            "program": "python",
            "gpu": UUID,
            "slot": 0,
            "since_s": 12.0,
            "memory_bytes": 5 * GIB,
        }
    ],
    "busy": True,
    "gpu_share": 0.41,
    "held_share": 0.0,
    "launches_per_s": 5000.0,
    "latency": {
        "p50_ns": 4.2e6,
        "p99_ns": 18.1e6,
        "requests_per_s": 180.0,
        "reported": False,
        "target_ns": 20 * NS_PER_MS,
        "percentile": 99.0,
        "on_time_share": 0.995,
    },
    "memory_bytes": 5 * GIB,
    "memory_limit_bytes": 20 * GIB,
    "weight_now": 1.0,
}

TRAIN: dict[str, Any] = {
    "name": "train",
    "gpu": UUID,
    "uid": 0,
    "spec": {"class": "best-effort", "weight": 2.0, "command": ["python", "train.py"]},
    "clients": [
        {
            "pid": 4002,
            "program": "python",
            "gpu": UUID,
            "slot": 1,
            "since_s": 10.0,
            "memory_bytes": 30 * GIB,
        }
    ],
    "busy": True,
    "gpu_share": 0.48,
    "held_share": 0.37,
    "launches_per_s": 9000.0,
    "memory_bytes": 30 * GIB,
    "weight_now": 2.4,
    "remaining_ns": 5.4e12,
    "remaining_source": "stated expectation",
    "held_for": "web",
}


def _member(tenant: str, **more: Any) -> dict[str, Any]:
    plain = {
        "sm_first": 0,
        "sm_count": 132,
        "beside": [],
        "budget_ns": 0,
        "inflight_ns": 0,
        "yields_to": [],
        "patience_ns": 0,
        "linger_ns": 0,
    }
    return {"tenant": tenant, **plain, **more}


def agent_status(**changes: Any) -> AgentStatus:
    """The status, with whole parts of it replaced."""
    status: dict[str, Any] = {
        "agent": {
            "version": "0.0.0",
            "pid": 77,
            "uid": 0,
            "started_unix_s": 1000.0,
            "run_dir": "/run/dure",
            "sharing": "isolated",
            "socket": "/run/dure/shim.sock",
            "abi_version": 1,
        },
        "gpus": [
            {
                "index": 0,
                "uuid": UUID,
                "name": "NVIDIA H200",
                "profile": "h200",
                "sms": 132,
                "memory_bytes": 141 * GIB,
                "memory_used_bytes": 36 * GIB,
                "utilization": 0.93,
                "temperature_c": 61.0,
                "power_w": 540.0,
                "policy": "slo",
                "parameters": {"patience": 0.2},
                "plan": {
                    "epoch": 812,
                    "policy": "slo",
                    "protected": ["web"],
                    "squads": [
                        {
                            "duration_ns": 10 * NS_PER_MS,
                            "members": [
                                _member("web"),
                                _member(
                                    "train",
                                    sm_first=64,
                                    sm_count=68,
                                    beside=["web"],
                                    yields_to=["web"],
                                    inflight_ns=2 * NS_PER_MS,
                                ),
                            ],
                        }
                    ],
                },
                "gated": True,
                "edges": 5000,
                "edges_per_s": 98.0,
                "tick_ns": 900_000,
                "ticks": 70_000,
                "clients": 2,
                "client_slots": 64,
            }
        ],
        "tenants": [WEB, TRAIN],
        "unmanaged": [{"gpu": UUID, "pid": 5005, "name": "python", "memory_bytes": 3 * GIB}],
        "events": [
            {"at_unix_s": 1100.0, "kind": "signal", "tenant": "web", "text": "web: at risk"}
        ],
    }
    return AgentStatus.model_validate({**status, **changes})


class CannedAgent:
    """Answers HTTP at `api.sock` of a run folder as told, and keeps what it was sent."""

    def __init__(self, run_dir: Path) -> None:
        self.answers: dict[tuple[str, str], tuple[int, Any]] = {}
        self.asked: list[tuple[str, str, Any]] = []
        agent = self

        class Handler(BaseHTTPRequestHandler):
            def address_string(self) -> str:
                return "unix"

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                """Say nothing."""

            def _answer(self) -> None:
                size = int(self.headers.get("content-length") or 0)
                body = json.loads(self.rfile.read(size)) if size else None
                agent.asked.append((self.command, self.path, body))
                code, answer = agent.answers.get(
                    (self.command, self.path), (404, {"error": "nothing here", "remedy": "go"})
                )
                data = json.dumps(answer).encode()
                self.send_response(code)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_PUT = do_PATCH = do_POST = do_DELETE = _answer  # noqa: N815

        self.path = run_dir / "api.sock"
        self._server = socketserver.ThreadingUnixStreamServer(str(self.path), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        # Signals are the main thread's: `dure run` waits for them there.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        self._server.serve_forever(0.05)

    def says(self, method: str, path: str, answer: Any, code: int = 200) -> None:
        """What to answer there from now on."""
        data = answer.model_dump(by_alias=True) if isinstance(answer, BaseModel) else answer
        self.answers[method, path] = (code, data)

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
