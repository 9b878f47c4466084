"""Plays requests against a running service and keeps its answers, without what chance decides.

Ids are numbered in the order in which they are first seen, times and cursors become placeholders,
and sentences for people are moved out to ``prose``.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import Any

import httpx

_IDS = re.compile(r"(?<![0-9a-f])[0-9a-f]{24}(?![0-9a-f])")
_HASH = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_KEY = re.compile(r"tz-([A-Za-z0-9_-]{30,})\.[A-Za-z0-9_-]{20,}")
_LAST_FOUR = re.compile(r"tz-\.\.\.[A-Za-z0-9_-]{4}")
_CURSOR = re.compile(r"[A-Za-z0-9_-]{20,}={0,2}")
_VERSION = metadata.version("truezero")
_TIMES = frozenset({
    "agent_s", "as_of", "at", "began_at", "created_at", "duration_s", "ended_at", "expires",
    "first_at", "first_byte_at", "first_byte_s", "first_seen", "first_token_s", "judged_at",
    "last_at", "last_byte_at", "last_seen", "lost_s", "next_at", "opened_at", "probe_at",
    "provider_s", "reached_at", "reported_at", "retry_at", "seconds", "started_at",
})  # fmt: skip
_PORTS = frozenset({"origin"})
_PROSE = frozenset(
    {"detail", "error", "lines", "message", "reason", "sentence", "summaries", "title"}
)
_FRAMING = frozenset({"connection", "content-length", "date", "keep-alive", "transfer-encoding"})


class Player:
    """Asks a service, step by step.

    ``steps`` are the answers by the step's title, ``prose`` the sentences in them by their path.
    """

    def __init__(self) -> None:
        self.steps: dict[str, Any] = {}
        self.prose: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._http = httpx.Client()
        self._scene = ""
        self._all_urls = False

    def goes_to(self, http: httpx.Client, scene: str) -> None:
        """Ask this service from now on; its scene's name stands before each title."""
        self._http, self._scene = http, scene

    def ask(
        self, method: str, path: str, json: object = None, *, title: str = "", **how: Any
    ) -> httpx.Response:
        """Send one request and keep the answer."""
        if json is not None:
            how["json"] = json
        answer = self._http.request(method, path, **how)
        self._keep(title or f"{method} {path}", _told(answer), _body(answer))
        return answer

    def get(self, path: str, **how: Any) -> httpx.Response:
        """``ask`` with GET."""
        return self.ask("GET", path, **how)

    def post(self, path: str, json: object = None, **how: Any) -> httpx.Response:
        """``ask`` with POST."""
        return self.ask("POST", path, json, **how)

    def watch(self, path: str, **how: Any) -> None:
        """Read server-sent events until the service has no more to tell for now."""
        with self._http.stream("GET", path, **how) as answer:
            lines: list[str] = []
            for line in answer.iter_lines():
                if line == ": alive":
                    break
                lines.append(line)
        self._keep(f"GET {path}", _told(answer), list(_events(lines)))

    def cut(self, path: str, json: object) -> None:
        """Send a request whose answer breaks off, and keep what came before that."""
        came, end = "", "complete"
        with self._http.stream("POST", path, json=json) as answer:
            try:
                for chunk in answer.iter_text():
                    came += chunk
            except httpx.RemoteProtocolError:
                end = "cut"
        self._keep(f"POST {path}", {**_told(answer), "end": end}, came)

    def _keep(self, title: str, told: dict[str, Any], body: Any) -> None:
        title = f"{self._scene}: {self._text(title)}"
        number = sum(known.partition(" #")[0] == title for known in self.steps)
        title = f"{title} #{number + 1}" if number else title
        self.steps[title] = {
            **self._plain(told, title, "headers"),
            "body": self._plain(body, title, ""),
        }

    def _plain(self, value: Any, path: str, key: str) -> Any:
        if isinstance(value, Mapping):
            if key == "base_urls":
                value = self._urls(value)
            if key == "origins":
                return dict.fromkeys(value, "<host>")
            return {
                self._text(name): self._plain(inner, f"{path}/{name}", name)
                for name, inner in value.items()
            }
        if isinstance(value, list):
            return [self._plain(inner, f"{path}/{place}", key) for place, inner in enumerate(value)]
        if key in _PORTS and value is not None:
            return "<host>"
        if key in _TIMES and value is not None:
            return f"<{type(value).__name__}>"
        if not isinstance(value, str):
            return value
        text = self._text(value)
        if key == "next" and _CURSOR.fullmatch(text):
            return "<cursor>"
        if key in _PROSE and " " in text:
            self.prose[path] = text
            return "<prose>"
        return text

    def _text(self, text: str) -> str:
        text = text.replace(str(self._http.base_url).rstrip("/"), "http://proxy")
        text = text.replace(self._http.base_url.netloc.decode(), "proxy")
        if text == _VERSION:
            return "<version>"
        text = _KEY.sub(self._of_made_id, _LAST_FOUR.sub("tz-...<last four>", text))
        return _IDS.sub(lambda found: self._named(found[0]), _HASH.sub("<hash>", text))

    def _urls(self, urls: Mapping[str, str]) -> Mapping[str, object]:
        """All of them once, then two and how many there are."""
        if not self._all_urls:
            self._all_urls = True
            return urls
        shown = {name: urls[name] for name in ("openai", "anthropic")}
        return {**shown, "others": len(urls) - len(shown)}

    def _of_made_id(self, key: re.Match[str]) -> str:
        """A key whose rollout's id was made up, by that id: its secret differs each time."""
        name = base64.urlsafe_b64decode(key[1] + "=" * (-len(key[1]) % 4)).decode()
        return f"<key of {name}>" if _IDS.search(name) else key[0]

    def _named(self, found: str) -> str:
        return self._ids.setdefault(found, f"<id {len(self._ids) + 1}>")


def _told(answer: httpx.Response) -> dict[str, Any]:
    headers = {name: value for name, value in answer.headers.items() if name not in _FRAMING}
    return {"status": answer.status_code, "headers": dict(sorted(headers.items()))}


def _body(answer: httpx.Response) -> Any:
    kind = answer.headers.get("content-type", "").partition(";")[0]
    if kind in ("application/json", "application/problem+json") and answer.content:
        return answer.json()
    if kind == "application/x-ndjson":
        return [json.loads(line) for line in answer.text.splitlines()]
    return answer.text


def _events(lines: list[str]) -> Iterator[dict[str, Any]]:
    for block in "\n".join(lines).split("\n\n"):
        if block.strip():
            fields = dict(line.split(": ", 1) for line in block.strip().splitlines())
            yield {**fields, "data": json.loads(fields["data"])}
