"""A balancer before a service: it passes requests on, or answers for a service that is away."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

import httpx


@dataclass(frozen=True, slots=True)
class Page:
    """An answer of the balancer's own."""

    status: int
    body: bytes = b"<html><h1>Bad Gateway</h1></html>"
    type: str = "text/html"


class Balancer:
    """A real HTTP server; ``page`` is answered to all, None has the service answer.

    ``before`` is called with each request's path, and may change either.
    """

    def __init__(self, target: str) -> None:
        self.target = target
        self.page: Page | None = None
        self.before: Callable[[str], object] = lambda _path: None
        self.paths: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Page:
        self.paths.append(path)
        self.before(path)
        if self.page is not None:
            return self.page
        named = {name: value for name, value in headers.items() if name.lower() != "host"}
        try:
            answer = httpx.request(
                method, self.target + path, headers=named, content=body, timeout=60
            )
        except httpx.TransportError:
            return Page(502)
        return Page(answer.status_code, answer.content, answer.headers.get("content-type", ""))


def _handler(balancer: Balancer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            page = balancer.answer(self.command, self.path, dict(self.headers.items()), body)
            self.send_response(page.status)
            self.send_header("content-type", page.type)
            self.send_header("content-length", str(len(page.body)))
            self.end_headers()
            self.wfile.write(page.body)

        do_POST = do_GET  # noqa: N815  as the server calls it

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler
