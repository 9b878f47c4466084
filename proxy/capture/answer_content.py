"""The content of an answer, kept as a salted digest and as the failure a short text reports.

Its text and tool calls are examined as the call ends, then discarded. A whole body is read, and a
stream whose every event had to be read: a stream of many events is skimmed once its output began
(`ResponseReader.skim`), and what it said is unknown. OpenAI's Responses API repeats all of it
at the end of a stream.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

from classifier.error_texts import reads_as
from classifier.verdicts import Subcategory
from proxy.capture.request import CapturedRequest
from proxy.wire import libraries
from proxy.wire.dialect import Payload, ResponseFacts
from proxy.wire.response import ResponseReader

AnswerContent = tuple[str | None, Subcategory | None]  # the digest, and what the text reads as
NOTHING: AnswerContent = (None, None)

WORD = 24  # characters; what is shorter and has no blank is a word
_ARGUMENTS = ("arguments", "input", "args", "parameters")  # of a call, beside its name
_PIECES = ("arguments", "partial_json")  # of a call's arguments, in a stream
_NO_CALLS = frozenset(("logprobs", "logprobsResult", "usage", "usageMetadata", "tools", "timings"))
_DEPTH = 10  # of objects and lists in an answer


@lru_cache(maxsize=8)
def keyed_hash(salt: bytes) -> Callable[[bytes], Any]:
    """Return the digest's function under a service's secret.

    It is to be given the rollout's id and a line feed before what was said, so that equal answers
    in two rollouts have nothing in common.
    """
    return partial(hashlib.blake2b, digest_size=16, key=salt[:64])


def content_of(
    request: CapturedRequest, response: ResponseReader, reading: ResponseFacts, size: int
) -> AnswerContent:
    """Return what is kept of an answer in which output was read.

    Arguments:
        size: bytes of the response's body.
    """
    try:
        payloads = response.whole_payloads(size)
        if not payloads:
            return NOTHING
        if reading.calls:
            called = [piece for payload, _ in payloads for piece in _calls(payload, 0)]
            return _digest("\n".join(called), request), None
        text_of = response.payloads.dialect.text
        text = "".join([text_of(*each) for each in payloads])
        many = " " in text or len(text) >= WORD
        return _digest(text, request) if many else None, reads_as(text)
    except Exception:  # the rest of the record is made all the same
        return NOTHING


def _digest(content: str, request: CapturedRequest) -> str | None:
    if not content:
        return None
    data = f"{request.call.rollout_id}\n{content}".encode("utf-8", "replace")
    digest: str = keyed_hash(request.salt)(data).hexdigest()
    return digest


def _calls(value: object, depth: int) -> Iterator[str]:
    """Yield names and arguments of the tool calls in a payload, in the shapes of all dialects."""
    if depth > _DEPTH:
        return
    if isinstance(value, list):
        for item in value:
            yield from _calls(item, depth + 1)
    elif isinstance(value, dict):
        yield from _call(value)
        for key, item in value.items():
            if key not in _NO_CALLS and isinstance(item, dict | list):
                yield from _calls(item, depth + 1)


def _call(holder: Payload) -> Iterator[str]:
    name = holder.get("name")
    if isinstance(name, str) and name:
        yield name
        yield from (_written(holder[key]) for key in _ARGUMENTS if holder.get(key))
    else:
        yield from (piece for key in _PIECES if isinstance(piece := holder.get(key), str))


def _written(arguments: object) -> str:
    if isinstance(arguments, str):
        return arguments
    return libraries.sorted_dumps(arguments).decode()
