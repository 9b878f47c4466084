"""What the writers of all wire formats share: what they are told, what they give, ids, pieces."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from tests.healthy.conversation import Ask
from tests.healthy.counting import Counts
from tests.healthy.lanes import Lane, Name
from tests.healthy.traffic import Json, Meant, Pairs
from tests.proxy.wire.samples import sse

JSON = "application/json"
SSE = "text/event-stream"
NDJSON = "application/x-ndjson"
EVENTS = "application/vnd.amazon.eventstream"
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What goes with one question at one lane.

    ``previous`` is the id of the response that this one continues, ``since`` the number of
    messages that the provider has of it.
    """

    rng: Random
    lane: Lane
    name: Name
    counts: Counts
    created: int
    session: str
    previous: str | None = None
    since: int = 0
    response_id: str = ""


@dataclass(slots=True, kw_only=True)
class Written:
    """One call as a writer gives it; ``events`` are pieces of a stream or of one body."""

    path: str
    query: str = ""
    request_headers: Pairs = ()
    body: Json
    type: str = JSON
    response_headers: Pairs = ()
    events: list[bytes] = field(default_factory=list)
    meant: Meant | None = None


def ident(rng: Random, prefix: str, length: int = 24) -> str:
    return prefix + "".join(rng.choices(_LETTERS, k=length))


def uuid(rng: Random) -> str:
    digits = rng.randbytes(16).hex()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def pieces(rng: Random, text: str) -> list[str]:
    """Cut a text as a stream does, coarser the longer it is."""
    if not text:
        return []
    width = max(6, len(text) // 30)
    result: list[str] = []
    at = 0
    while at < len(text):
        end = at + rng.randrange(max(2, width // 2), width * 2)
        result.append(text[at:end])
        at = end
    return result


def data(payload: object) -> bytes:
    return sse(payload, done=False)


def meant(counts: Counts) -> Meant:
    return Meant(input=counts.input, output=counts.output, cached=counts.cached)


def options(ask: Ask, *, limit: str, stop: str) -> Json:
    """Return what an ask sets of its output's limit, temperature and end, as a dialect names it."""
    asked = {limit: ask.max_tokens, "temperature": ask.temperature, stop: list(ask.stop) or None}
    return {name: value for name, value in asked.items() if value is not None}


def stainless(language: str, package: str, retry: int = 0) -> Pairs:
    """Headers of the SDKs that Stainless generates."""
    return (
        ("accept", JSON),
        ("accept-encoding", "gzip, deflate"),
        ("content-type", JSON),
        ("user-agent", package),
        ("x-stainless-lang", language),
        ("x-stainless-os", "Linux"),
        ("x-stainless-retry-count", str(retry)),
        ("x-stainless-read-timeout", "600"),
    )
