"""The event stream of a batch, read line by line and resumed after a lost connection.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from truezero.foreign import ForeignError, parse
from truezero.sdk import rest
from truezero.sdk.addresses import of_batch

_FIELDS = frozenset(("id", "event", "data"))
_ID = re.compile(r"[0-9]{1,18}")
_LOST_AFTER = 5  # failed reconnections in a row before a stream is given up


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event of a batch; the kind ``alive`` is a heartbeat.

    ``id`` is where a later stream can resume.
    """

    id: int | None
    kind: str
    data: Mapping[str, Any]


class Events:
    """Parses a batch's event stream line by line, across reconnections."""

    def __init__(self, batch: str, after: int | None) -> None:
        self.path = of_batch(batch, "/events")
        self._after = after
        self._lost = 0
        self._fields: dict[str, str] = {}

    @property
    def params(self) -> dict[str, int]:
        """The position at which the next connection resumes."""
        return {} if self._after is None else {"after": self._after}

    def line(self, line: str) -> Event | None:
        """Take one line; return an event if it completes one.

        Raises:
            ForeignError: what it completes is no event.
        """
        if line.startswith(":"):
            self._lost = 0
            return Event(id=self._after, kind="alive", data={})
        if line:
            name, _, value = line.partition(":")
            if name in _FIELDS:
                self._fields[name] = value.removeprefix(" ")
            return None
        read, self._fields = self._fields, {}
        self._after = int(read["id"]) if _ID.fullmatch(read.get("id", "")) else self._after
        if "data" not in read:
            return None
        self._lost = 0
        data = parse(read["data"])
        if not isinstance(data, dict):
            raise ForeignError("the data of an event is no object")
        return Event(id=self._after, kind=read.get("event", "message"), data=data)

    def lost(self, url: str, error: httpx.HTTPError) -> None:
        """Note that a connection broke.

        Raises:
            ServiceError: too many in a row broke without an event.
        """
        self._lost += 1
        self._fields = {}
        if self._lost >= _LOST_AFTER:
            raise rest.no_answer(url, error) from error
