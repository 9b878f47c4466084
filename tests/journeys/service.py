"""``truezero serve`` as users run it: a process of its own, reached over HTTP only.

It knows nothing of the service's inside; it can be killed and started again.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import httpx

from tests import forked
from tests.fakes.provider import closed_port

ROOT = forked.ROOT
UPSTREAMS = ("OPENAI", "ANTHROPIC", "GEMINI")


class Service:
    """The service on a free port, its database and log in ``home``, all upstreams faked.

    ``flags`` are further options of ``serve``, ``settings`` further ``TRUEZERO_`` variables, named
    without that prefix.
    """

    def __init__(
        self, home: Path, provider_url: str, *, flags: Sequence[str] = (), **settings: str
    ) -> None:
        self.home = home
        self._flags = flags
        self.database = home / "journeys.db"
        self._settings = {
            **{f"UPSTREAM_{name}": provider_url for name in UPSTREAMS},
            "DATABASE_URL": str(self.database),
            "LOG_LEVEL": "info",
            **settings,
        }
        self._port = int(settings.get("PORT", 0)) or closed_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self.http = httpx.Client(base_url=self.url, timeout=60)
        self._process: forked.Process | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()
        self.stop()

    def start(self) -> None:
        """Start, and return when it answers."""
        with (self.home / "log").open("ab") as log:
            self._process = forked.start(
                "serve", "--port", str(self._port), *self._flags,
                cwd=self.home, env=self._environment(), stdout=log, stderr=log,
            )  # fmt: skip
        self._wait_until_alive()

    @property
    def pid(self) -> int:
        """Of the process that was started; its workers are its children."""
        assert self._process is not None, "the service is not running"
        return self._process.pid

    def send(self, how: signal.Signals) -> None:
        """Send it a signal and go on."""
        assert self._process is not None, "the service is not running"
        self._process.send_signal(how)

    def wait(self, timeout_s: float = 120) -> int:
        """Return its exit code once it has ended."""
        assert self._process is not None, "the service is not running"
        return self._process.wait(timeout_s)

    def kill(self) -> None:
        """End it as a crash would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it as an operator would."""
        self._end(signal.SIGTERM)

    def log(self) -> str:
        return (self.home / "log").read_text(errors="replace")

    def base(self, rollout: str, upstream: str) -> str:
        """Where an agent of this rollout points its client."""
        return f"{self.url}/r/{rollout}/{upstream}"

    def verdict(self, rollout: str, **query: str) -> dict[str, Any]:
        return self.get(f"/rollouts/{rollout}/verdict", **query)

    def exchanges(self, rollout: str) -> list[dict[str, Any]]:
        items = self.get(f"/rollouts/{rollout}/exchanges")["items"]
        assert isinstance(items, list)
        return items

    def outcome(self, rollout: str, **seen: object) -> dict[str, Any]:
        return self._checked(self.http.post(f"/rollouts/{rollout}/outcome", json=seen))

    def register(self, **asked: object) -> dict[str, Any]:
        return self._checked(self.http.post("/rollouts", json=asked))

    def get(self, path: str, **query: str) -> dict[str, Any]:
        return self._checked(self.http.get(path, params=query))

    def _checked(self, answer: httpx.Response) -> dict[str, Any]:
        assert answer.is_success, f"{answer.request.url}: {answer.status_code} {answer.text}"
        found = answer.json()
        assert isinstance(found, dict)
        return found

    def _environment(self) -> Mapping[str, str]:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("TRUEZERO_")}
        ours = {f"TRUEZERO_{name}": value for name, value in self._settings.items()}
        return {**inherited, **ours, "PYTHONPATH": str(ROOT), "NO_PROXY": "127.0.0.1"}

    def _wait_until_alive(self, timeout_s: float = 120) -> None:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and self._running():
            with contextlib.suppress(httpx.TransportError):
                if self.http.get("/healthz").is_success:
                    return
            time.sleep(0.02)
        raise AssertionError(f"the service does not answer:\n{self.log()}")

    def _running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(120)
        finally:
            self._process.kill()
            self._process = None
