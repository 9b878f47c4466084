"""Make the calls of one rollout: questions become bytes at a lane, at moments of its clock."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

import brotli
import zstandard

from classifier.records import Ending
from tests.healthy import (
    bedrock,
    chat,
    cohere,
    completions,
    gemini,
    incidents,
    interactions,
    messages,
    ollama,
    probes,
    responses,
)
from tests.healthy.conversation import Ask, Prompt
from tests.healthy.counting import Counter, Counts
from tests.healthy.lanes import LANES, Lane, Name
from tests.healthy.timing import Clock, Span
from tests.healthy.traffic import HealthyCall, Json, Pairs
from tests.healthy.writing import JSON, Told, Written, meant, uuid
from tests.proxy.wire.samples import dump

WRITERS: Mapping[str, Callable[[Ask, Told], Written]] = {
    "chat": chat.write,
    "completions": completions.write,
    "responses": responses.write,
    "messages": messages.write,
    "gemini": gemini.write,
    "interactions": interactions.write,
    "converse": bedrock.write,
    "invoke": bedrock.write_invoke,
    "cohere": cohere.write,
    "ollama": ollama.write,
}
# The dialects whose answers are kept, and how one in the background is looked at.
_POLLS = {"responses": responses.poll, "interactions": interactions.poll}
_CACHES = ("messages", "converse", "invoke")  # which are told what to cache, and count it beside
_BY_KEY = {lane.key: lane for lane in LANES}
_KEPT_S = 300.0  # how long a provider keeps a prompt in its cache
_SOCKET_HEADERS: Pairs = (
    ("openai-beta", "responses_websockets=2026-02-06"),
    ("user-agent", "codex_cli_rs/0.169.0 (Ubuntu 24.4.0; x86_64) xterm"),
)


class Caller:
    """Make one rollout's calls, in the order of its questions.

    ``uncounted`` says that an answered call of the agent stated no tokens.
    """

    def __init__(self, rng: Random, lane: Lane, began: float) -> None:
        self._rng = rng
        self._lane = lane
        self._began = int(began)
        self._session = uuid(rng)
        self._counter = Counter(lane)
        self._clock = Clock(rng, local=lane.is_local)
        self._encode = rng.choice((dump, dump, _python, _go))
        self._compresses = rng.random() < 0.3
        self._caches = rng.random() < 0.8
        self._stored: list[tuple[Prompt, str]] = []
        self.calls: list[HealthyCall] = []
        self.counted: list[tuple[Ask, Counts]] = []
        if lane.flavour == "socket":
            self._connect()

    def make(self, ask: Ask) -> None:
        """Make the calls of one question: one, or more where something happened on the way."""
        if ask.elsewhere:
            self._elsewhere(ask, _BY_KEY[ask.elsewhere])
            return
        name = self._lane.side if ask.model == "side" and self._lane.side else self._lane.main
        told = self._told(ask, name)
        if ask.probe:
            self._probe(ask, told)
            return
        ask = _within(ask, told.counts)
        if ask.incident and self._lane.flavour not in ("socket", "background"):
            self._struck(ask, told)
            ask = replace(ask, beside=None, gap_s=self._rng.uniform(0.5, 4.0))
        if not ask.killed:
            self.counted.append((ask, told.counts))
        if self._lane.flavour == "socket":
            self._message(ask, told)
            return
        written = WRITERS[self._lane.dialect](ask, told)
        if ask.incident == "sdk_retries":
            written.request_headers = _retried(written.request_headers)
        span = self._clock.span(ask, told.counts, streamed=len(written.events) > 1)
        if self._lane.flavour == "background":
            span = replace(span, end_s=span.start_s + 0.4, first_byte_s=span.start_s + 0.38)
        self._add(ask, written, span)
        if ask.killed and self._lane.flavour != "background":
            self._kill()
        if self._lane.flavour == "background":
            self._poll(ask, told)

    def _elsewhere(self, ask: Ask, lane: Lane) -> None:
        own, counter = self._lane, self._counter
        self._lane, self._counter = lane, Counter(lane)
        self.make(replace(ask, elsewhere=None))
        self._lane, self._counter = own, counter

    # -- what a call is told -----------------------------------------------------------------

    def _told(self, ask: Ask, name: Name) -> Told:
        told = Told(
            rng=self._rng,
            lane=self._lane,
            name=name,
            counts=self._counts(ask, name),
            created=self._began,
            session=self._session,
        )
        if self._lane.dialect not in _POLLS:
            return told
        told = responses.with_id(told)
        if self._lane.flavour in ("continued", "socket") and not ask.incident:
            told = self._continued(ask, told)
            self._stored.append((ask.prompt, told.response_id))
        return told

    def _counts(self, ask: Ask, name: Name) -> Counts:
        counter, reply = self._counter, ask.reply
        total = max(counter.prompt(ask.prompt) - ask.cleared, 40) + ask.found
        thought = 0 if reply.thinking is None else reply.thinking.size
        said = "".join((reply.text, *reply.others))
        made = counter.text(said) + counter.uses(reply.uses) + thought
        made = made // 4 if ask.compacts else made
        made = min(made, 1) if ask.max_tokens == 1 else made + self._rng.randrange(1, 4)
        known = 0 if ask.probe or ask.cleared else counter.known(name.asked, ask.prompt)
        if ask.gap_s > _KEPT_S and not self._lane.is_local:
            known = 0
        cached, written = self._cached(min(known, total - ask.found - 1), total, ask.found)
        if ask.prompt.stored:
            cached = ask.prompt.stored
        return Counts(input=total, output=made, cached=cached, written=written, reasoning=thought)

    def _cached(self, known: int, total: int, found: int) -> tuple[int, int]:
        """Return what of a prompt was read from a cache, and what was written to it."""
        lane = self._lane
        if lane.flavour == "cached":  # a server of one's own: to the last token
            return known, 0
        if not self._caches or total - found < 1_024:
            return 0, 0
        if lane.dialect in _CACHES:
            if not lane.is_claude:  # other models than Anthropic's
                return 0, 0
            rest = self._rng.randrange(2, 9) + found
            return known, max(0, total - known - rest)
        return known // 128 * 128 if known >= 1_024 else 0, 0

    def _continued(self, ask: Ask, told: Told) -> Told:
        asked = ask.prompt.messages
        for prompt, response_id in reversed(self._stored):
            before = len(prompt.messages)
            if prompt.system != ask.prompt.system or before >= len(asked):
                continue
            if asked[:before] == prompt.messages and asked[before].role == "assistant":
                return replace(told, previous=response_id, since=before + 1)
        return told

    # -- ways of calling -----------------------------------------------------------------------

    def _add(self, ask: Ask, written: Written, span: Span, method: str = "POST") -> None:
        body = b"" if method == "GET" else self._encode(written.body)
        request_headers, response_headers = written.request_headers, written.response_headers
        if self._lane.flavour == "codex" and method == "POST":
            body = zstandard.ZstdCompressor(level=3).compress(body)
            request_headers += (("content-encoding", "zstd"),)
        chunks = self._chunks(written)
        if self._compresses and self._lane.dialect not in ("converse", "invoke"):
            coding = "br" if len(written.events) == 1 and self._began % 2 else "gzip"
            chunks = _compressed(chunks, coding)
            response_headers += (("content-encoding", coding),)
        self.calls.append(
            HealthyCall(
                upstream=self._lane.upstream,
                method=method,
                path=written.path,
                query=written.query,
                request_headers=request_headers,
                body=body,
                response_headers=(("content-type", written.type), *response_headers),
                chunks=tuple(chunks),
                start_s=span.start_s,
                first_byte_s=span.first_byte_s,
                end_s=span.end_s,
                role=ask.role,
                meant=written.meant,
            )
        )

    def _chunks(self, written: Written) -> list[bytes]:
        """Put events together and apart, as buffers on the way do."""
        rng, events = self._rng, written.events
        if len(events) == 1:
            whole = events[0]
            half = len(whole) // 2
            return [whole] if rng.random() < 0.7 else [whole[:half], whole[half:]]
        chunks: list[bytes] = []
        at = 0
        while at < len(events):
            take = rng.choice((1, 1, 1, 2, 3, 6))
            chunks.append(b"".join(events[at : at + take]))
            at += take
        if rng.random() < 0.2:  # a chunk that ends inside an event
            cut = rng.randrange(1, len(chunks[0]))
            chunks[:1] = [chunks[0][:cut], chunks[0][cut:]]
        return chunks

    def _probe(self, ask: Ask, told: Told) -> None:
        probe = probes.write(ask, told)
        if probe is not None:
            method, written = probe
            self._add(ask, written, self._clock.short(ask, 0.2), method)

    def _poll(self, ask: Ask, told: Told) -> None:
        """Look at a background response until it is there."""
        looks = self._rng.randrange(1, 4)
        for number in range(looks):
            written = _POLLS[self._lane.dialect](ask, told, done=number == looks - 1)
            self._add(ask, written, self._clock.short(replace(ask, gap_s=2.0), 0.15), "GET")

    def _kill(self) -> None:
        """End the last call in the middle of its answer, by its agent's end."""
        last = self.calls[-1]
        some = last.chunks[: max(1, len(last.chunks) // 2)]
        at = ((last.first_byte_s or last.start_s) + last.end_s) / 2
        self.calls[-1] = replace(
            last, chunks=some, end_s=at, ending=Ending.LEFT_BY_AGENT, meant=None
        )

    def _connect(self) -> None:
        path = f"{self._lane.base_path}/responses"
        self.calls.append(
            HealthyCall(
                upstream=self._lane.upstream,
                method="UPGRADE",
                path=path,
                status=101,
                request_headers=self._socket_headers(),
                start_s=0.0,
                first_byte_s=0.2,
                end_s=0.2,
            )
        )
        self._clock.pause(0.3)

    def _socket_headers(self) -> Pairs:
        token = ("authorization", f"Bearer sk-{self._session}")
        return (token, ("session_id", self._session), *_SOCKET_HEADERS)

    def _message(self, ask: Ask, told: Told) -> None:
        sent, events = responses.message(ask, told)
        span = self._clock.span(ask, told.counts, streamed=True)
        self.calls.append(
            HealthyCall(
                upstream=self._lane.upstream,
                method="WEBSOCKET",
                path=f"{self._lane.base_path}/responses",
                request_headers=self._socket_headers(),
                body=sent,
                chunks=tuple(events),
                start_s=span.start_s,
                first_byte_s=span.first_byte_s,
                end_s=span.end_s,
                role=ask.role,
                meant=meant(told.counts),
            )
        )
        if ask.killed:
            self._kill()

    def _struck(self, ask: Ask, told: Told) -> None:
        """Make the call that did not succeed; the one that does follows."""
        written = WRITERS[self._lane.dialect](ask, told)
        written.meant = None
        span = self._clock.span(ask, told.counts, streamed=True)
        self._add(ask, written, span)
        call = self.calls.pop()
        if ask.incident == "abandoned":
            some = call.chunks[: len(call.chunks) // 2]
            self.calls.append(replace(call, chunks=some, ending=Ending.LEFT_BY_AGENT))
        elif ask.incident == "reset":
            at = call.start_s + 0.3
            self.calls.append(
                replace(call, status=None, response_headers=(), chunks=(), first_byte_s=None,
                        end_s=at, ending=Ending.NEVER_CONNECTED)
            )  # fmt: skip
        else:
            status, headers, body = incidents.refused(self._lane, ask.incident or "")
            self.calls.append(
                replace(call, status=status, chunks=(body,), end_s=span.first_byte_s,
                        response_headers=(("content-type", JSON), *headers))
            )  # fmt: skip


def _python(body: Json) -> bytes:
    """Write JSON as Python's standard library does, and the clients that use it."""
    return json.dumps(body).encode()


def _go(body: Json) -> bytes:
    """Write JSON as Go's standard library does."""
    raw = dump(body)
    for mark in (b"&", b"<", b">"):
        raw = raw.replace(mark, b"\\u%04x" % mark[0])
    return raw


def _within(ask: Ask, counts: Counts) -> Ask:
    """Give an answer that is meant to be whole the room it takes."""
    limit = ask.max_tokens
    if limit is None or ask.reply.finish == "length" or counts.output < limit:
        return ask
    return replace(ask, max_tokens=counts.output + 1 + limit // 100)


def _retried(headers: Pairs) -> Pairs:
    return tuple((k, "1" if k == "x-stainless-retry-count" else v) for k, v in headers)


def _compressed(chunks: list[bytes], coding: str) -> list[bytes]:
    if coding == "br":
        return [brotli.compress(b"".join(chunks), quality=4)]
    if len(chunks) == 1:
        return [gzip.compress(chunks[0], 1, mtime=0)]
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    packed = [packer.compress(one) + packer.flush(zlib.Z_SYNC_FLUSH) for one in chunks]
    return [*packed[:-1], packed[-1] + packer.flush()]
