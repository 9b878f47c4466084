"""A gateway on loopback that spoils the answers of a model as agentchaos-sdk does.

It runs in an environment of its own, where that package is; nothing of this project is imported.
The package changes what an HTTP client receives, so the gateway asks the model with that client and
passes on what it gets. ``POST /fault`` with ``{"name": …, "seed": 42}`` begins another fault and
answers with how often the one before fired; a name of null is none.

    python gateway.py MODEL_URL
"""

from __future__ import annotations

import asyncio
import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import agentchaos
import httpx
from loguru import logger


class Gateway(BaseHTTPRequestHandler):
    """One call at a time, in the thread that began the fault: it holds for this context alone."""

    model_url = ""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/fault":
            asked: dict[str, Any] = json.loads(body)
            ended = agentchaos.disable()
            agentchaos.inject(asked["name"], seed=asked["seed"])
            told = {"fired": len(ended.log) if ended else 0}
            self._answer(200, json.dumps(told).encode())
            return
        answer = asyncio.run(self._ask(body))
        self._answer(answer.status_code, answer.content)

    async def _ask(self, body: bytes) -> httpx.Response:
        async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
            headers = {"content-type": "application/json"}
            return await client.post(self.model_url + self.path, content=body, headers=headers)

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write nothing: the calls are on the board."""


def main() -> None:
    """Print the port and the names of all faults, and serve until the end of input or a signal."""
    logger.remove()
    Gateway.model_url = sys.argv[1]
    with HTTPServer(("127.0.0.1", 0), Gateway) as server:
        told = {"port": server.server_port, "faults": agentchaos.list_faults()}
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()
        server.serve_forever()


if __name__ == "__main__":
    main()
