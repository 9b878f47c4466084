"""The way in which a call asked its model, and which rollouts asked so.

Kept in memory, of an allow-list: API, path, version, tier and flags. No word of a prompt is.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from classifier.logical_calls import canonical
from classifier.records import AnswerState, Exchange, Kind
from proxy.routing.headers import Pairs, first
from proxy.routing.target import Target
from proxy.wire.request import ANTHROPIC_VERSIONS, Selected

NAME = "\x00"
"""Stands in a path for the model's name."""

_LANES = 1024  # upstreams and models, the last used
_WAYS = 32  # of each, likewise
_ROLLOUTS = 64  # of each way
_FAILED = 4096  # calls whose way is remembered
_LONGEST = 512  # of a path, a header's value or a field, in bytes
_SEEN = 8192
_VERSION_HEADER = b"anthropic-version"
_KEPT_APART = frozenset(("anthropic-version", "api-version"))
_QUERY = re.compile(rb"(?:^|&)(api-version=[\w.-]{1,40})", re.IGNORECASE)


# APIs that stream, and the ones beside them that do not; and realtime sockets, which have none.
NOT_STREAMED: Mapping[str, str] = {
    "gemini.streamGenerateContent": "gemini.generateContent",
    "bedrock.converse-stream": "bedrock.converse",
    "bedrock.invoke": "bedrock.converse",
    "bedrock.invoke-stream": "bedrock.converse",
}
# The last parts of paths that stream, and what they are in one that does not.
GEMINI = (":streamGenerateContent", ":generateContent")
_STREAMING = (
    GEMINI,
    (":streamRawPredict", ":rawPredict"),
    ("/converse-stream", "/converse"),
    ("/invoke-with-response-stream", "/converse"),
    ("/invoke", "/converse"),
)
# The model's name in a path, as `proxy.wire.routes` reads it.
_NAMED = re.compile(r"(?P<before>.*(?:/models/|/deployments/|/model/))(?P<name>.+?)"
                    r"(?P<after>:[a-zA-Z]+|/(?:chat/completions|completions|responses|converse))"
                    r"/?")  # fmt: skip


def plain_api(api: str) -> str:
    """Return an API as it is asked: not streamed."""
    return NOT_STREAMED.get(api, api)


def plain_path(path: str) -> str:
    """Return the path of a call as it is asked: not streamed, with `NAME` for the model's name."""
    for streaming, plain in _STREAMING:
        if path.endswith(streaming):
            path = path.removesuffix(streaming) + plain
            break
    named = _NAMED.fullmatch(path)
    return path if named is None else f"{named['before']}{NAME}{named['after']}"


@dataclass(frozen=True, slots=True)
class Way:
    """The way in which a question is asked.

    ``path`` is raw, with `NAME` for the model's name; None is the usual one. ``query`` is the API's
    version there, ``version`` an ``anthropic-version`` that the provider's SDKs send. ``headers``
    and ``fields`` (JSON, in the body) choose a tier, a beta, a route or how much is reasoned.
    """

    api: str
    path: str | None = None
    query: bytes = b""
    version: bytes | None = None
    headers: Selected = ()
    fields: Selected = ()
    streamed: bool = False

    @property
    def shape(self) -> Way:
        """The way without what nobody chooses for itself: an SDK's version, and streaming."""
        return replace(self, version=None, streamed=False)


@lru_cache(maxsize=1024)
def _way(
    api: str,
    path: bytes,
    query: bytes,
    version: bytes | None,
    head: Selected,
    body: Selected,
    streamed: bool,
) -> Way:
    asked_for = _QUERY.search(query)
    return Way(
        api=plain_api(api),
        path=plain_path(path.decode("latin-1")) if len(path) <= _LONGEST else None,
        query=asked_for[1] if asked_for else b"",
        version=version if version in ANTHROPIC_VERSIONS else None,
        headers=tuple(x for x in head if x[0] not in _KEPT_APART and len(x[1]) <= _LONGEST),
        fields=tuple(x for x in body if len(x[1]) <= _LONGEST),
        streamed=streamed,
    )


_Users = OrderedDict[Way, OrderedDict[str, None]]  # the rollouts that asked by each way
_NONE: _Users = OrderedDict()


class Ways:
    """Knows the ways in which rollouts asked, and those of calls that failed."""

    __slots__ = ("_failed", "_seen", "_used")

    def __init__(self) -> None:
        self._failed: OrderedDict[str, Way] = OrderedDict()
        self._used: OrderedDict[tuple[str, str | None], _Users] = OrderedDict()
        self._seen: set[Hashable] = set()  # of calls that are noted, and need not be again

    def note(
        self,
        exchange: Exchange,
        target: Target,
        headers: Pairs,
        head: Selected,
        body: Selected,
    ) -> None:
        """Note a call that has ended.

        Arguments:
            headers: its own.
            head: what they and its query choose.
            body: what its body chooses.
        """
        if exchange.kind is not Kind.INFERENCE or exchange.method != "POST" or exchange.injected:
            return
        asked = (
            exchange.api, target.path, target.query, first(headers, _VERSION_HEADER), head, body,
            bool(exchange.streamed),
        )  # fmt: skip
        read = exchange.answer_state is AnswerState.READ
        seen = exchange.rollout_id, exchange.upstream, exchange.model, asked
        if read and seen in self._seen:
            return
        way = _way(*asked)
        if not read:
            _put(self._failed, exchange.id, way, _FAILED)
        lane = exchange.upstream, canonical(exchange.model)
        ways = self._used.get(lane) or OrderedDict()
        rollouts = ways.get(way.shape) or OrderedDict()
        forgotten = (
            _put(rollouts, exchange.rollout_id, None, _ROLLOUTS),
            _put(ways, way.shape, rollouts, _WAYS),
            _put(self._used, lane, ways, _LANES),
        )
        if any(forgotten) or len(self._seen) >= _SEEN:
            self._seen.clear()
        self._seen.add(seen)

    def of(self, exchange: Exchange) -> Way:
        """Return the way in which a failed call asked; of one that nobody noted, its API's."""
        streamed = bool(exchange.streamed)
        return self._failed.get(exchange.id) or Way(plain_api(exchange.api), streamed=streamed)

    def of_rollouts(
        self, upstream: str, model: str | None, rollouts: Collection[str]
    ) -> dict[Way, list[str]]:
        """Return which of these rollouts asked a model by each way."""
        ways = self._used.get((upstream, canonical(model)), _NONE)
        found = {way: [x for x in rollouts if x in ids] for way, ids in ways.items()}
        return {way: of for way, of in found.items() if of}

    def last_used(self, upstream: str, model: str) -> Way | None:
        """Return the way by which a model was asked last; None: by nobody that is remembered."""
        return next(reversed(self._used.get((upstream, canonical(model)), _NONE)), None)


def _put(kept: OrderedDict[Any, Any], key: object, value: object, limit: int) -> bool:
    """Keep a value as the last one, and no more than so many; return True if one was dropped."""
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) <= limit:
        return False
    kept.popitem(last=False)
    return True
