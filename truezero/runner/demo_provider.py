"""A local provider for `truezero demo`: two dialects, and accounts that fail as real ones do.

Answers depend only on the key, the model and the state of the account; error bodies come from
the proxy's fault scripts.
"""

from __future__ import annotations

import json
import re
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self

if TYPE_CHECKING:
    from truezero.models import FaultKind

MODELS = ("demo-large", "demo-small")
_POLL_S = 0.05  # what shutdown() waits for at most; half a second by default
_PRODUCT = re.compile(r"(\d+) \* (\d+)")


@dataclass
class Account:
    """The account behind a key.

    ``credit``: US dollars left. ``burst``: calls allowed before one is refused with a wait of
    ``pause_s`` seconds; None is no limit. It counts calls, not time: a slow machine sees the same.
    ``incident``: the provider has an outage in this account's region.
    """

    credit: float = 100.0
    burst: int | None = None
    pause_s: float = 0.3
    incident: bool = False
    admitted: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def wait_s(self) -> float | None:
        """Return the seconds until the next call is allowed; None admits this one and counts it."""
        if self.burst is None:
            return None
        with self.lock:
            refused = self.admitted >= self.burst
            self.admitted = 0 if refused else self.admitted + 1
        return self.pause_s if refused else None


ACCOUNTS = {
    "sk-demo-funded": Account(),
    "sk-demo-empty": Account(credit=0.0),
    "sk-demo-busy": Account(burst=1),
    "sk-demo-outage": Account(incident=True),
}


class DemoProvider:
    """Serves the provider on a free loopback port, as a context manager."""

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_S,), daemon=True
        )
        self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """The provider's origin, ``http://127.0.0.1:port``."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"


def failure(key: str, model: str) -> tuple[FaultKind, float | None] | None:
    """Return why this key cannot call this model now, and the wait in seconds if there is one."""
    account = ACCOUNTS.get(key)
    if account is None:
        return "auth", None
    if account.incident:
        return "overloaded", None
    if model not in MODELS:
        return "model_not_found", None
    if account.credit <= 0:
        return "quota", None
    wait_s = account.wait_s()
    return None if wait_s is None else ("rate_limit", wait_s)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    routes: ClassVar[dict[str, str]] = {
        "/v1/chat/completions": "openai",
        "/v1/messages": "anthropic",
    }

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: requests carry keys."""

    def do_POST(self) -> None:
        """Answer one inference call."""
        request = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        dialect = self.routes.get(self.path.partition("?")[0])
        if dialect is None:
            self._json(404, {"error": {"message": f"Invalid URL (POST {self.path})"}})
            return
        model = request.get("model", "")
        failed = failure(self._key(), model)
        if failed is not None:
            self._fail(dialect, model, *failed)
        elif dialect == "openai":
            self._openai(request)
        else:
            self._anthropic(request)

    def _key(self) -> str:
        bearer = self.headers.get("authorization", "").removeprefix("Bearer ")
        return self.headers.get("x-api-key", bearer)

    def _fail(self, dialect: str, model: str, kind: FaultKind, wait_s: float | None) -> None:
        # The demo needs the service anyway: its fault scripts have the providers' error bodies.
        from proxy.relay.fault_scripts import anthropic_errors, chat_errors  # noqa: PLC0415

        errors = chat_errors if dialect == "openai" else anthropic_errors
        error = errors(model)[kind]
        extra = {} if wait_s is None else {"retry-after": f"{wait_s:.2f}"}
        self._json(error.status, error.body, extra)

    def _openai(self, request: dict[str, Any]) -> None:
        prompt, results = _conversation(request)
        call, text = _think(prompt, results)
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if call is not None:
            function = {"name": "calculator", "arguments": json.dumps({"expression": call})}
            message["tool_calls"] = [{"id": "call_1", "type": "function", "function": function}]
        usage = _usage(prompt, text or call or "")
        finish = "tool_calls" if call else "stop"
        base = {"id": "chatcmpl-demo", "created": int(time.time()), "model": request["model"]}
        if not request.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": finish}
            whole = {**base, "object": "chat.completion", "choices": [choice], "usage": usage}
            self._json(200, whole)
            return
        chunk = {**base, "object": "chat.completion.chunk"}
        if call is not None:
            message["tool_calls"][0]["index"] = 0
        last = {"index": 0, "delta": {}, "finish_reason": finish}
        first = {"index": 0, "delta": message, "finish_reason": None}
        self._events(
            [
                {**chunk, "choices": [first]},
                {**chunk, "choices": [last]},
                {**chunk, "choices": [], "usage": usage},
            ],
            done=True,
        )

    def _anthropic(self, request: dict[str, Any]) -> None:
        prompt, results = _conversation(request)
        call, text = _think(prompt, results)
        content: dict[str, Any] = {"type": "text", "text": text}
        if call is not None:
            content = {
                "type": "tool_use", "id": "toolu_1", "name": "calculator",
                "input": {"expression": call},
            }  # fmt: skip
        counts = _usage(prompt, text or call or "")
        usage = {
            "input_tokens": counts["prompt_tokens"],
            "output_tokens": counts["completion_tokens"],
        }
        self._json(
            200,
            {
                "id": "msg_demo", "type": "message", "role": "assistant", "model": request["model"],
                "content": [content], "stop_reason": "tool_use" if call else "end_turn",
                "stop_sequence": None, "usage": usage,
            },
        )  # fmt: skip

    def _json(self, status: int, body: object, extra: dict[str, str] | None = None) -> None:
        payload = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(payload)))
        for name, value in (extra or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(payload)

    def _events(self, events: list[dict[str, Any]], *, done: bool) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        lines = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in events]
        for line in [*lines, b"data: [DONE]\n\n"] if done else lines:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")


def _conversation(request: dict[str, Any]) -> tuple[str, list[str]]:
    """Return the task's text and the tool results so far, in either dialect."""
    prompt = ""
    results: list[str] = []
    for message in request.get("messages", []):
        content = message.get("content")
        if message.get("role") == "tool":
            results.append(str(content))
        elif message.get("role") == "user" and isinstance(content, str):
            prompt = content
        elif message.get("role") == "user" and isinstance(content, list):
            results += [str(part["content"]) for part in content if "tool_use_id" in part]
    return prompt, results


def _think(prompt: str, results: list[str]) -> tuple[str | None, str | None]:
    """Send products to the calculator; everything else is beyond this model."""
    if results:
        return None, f"The answer is {results[-1]}."
    if product := _PRODUCT.search(prompt):
        return f"{product[1]} * {product[2]}", None
    return None, "I could not work this out."


def _usage(prompt: str, answer: str) -> dict[str, int]:
    inputs, outputs = max(1, len(prompt) // 4), max(1, len(answer) // 4)
    return {
        "prompt_tokens": inputs,
        "completion_tokens": outputs,
        "total_tokens": inputs + outputs,
    }
