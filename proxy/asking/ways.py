"""The request forms ("ways") of calls, and which rollouts used each.

A way has only what is on an allow-list: API, path, version, tier and flags, never a value that may
hold a text or a key. Every process stores the ways that it sees; questions use all stored ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Collection, Hashable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache

import orjson

from classifier.logical_calls import canonical
from classifier.records import AnswerState, Exchange, Kind
from proxy.routing.headers import Pairs, first
from proxy.routing.target import Target
from proxy.store.errors import StoreError
from proxy.store.references import AskedWay, References
from proxy.wire.dialect import are_words
from proxy.wire.request import ANTHROPIC_VERSIONS, Selected
from proxy.wire.routes import may_be_stored

log = logging.getLogger("truezero")

NAME = "\x00"
"""Stands in a path for the model's name."""

_SEEN = 8192
_WAITING = 8192  # calls that wait for the database, at most
_SOON_S = 0.2
_VERSION_HEADER = b"anthropic-version"
_KEPT_APART = frozenset(("anthropic-version", "api-version"))
# Azure's versions: a day, one to come, or a word.
_VERSIONS = rb"\d{4}-\d\d-\d\d(?:-preview)?|v\d|preview|latest"
_QUERY = re.compile(rb"(?:^|&)(api-version=(?:%b))(?:&|$)" % _VERSIONS, re.IGNORECASE)


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
    """Return the API of a question about a call: the one that does not stream."""
    return NOT_STREAMED.get(api, api)


def plain_path(path: str) -> str:
    """Return the path of a question about a call: not streamed, `NAME` for the model's name."""
    for streaming, plain in _STREAMING:
        if path.endswith(streaming):
            path = path.removesuffix(streaming) + plain
            break
    named = _NAMED.fullmatch(path)
    return path if named is None else f"{named['before']}{NAME}{named['after']}"


@dataclass(frozen=True, slots=True)
class Way:
    """The request form of a call or a question.

    ``path`` is raw, with `NAME` for the model's name; None is the API's usual path. ``query`` is
    the API version in the query string, ``version`` an ``anthropic-version`` that the provider's
    SDKs send. ``headers`` and ``fields`` (JSON, in the body) choose a tier, a beta, a route or a
    reasoning effort.
    """

    api: str
    path: str | None = None
    query: bytes = b""
    version: bytes | None = None
    headers: Selected = ()
    fields: Selected = ()
    streamed: bool = False

    @property
    def encoded(self) -> str:
        """The way as JSON, to be stored."""
        told = {name: value for name, value in asdict(self).items() if value}
        return orjson.dumps(told, default=bytes.decode).decode()

    @classmethod
    def decoded(cls, encoded: str) -> Way:
        """Decode a way from JSON."""
        told = orjson.loads(encoded)
        for name in {"query", "version"} & told.keys():
            told[name] = told[name].encode()
        for name in {"headers", "fields"} & told.keys():
            told[name] = tuple((each, value.encode()) for each, value in told[name])
        return cls(**told)

    @property
    def shape(self) -> Way:
        """The way without what an agent does not choose: its SDK's version, and streaming."""
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
    asked_at = path.decode("latin-1")
    return Way(
        api=plain_api(api),
        path=plain_path(asked_at) if are_words(asked_at) and may_be_stored(path) else None,
        query=asked_for[1] if asked_for else b"",
        version=version if version in ANTHROPIC_VERSIONS else None,
        headers=_storable(head),
        fields=_storable(body),
        streamed=streamed,
    )


def _storable(selected: Selected) -> Selected:
    return tuple(
        (name, value) for name, value in selected
        if name not in _KEPT_APART and are_words(value.decode("latin-1"))
    )  # fmt: skip


class Ways:
    """Stores the ways of calls, for all processes."""

    def __init__(self, references: References) -> None:
        self._references = references
        self._seen: set[Hashable] = set()  # of calls that are noted, and need not be again
        self._noted: list[AskedWay] = []
        self._storing: asyncio.Task[None] | None = None
        self._one_at_a_time = asyncio.Lock()

    def note(
        self,
        exchange: Exchange,
        target: Target,
        headers: Pairs,
        head: Selected,
        body: Selected,
    ) -> None:
        """Note a call that has ended; called in the event loop.

        Arguments:
            headers: of its request.
            head: the options that headers and query choose.
            body: the options that the body chooses.
        """
        if exchange.kind is not Kind.INFERENCE or exchange.method != "POST" or exchange.injected:
            return
        asked = (
            exchange.api, target.path, target.query, first(headers, _VERSION_HEADER), head, body,
            bool(exchange.streamed),
        )  # fmt: skip
        seen = exchange.rollout_id, exchange.upstream, exchange.model, asked
        read = exchange.answer_state is AnswerState.READ
        if (read and seen in self._seen) or len(self._noted) >= _WAITING:
            return
        if len(self._seen) >= _SEEN:
            self._seen.clear()
        self._seen.add(seen)
        self._noted.append(AskedWay(
            exchange.id, exchange.rollout_id, exchange.upstream, canonical(exchange.model) or "",
            exchange.timing.started_at, _way(*asked).encoded,
        ))  # fmt: skip
        if self._storing is None:
            self._storing = asyncio.create_task(self._store_soon())

    async def _store_soon(self) -> None:
        try:
            await asyncio.sleep(_SOON_S)  # the calls of many rollouts are stored together
            await self.store()
        except StoreError as error:
            log.warning("the ways of calls wait for the database: %s", error.kind)
        finally:
            self._storing = None

    async def store(self) -> None:
        """Store the ways noted so far, so that questions see them.

        Raises:
            StoreError: the database is unavailable; they are kept for the next time.
        """
        async with self._one_at_a_time:
            noted, self._noted = self._noted, []
            try:
                if noted:
                    await asyncio.to_thread(self._references.note_ways, noted)
            except StoreError:
                self._noted = noted + self._noted
                raise

    async def aclose(self) -> None:
        """Store what is left, if the database is there."""
        if self._storing is not None:
            self._storing.cancel()
            await asyncio.gather(self._storing, return_exceptions=True)
        with contextlib.suppress(StoreError):
            await self.store()

    def of(self, exchange: Exchange) -> Way:
        """Return the way of a failed call; the plain one of its API if none was noted.

        To be called in a thread, like the methods below.
        """
        stored = self._references.way_of(exchange.id)
        if stored is None:
            return Way(plain_api(exchange.api), streamed=bool(exchange.streamed))
        return Way.decoded(stored)

    def of_rollouts(
        self, upstream: str, model: str | None, rollouts: Collection[str]
    ) -> dict[Way, set[str]]:
        """Return which of these rollouts asked a model, by way."""
        found: dict[Way, set[str]] = {}
        known = self._references.ways_to(upstream, canonical(model) or "", list(rollouts))
        for rollout, way in known:
            found.setdefault(Way.decoded(way).shape, set()).add(rollout)
        return found

    def last_used(self, upstream: str, model: str) -> Way | None:
        """Return the way of the last call to a model; None if none is stored."""
        known = self._references.ways_to(upstream, canonical(model) or "")
        return Way.decoded(known[0][1]).shape if known else None
