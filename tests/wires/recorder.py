"""A provider on loopback that answers every way in which an SDK asks, and notes what it was asked.

The first segment of a path (``/~chat``) names the way, or the failure that is wanted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.fakes import answers, replies
from tests.fakes.answers import Api
from tests.fakes.provider import Answer, Cut, Hang, Played, Request
from tests.fakes.replies import Finish, Reply, ToolCall
from tests.wires.asking import MARK

REPLY = Reply(
    model="m", input_tokens=31, output_tokens=5, cached_tokens=8, reasoning_tokens=2,
    reasoning="It may be.", text=("The zero", " is true."), finish=Finish.CALLS,
    calls=(ToolCall(id="call_1", name="look", arguments="{}"),),
)  # fmt: skip
_WAY = re.compile(r"/~([^/]+)(/.*)")
_OTHERS: Mapping[str, Any] = json.loads(Path(__file__).with_name("answers.json").read_text("utf-8"))
_APIS = {
    "(?:/chat|/agents|/fim)/completions": Api.CHAT,
    "/responses(?:/[^/]+(?:/cancel)?)?": Api.RESPONSES,
    "/messages": Api.MESSAGES,
    ":(?:g|streamG)enerateContent": Api.GEMINI,
    "/interactions(?:/[^/]+(?:/cancel)?)?": Api.INTERACTIONS,
}
_KEPT_VALUES = re.compile(r"accept|anthropic-(?:version|beta)|openai-beta|content-type|upgrade")
_TRANSPORT = frozenset(("host", "connection", "content-length", "accept-encoding"))
_PARAMETERS = (
    (re.compile(r"(?<=/)(?:resp|file|batch|msgbatch|job|v1|conv)_\d+(?=/|$)"), "{id}"),
    (re.compile(r"(?<=/batches/)1$"), "{id}"),
    (re.compile(r"(?<=/models/)[^/:]+(?=:)"), "{model}"),
)
DEPTH = 3  # of the keys of a body


def split(request: Request) -> tuple[str, str]:
    """Return the way that a request belongs to, and its target at the provider."""
    found = _WAY.fullmatch(request.target)
    return (found[1], found[2]) if found else ("", request.target)


def answer(request: Request) -> Played:
    """Answer as the provider would, or fail as the way wants."""
    way, target = split(request)
    path, failure = target.partition("?")[0], way.rpartition(".")[2]
    if failure.isdigit():
        return refusal(path, int(failure))
    match failure.split("-"):
        case ["waits", seconds]:
            return refusal(path, 429).with_headers(("retry-after", seconds))
        case ["cut"]:
            return (Cut(),)
        case ["late"]:
            return (Hang(),)
        case ["in", "a", "stream"]:
            return _broken(path, healthy(request, path))
        case _:
            return healthy(request, path)


def healthy(request: Request, path: str) -> Answer:
    """Answer as the provider would; with an empty object if nothing is known of the path."""
    asked = json.loads(request.body) if request.body.startswith(b"{") else {}
    streams = asked.get("stream") is True or path.endswith(":streamGenerateContent")
    if path.endswith("/results"):
        message = json.loads(replies.answer(Api.MESSAGES, REPLY, streams=False).content)
        return answers.whole(
            {"custom_id": "1", "result": {"type": "succeeded", "message": message}}
        )
    for pattern, body in _OTHERS.items():
        end, _, form = pattern.partition(" ")
        if re.search(f"(?:{end})$", path) and bool(form) == streams:
            return _written(path, body)
    api = next((api for end, api in _APIS.items() if re.search(f"{end}$", path)), None)
    if api is None:
        return answers.whole({})
    whole_calls = streams and "mistral" in (request.header("user-agent") or "")
    reply = replace(REPLY, calls=()) if whole_calls else REPLY  # of which it sends no pieces
    return replies.answer(api, reply, streams=streams)


def _written(path: str, body: Any) -> Answer:
    if not isinstance(body, list):
        return answers.whole(body)
    if path.startswith("/api/"):
        lines = tuple(json.dumps(one).encode() + b"\n" for one in body)
        return Answer(headers=(("content-type", "application/x-ndjson"),), body=lines)
    return answers.streamed(*(answers.named(one["type"], one) for one in body))


def refusal(path: str, status: int) -> Answer:
    headers = (("request-id", f"{MARK}request-id"), ("x-request-id", f"{MARK}x-request-id"))
    return answers.whole(_error(path, status), status, *headers)


def _error(path: str, status: int) -> dict[str, object]:
    """Return an error in the API's form, each text naming its place."""
    if path.startswith("/api/"):
        return {"error": f"{MARK}error"}
    if path.startswith("/v2/"):
        return {"id": f"{MARK}id", "message": f"{MARK}message"}
    names = ("message", "type", "code", "param", "status")
    error: dict[str, object] = {name: f"{MARK}error.{name}" for name in names}
    if "generatecontent" in path.lower():
        return {"error": {**error, "code": status}}
    if path.endswith("/interactions"):
        return {"error": error}
    return {"type": "error", "error": error, "request_id": f"{MARK}request_id"}


def _broken(path: str, whole: Answer) -> Answer:
    """Fail inside a stream, after its first event."""
    error = _error(path, 500)
    if path.startswith("/api/"):
        last = json.dumps(error).encode() + b"\n"
    elif path.endswith("/interactions"):
        last = answers.interaction_event("error", **error)
    else:
        last = answers.named("error", error) if path.endswith("/messages") else answers.data(error)
    return replace(whole, body=(whole.body[0], last))


# --- what was asked ------------------------------------------------------------------------


def noted(requests: Sequence[Request]) -> dict[str, dict[str, list[str]]]:
    """Return of each way its request lines, headers and body's keys, in the order of asking."""
    ways: dict[str, dict[str, list[str]]] = {}
    for request in requests:
        way, target = split(request)
        facts = ways.setdefault(way, {"asks": [], "headers": [], "body": []})
        for key, values in (
            ("asks", [f"{request.method} {_general(target)}"]),
            ("headers", sorted(each for header in request.headers for each in _header(*header))),
            ("body", sorted(set(keys(_parsed(request))))),
        ):
            facts[key] += [value for value in values if value not in facts[key]]
    return ways


def _general(target: str) -> str:
    path, mark, query = target.partition("?")
    for pattern, name in _PARAMETERS:
        path = pattern.sub(name, path)
    return path + mark + query


def _header(name: str, value: str) -> list[str]:
    """Return a name, with its values if those are the API's and not the call's or the machine's."""
    name = name.lower()
    if name in _TRANSPORT:
        return []
    if not _KEPT_VALUES.fullmatch(name):
        return [name]
    return [f"{name}: {each.strip()}" for each in value.partition(";")[0].split(",")]


def _parsed(request: Request) -> Any:
    try:
        return json.loads(request.body)
    except ValueError:
        return {}


def keys(value: Any, depth: int = DEPTH) -> list[str]:
    """Return the paths of all keys in a JSON value, down to a depth."""
    if isinstance(value, list):
        return [f"[].{place}" for one in value for place in keys(one, depth)]
    if not isinstance(value, dict) or depth == 0:
        return []
    found: list[str] = []
    for key, inner in value.items():
        below = [f".{place}" for place in keys(inner, depth - 1)]
        found += [f"{key}{place.replace('.[]', '[]', 1)}" for place in below] or [key]
    return found
