"""A provider on a real socket that speaks in messages, and refuses upgrades when told to.

It plays what a test hands it; it knows no proxy.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import Server, ServerConnection, serve
from websockets.typing import Subprotocol

from tests.fakes import answers
from tests.fakes.provider import Answer

Message = str | bytes
Script = Callable[[ServerConnection], None]


def event(kind: str, **more: object) -> str:
    """One message of the provider."""
    return json.dumps({"type": kind, **more})


def told(answer: Answer) -> list[str]:
    """The events of a streamed answer, as messages."""
    events = answer.content.decode().split("\n\n")
    return [one.partition("data: ")[2] for one in events if one]


def create(model: str = "gpt-5", **more: object) -> str:
    """One message of the agent: ask for a response."""
    return json.dumps({"type": "response.create", "model": model, "input": "hi", **more})


def answering(*rounds: Sequence[Message]) -> Script:
    """Answer the first message with the first round, and so on; the last one over and over."""

    def script(socket: ServerConnection) -> None:
        left = list(rounds)
        for _ in socket:
            for message in left.pop(0) if len(left) > 1 else left[0]:
                socket.send(message)

    return script


def echo(socket: ServerConnection) -> None:
    """Give back what comes."""
    for message in socket:
        socket.send(message)


class Talker:
    """The provider; ``heard`` are the agent's messages, ``upgrades`` the requests that opened."""

    def __init__(
        self, script: Script = echo, *, speaks: Sequence[str] = (), **settings: Any
    ) -> None:
        self.script = script
        self.refusal: Response | None = None
        self.headers: Mapping[str, str] = {}
        self.upgrades: list[Request] = []
        self.sockets: list[ServerConnection] = []
        self.ended = threading.Event()  # a socket is over, the provider's side of it too
        self._server: Server = serve(
            self._serve,
            "127.0.0.1",
            0,
            process_request=self._asked,
            process_response=self._accepted,
            subprotocols=[Subprotocol(one) for one in speaks] or None,
            close_timeout=2,
            max_size=None,
            **settings,
        )
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.socket.getsockname()[1]}"

    def refuses(self, status: int, body: bytes = b"", **headers: str) -> None:
        named = Headers({name.replace("_", "-"): value for name, value in headers.items()})
        named["Content-Length"] = str(len(body))
        self.refusal = Response(status, "No", named, body)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        for socket in self.sockets:
            socket.socket.close()
        self._thread.join(60)

    def _asked(self, _: ServerConnection, request: Request) -> Response | None:
        self.upgrades.append(request)
        return self.refusal

    def _accepted(self, _: ServerConnection, __: Request, response: Response) -> None:
        response.headers.update(self.headers)

    def _serve(self, socket: ServerConnection) -> None:
        self.sockets.append(socket)
        try:
            self.script(socket)
        except ConnectionClosed:
            pass
        finally:
            self.ended.set()


RESPONSES = told(answers.responses_stream())
RESPONSES_TOOLS = told(answers.responses_tools_stream())
RESPONSES_FAILED = told(answers.responses_failed_stream())

REALTIME_USAGE = {
    "total_tokens": 36,
    "input_tokens": 31,
    "output_tokens": 5,
    "input_token_details": {
        "text_tokens": 11,
        "audio_tokens": 20,
        "cached_tokens": 8,
        "cached_tokens_details": {"text_tokens": 8, "audio_tokens": 0},
    },
    "output_token_details": {"text_tokens": 5, "audio_tokens": 0},
}


def realtime(
    response_id: str = "resp_1",
    *,
    status: str = "completed",
    details: Mapping[str, object] | None = None,
    usage: Mapping[str, object] | None = REALTIME_USAGE,
    item: Mapping[str, object] | None = None,
) -> list[str]:
    """One response of the realtime API."""
    spoken = {"id": "item_1", "type": "message", "role": "assistant", "content": []}
    head: dict[str, object] = {
        "id": response_id,
        "object": "realtime.response",
        "status_details": details,
    }
    begun = {**head, "status": "in_progress", "status_details": None, "output": [], "usage": None}
    done = {**head, "status": status, "output": [item or spoken], "usage": usage}
    return [
        event("response.created", event_id="e1", response=begun),
        event("response.output_item.added", response_id=response_id, item=item or spoken),
        event(
            f"response.{'function_call_arguments' if item else 'output_text'}.delta",
            response_id=response_id,
            delta="zero",
        ),
        event("response.done", event_id="e2", response=done),
    ]
