"""A harness in miniature: agents that call through the service, with a key that says how it goes.

It knows no verdict; what a key leads to, the provider plays.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.fakes.provider import Answer, Provider, Request
from tests.proxy.api.test_routes import serving

FAULTS = {
    "sk-dead": Fault.AUTH,
    "sk-empty": Fault.QUOTA,
    "sk-down": Fault.PROVIDER_ERROR,
}


class Accounts:
    """What a provider answers, by the key it is shown."""

    def __init__(self) -> None:
        self.outages = 0  # answers that still fail for sk-flaky
        self.down_until = 0.0  # on `time.monotonic`: until then nobody is answered
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Answer:
        key = (request.header("authorization") or "").removeprefix("Bearer ")
        if key == "sk-flaky" and self._still_out():
            key = "sk-down"
        if time.monotonic() < self.down_until:
            key = "sk-down"
        fault = FAULTS.get(key)
        return answers.healthy(request) if fault is None else answers.FAILURES[Api.CHAT][fault]

    def _still_out(self) -> bool:
        with self._lock:
            self.outages -= 1
            return self.outages >= 0


@contextlib.contextmanager
def service(folder: Path, **settings: str) -> Iterator[tuple[str, Provider, Accounts]]:
    """A real service and its provider: address, provider, accounts."""
    with serving(folder, **settings) as running:
        accounts = Accounts()
        running.provider.plays(accounts)
        yield str(running.http.base_url).rstrip("/"), running.provider, accounts


_http = httpx.Client(timeout=60)  # one for all: each would read the certificates anew


def call(base_url: str, key: str = "sk-good", **facts: str) -> int:
    """One chat call; its status."""
    asked = {"model": "gpt-5", "messages": [], **facts}
    headers = {"authorization": f"Bearer {key}"}
    return _http.post(f"{base_url}/chat/completions", json=asked, headers=headers).status_code
