"""Read a provider's error out of a payload of any shape, and how long it asks to wait.

``classifier.causes`` decides what it means. An echo of the request is never read.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import islice
from typing import Final, TypeGuard

from classifier.records import ProviderError
from proxy.wire.dialect import Headers

# --- places of error objects in the bodies of each API -----------------------------------------


MESSAGE_CAP: Final = 2_000  # characters
ITEMS: Final = 16  # of any list
CODE_KEYS: Final = ("code", "error_code", "errorCode", "err_code")
TYPE_KEYS: Final = ("type", "error_type", "errorType", "exception")
MESSAGE_KEYS: Final = (
    "message", "Message", "msg", "error_msg", "errorMessage", "error_message", "status_msg",
    "error_description", "detail", "title", "description",
)  # fmt: skip
# A body with one of these is a response, so that a lone ``message`` in it is no error.
_ANSWER_KEYS: Final = frozenset((
    "choices", "candidates", "output", "content", "data", "usage", "usageMetadata", "embeddings",
    "text", "results", "result", "response", "models", "input_tokens", "totalTokens",
))  # fmt: skip
_SUCCESS: Final = frozenset((0, 200, "0", "200", "success", "Success", "OK", "ok"))
# Finish reasons of Cohere and OpenRouter.
_UNFINISHED: Final = frozenset(("ERROR", "TIMEOUT", "error"))
_BESIDE_RESPONSE: Final = ("code", "message", "error_type")  # its status is the response's
_BESIDE: Final = (*_BESIDE_RESPONSE, "status")
_LEVELS: Final = 8  # of objects in objects, until nothing was found that has content
_MEMBERS: Final = 64  # of an object


def error_nodes(body: Mapping[str, object], event: str | None) -> Iterator[object]:
    """Yield the parts of a body that describe an error, innermost first."""
    for place in _PLACES:
        nodes = list(place(body, event))
        if nodes:
            yield from nodes
            return


def _at_error(body: Mapping[str, object], _event: str | None) -> Iterator[object]:
    error = body.get("error")
    if error is True or isinstance(error, str):
        if error:
            yield dict(body)
    elif substantial(error):
        yield error
        beside = _BESIDE_RESPONSE if body.get("object") == "response" else _BESIDE
        yield {k: body[k] for k in beside if k in body}


_RESPONSES: Final = ("response", "realtime.response")


def _at_failed_response(body: Mapping[str, object], event: str | None) -> Iterator[object]:
    """Responses API: ``response.failed`` carries ``response.error``, which may be null.

    Realtime: ``response.done`` carries ``response.status_details.error``
    (openai-python, types/realtime/realtime_response_status.py).
    """
    kind = body.get("type") or event
    inner = body.get("response")
    response = inner if isinstance(inner, dict) else body
    details = response.get("status_details")
    detailed = details.get("error") if isinstance(details, dict) else None
    if isinstance(error := response.get("error") or detailed, dict) and substantial(error):
        yield error
    elif kind == "response.failed" or (
        response.get("object") in _RESPONSES and response.get("status") == "failed"
    ):
        yield {"type": "response.failed"}


def _at_choice(body: Mapping[str, object], _event: str | None) -> Iterator[object]:
    """OpenRouter: ``native_finish_reason`` is the provider's own word for its "error"."""
    choices = body.get("choices")
    for choice in choices[:ITEMS] if isinstance(choices, list) else ():
        if isinstance(choice, dict) and substantial(choice.get("error")):
            yield choice["error"]
        elif isinstance(choice, dict) and choice.get("finish_reason") == "error":
            native = choice.get("native_finish_reason")
            yield {"type": "finish_reason.error", "reason": None if native == "error" else native}


def _at_cohere_end(body: Mapping[str, object], _event: str | None) -> Iterator[object]:
    """Cohere v2 ``message-end``: ``delta.error``, or a finish reason that states a failure."""
    delta = body.get("delta")
    end = delta if isinstance(delta, dict) and body.get("type") == "message-end" else body
    if isinstance(text := end.get("error"), str) and text:
        yield {"message": text}
    reason = end.get("finish_reason")
    if isinstance(reason, str) and reason in _UNFINISHED:
        yield {"type": f"finish_reason.{reason.lower()}"}


def _at_base_resp(body: Mapping[str, object], _event: str | None) -> Iterator[object]:
    """MiniMax: ``base_resp.status_code`` 0 is success, anything else an error code."""
    base = body.get("base_resp")
    code = base.get("status_code") if isinstance(base, dict) else None
    if isinstance(base, dict) and code not in (None, 0, "0"):
        yield {"reason": f"base_resp.{code}", "message": base.get("status_msg")}


def _at_errors(body: Mapping[str, object], _event: str | None) -> Iterator[object]:
    """Cloudflare's envelope: ``success: false`` and numbered errors."""
    errors = body.get("errors")
    for item in errors[:ITEMS] if isinstance(errors, list) else ():
        if isinstance(item, dict) and isinstance(item.get("code"), int):
            yield {"reason": f"errors.{item['code']}", "message": item.get("message")}
        elif substantial(item):
            yield item


def _at_exception(body: Mapping[str, object], event: str | None) -> Iterator[object]:
    """AWS: an exception named by the event, by ``__type``, or by the only key."""
    output = body.get("Output")
    typed = output if isinstance(output, dict) else body
    if isinstance(name := typed.get("__type"), str):
        yield {"type": bare_exception(name)}
        yield _without_type(body)
    elif event is not None and is_exception(event):
        yield {"type": event}
        yield _without_type(body)
    elif len(body) == 1 and is_exception(only := next(iter(body))):
        yield {"type": only}
        yield body[only]


def _at_top(body: Mapping[str, object], event: str | None) -> Iterator[object]:
    """Take the body as the error: ``message`` (AWS, Cohere, Mistral), ``detail`` (FastAPI)."""
    named = event == "error" or "error" in (body.get("type"), body.get("object"))
    answers = any(body[key] is not None for key in _ANSWER_KEYS & body.keys())
    if named or (not answers and not _states_success(body) and _has_message(body)):
        yield body


_PLACES: Final[tuple[Callable[[Mapping[str, object], str | None], Iterator[object]], ...]] = (
    _at_error,
    _at_failed_response,
    _at_choice,
    _at_base_resp,
    _at_errors,
    _at_exception,
    _at_cohere_end,
    _at_top,
)


def _states_success(body: Mapping[str, object]) -> bool:
    code = body.get("code")
    success = isinstance(code, int | str) and code in _SUCCESS
    return body.get("success") is True or (success and body.get("success") is not False)


def _has_message(body: Mapping[str, object]) -> bool:
    messages = (body.get(key) for key in ("message", "Message", "detail", "msg", "error_msg"))
    return any(isinstance(s, str | list) and s for s in messages) or (
        isinstance(body.get("detail"), dict) or body.get("success") is False
    )


def substantial(value: object, levels: int = _LEVELS) -> bool:
    """Whether an ``error`` field has content: ``{"code": null, "message": ""}`` does not.

    What lies deeper than so many levels is not looked for.
    """
    if not isinstance(value, dict | list):
        return bool(value)
    if levels == 0:
        return False
    inside = value[:ITEMS] if isinstance(value, list) else islice(value.values(), _MEMBERS)
    return any(substantial(item, levels - 1) for item in inside)


def is_exception(name: str | None) -> TypeGuard[str]:
    """Whether a name is an exception class, as AWS states errors."""
    return name is not None and name.lower().endswith("exception")


def bare_exception(name: str) -> str:
    """Cut ``com.amazon.coral.service#AccessDeniedException:http://…`` to the name."""
    return name.split(":", 1)[0].rsplit("#", 1)[-1].strip()


def _without_type(body: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in body.items() if key not in ("__type", "type", "Output")}


def text_of(payload: object) -> str | None:
    """Return a message as bounded text; None where it is empty or no string."""
    return payload.strip()[:MESSAGE_CAP] or None if isinstance(payload, str) else None


# --- waits: Retry-After and the vendors' reset headers -----------------------------------------


LONGEST_S: Final = 366 * 86_400.0  # no allotment takes more than a year to come back
_WAITS: Final = frozenset((b"retry-after", b"retry-after-ms"))
_UNITS: Final[Mapping[str, float]] = {
    "d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0,
    "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9,
}  # fmt: skip
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|μs|ns|d|h|m|s)")
_RESET: Final = re.compile(r"ratelimit(?:bysize)?-(?:.*-)?reset(?:-|$)|ratelimit-unified-reset$")
_EPOCH_S: Final = 1e9  # smaller numbers are waits, from here on points in time
_EPOCH_MS: Final = 1e11


def retry_after(headers: Headers, *, now: float) -> float | None:
    """Return how long to wait, in seconds, from 0 to `LONGEST_S`; None where no header states it.

    ``retry-after-ms`` and ``retry-after`` come first. Otherwise the longest reset among the
    rate-limit windows that are used up: a window whose ``…-remaining`` header is above
    zero is not what stopped the call. Names are lower-case, ``now`` is epoch seconds.

    Sources: openai-python ``_base_client.py`` (retry-after-ms, HTTP-date),
    platform.openai.com/docs/guides/rate-limits (Go durations), console.groq.com,
    docs.claude.com/en/api/rate-limits (RFC 3339), openrouter.ai/docs/limits (epoch ms).
    """
    stated = {
        name.decode("latin-1"): value.decode("latin-1").strip()
        for name, value in headers
        if b"ratelimit" in name or name in _WAITS
    }
    if not stated:
        return None
    if (ms := _number(stated.get("retry-after-ms"))) is not None:
        return plausible_wait(ms / 1000)
    if (wait := _moment(stated.get("retry-after"), now)) is not None:
        return wait
    waits = [_moment(v, now) for k, v in stated.items() if _RESET.search(k) and _used_up(k, stated)]
    return max((w for w in waits if w is not None), default=None)


def _used_up(name: str, stated: Mapping[str, str]) -> bool:
    remaining = _number(stated.get(name.replace("reset", "remaining")))
    return remaining is None or remaining <= 0


def _moment(value: str | None, now: float) -> float | None:
    """Return the seconds until what a header states: a wait, a duration, a date, an epoch."""
    if not value:
        return None
    if (number := _number(value)) is not None:
        return _from_number(number, now)
    if (wait := parse_duration(value)) is not None:
        return wait
    at = _date(value)
    return None if at is None else plausible_wait(at - now)


def _from_number(number: float, now: float) -> float | None:
    if number >= _EPOCH_MS:
        return plausible_wait(number / 1000 - now)
    return plausible_wait(number - now if number >= _EPOCH_S else number)


def _number(value: str | None) -> float | None:
    if value is None or not re.fullmatch(r"\d{1,18}(?:\.\d{1,18})?", value, re.ASCII):
        return None
    return float(value)


def parse_duration(value: str) -> float | None:
    """Parse a Go duration (``6m0s``, ``20ms``) or plain seconds."""
    text = value.strip()
    if (number := _number(text)) is not None:
        return plausible_wait(number)
    parts = _PART.findall(text)
    if not parts or "".join(a + b for a, b in parts) != text:
        return None
    return plausible_wait(sum(float(amount) * _UNITS[unit] for amount, unit in parts))


def _date(value: str) -> float | None:
    """Return epoch seconds of an RFC 3339 or HTTP date; a date without a zone is UTC."""
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = parse(value)
            zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return zoned.timestamp()
        except (ValueError, TypeError, OverflowError, IndexError):
            continue
    return None


def plausible_wait(seconds: float) -> float | None:
    """Return a wait in seconds, from 0 to `LONGEST_S`; None where it is not finite."""
    return min(max(0.0, seconds), LONGEST_S) if math.isfinite(seconds) else None


# --- the error ---------------------------------------------------------------------------------


_NAME: Final = re.compile(r"[^\s]{1,120}")  # a code or type has no blanks; a sentence does
_DEPTH: Final = 6  # errors wrapped in errors: gateways nest two or three deep
_NODES: Final = 256  # objects, lists and texts that are looked into

_STATUS_KEYS: Final = (
    "status", "status_code", "statusCode", "StatusCode", "http_status_code", "http_status",
    "originalStatusCode",
)  # fmt: skip
_WAIT_KEYS: Final = ("retryDelay", "retry_after", "retry_after_s", "retryAfter",
                     "retry_after_seconds")  # fmt: skip
_WRAPS: Final = ("error", "errors", "message", "detail", "raw")  # a whole error may sit inside
_QUALIFIES: Final = ("innererror", "inner_error", "innerError", "details", "metadata")
_METADATA_NAMES: Final = (
    "reason", "error_type", "error_code", "provider_code", "limit_source",
    "quotaId", "quotaMetric", "quota_limit", "quota_metric", "quota_unit",
)  # fmt: skip


@dataclass(slots=True)
class _ErrorFacts:
    """What has been read so far; the innermost error comes first."""

    code: str | None = None
    type: str | None = None
    param: str | None = None
    status: int | None = None
    retry_after_s: float | None = None
    messages: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    nodes_left: int = _NODES

    def add_message(self, text: str) -> None:
        text = text.strip()[:MESSAGE_CAP]
        if text and text not in self.messages:
            self.messages.append(text)

    def add_reason(self, name: str) -> None:
        if name and name not in self.reasons and name not in (self.code, self.type):
            self.reasons.append(name)

    def add_code(self, value: object) -> None:
        """Take a code: an HTTP status, a token, or (xAI) a sentence."""
        if (status := _status(value)) is not None:
            self.status = self.status or status
        elif isinstance(value, int) and not isinstance(value, bool):
            self._first("code", str(value))
        elif isinstance(value, str) and _NAME.fullmatch(value):
            self._first("code", value)
        elif isinstance(value, str):
            self.add_message(value)

    def add_type(self, value: object) -> None:
        if isinstance(value, str) and value not in ("error", "") and _NAME.fullmatch(value):
            self._first("type", value)

    def _first(self, slot: str, value: str) -> None:
        if getattr(self, slot) is None:
            setattr(self, slot, value)
        else:
            self.add_reason(value)

    def any(self) -> bool:
        return bool(self.code or self.type or self.messages or self.reasons or self.status)

    def error(self) -> ProviderError:
        return ProviderError(
            code=self.code,
            type=self.type,
            message="\n".join(self.messages)[:MESSAGE_CAP] or None,
            param=self.param,
            reasons=tuple(r for r in self.reasons if r not in (self.code, self.type)),
            status=self.status,
            retry_after_s=self.retry_after_s,
        )


def read_error(payload: object, *, event: str | None = None) -> ProviderError | None:
    """Read the error out of a parsed JSON value, or None when it holds none.

    Args:
        payload: any JSON value: a whole body, one stream event's data, a list of them
            (Gemini without ``alt=sse``).
        event: the event's own name, where the framing carries one (SSE ``event:``, AWS
            ``:exception-type``). An exception's name makes any payload an error.

    Shapes: openai-python ``APIError.body``, docs.claude.com/en/api/errors, Google
    ``google.rpc.Status``, botocore ``service-2.json``, openrouter.ai/docs/errors,
    docs.mistral.ai, docs.cohere.com, platform.minimax.io errorcode, FastAPI
    ``HTTPException``, developers.cloudflare.com/workers-ai/platform/errors.
    """
    for body in _bodies(payload):
        facts = _ErrorFacts()
        for node in error_nodes(body, event):
            _gather(node, facts, _DEPTH)
        if facts.any():
            return facts.error()
    if is_exception(event):
        return ProviderError(type=event, message=text_of(payload))
    if event == "error" and (message := text_of(payload)):
        return ProviderError(message=message)
    return None


def read_text_error(text: str) -> ProviderError | None:
    """Take a short plain-text error body as the message; None for HTML or nothing."""
    message = text.strip()[:MESSAGE_CAP]
    return ProviderError(message=message) if message and not message.startswith("<") else None


# -- bodies --------------------------------------------------------------------------


def _bodies(payload: object) -> Iterator[Mapping[str, object]]:
    if isinstance(payload, list):
        yield from (item for item in payload[:ITEMS] if isinstance(item, dict))
    elif isinstance(payload, dict):
        yield payload


# -- its parts -------------------------------------------------------------------------


def _gather(node: object, facts: _ErrorFacts, depth: int) -> None:
    if depth == 0 or facts.nodes_left == 0:
        return
    facts.nodes_left -= 1
    if isinstance(node, str):
        _gather_text(node, facts, depth)
    elif isinstance(node, list):
        for item in node[:ITEMS]:
            _gather(item, facts, depth - 1)
    elif isinstance(node, dict):
        _gather_object(node, facts, depth)


def _gather_text(text: str, facts: _ErrorFacts, depth: int) -> None:
    """Gather a sentence, or an error body inside a string (OpenRouter ``raw``, gateways)."""
    inner = _json(text)
    nodes = [n for body in _bodies(inner) for n in error_nodes(body, None)]
    for node in nodes:
        _gather(node, facts, depth - 1)
    if not nodes:
        facts.add_message(text)


def _gather_object(node: Mapping[str, object], facts: _ErrorFacts, depth: int) -> None:
    for key in _WRAPS:
        if isinstance(node.get(key), dict | list):
            _gather(node[key], facts, depth - 1)
    if isinstance(node.get("metadata"), dict):
        _gather_wrapped_metadata(node["metadata"], facts, depth)
    _gather_names(node, facts)
    _gather_numbers(node, facts)
    _gather_messages(node, facts, depth)
    for key in _QUALIFIES:
        _qualify(node.get(key), facts, depth - 1)


def _gather_wrapped_metadata(metadata: object, facts: _ErrorFacts, depth: int) -> None:
    """OpenRouter: the provider's own body rides in ``metadata.raw``."""
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    if substantial(raw):
        _gather(raw, facts, depth - 1)


def _gather_names(node: Mapping[str, object], facts: _ErrorFacts) -> None:
    for key in CODE_KEYS:
        facts.add_code(node.get(key))
    for key in TYPE_KEYS:
        facts.add_type(node.get(key))
    if isinstance(kind := node.get("__type"), str):
        facts.add_type(bare_exception(kind))
    if isinstance(reason := node.get("reason"), str) and _NAME.fullmatch(reason):
        facts.add_reason(reason)
    if isinstance(status := node.get("status"), str) and _NAME.fullmatch(status):
        facts.add_reason("" if _status(status) or status == "error" else status)
    param = node.get("param")
    facts.param = facts.param or (param if isinstance(param, str) else None) or _location(node)


def _gather_numbers(node: Mapping[str, object], facts: _ErrorFacts) -> None:
    for key in _STATUS_KEYS:
        facts.status = facts.status or _status(node.get(key))
    for key in _WAIT_KEYS:
        if facts.retry_after_s is None:
            facts.retry_after_s = _body_wait(node.get(key))


def _gather_messages(node: Mapping[str, object], facts: _ErrorFacts, depth: int) -> None:
    for key in MESSAGE_KEYS:
        if isinstance(text := node.get(key), str):
            _gather_text(text, facts, depth)
    if isinstance(text := node.get("error"), str):
        has_sentence = any(isinstance(node.get(k), str) for k in ("message", "detail"))
        if has_sentence:  # {"error": "not_found", "message": "…"}: the first is a name
            facts.add_code(text)
        else:
            _gather_text(text, facts, depth)


def _qualify(node: object, facts: _ErrorFacts, depth: int) -> None:
    """Gather names around an error: Google ``details``, Azure ``innererror``, metadata."""
    if depth <= 0 or facts.nodes_left == 0:
        return
    facts.nodes_left -= 1
    if isinstance(node, str):
        facts.add_message(node)
    elif isinstance(node, list):
        for item in node[:ITEMS]:
            if isinstance(item, dict):
                _qualify(item, facts, depth - 1)
    elif isinstance(node, dict):
        _qualify_object(node, facts, depth)


def _qualify_object(node: Mapping[str, object], facts: _ErrorFacts, depth: int) -> None:
    for key in (*_METADATA_NAMES, "code", "type"):
        if isinstance(name := node.get(key), str) and _NAME.fullmatch(name):
            facts.add_reason(name)
    if str(node.get("quota_limit_value", node.get("quotaValue"))) == "0":
        facts.add_reason("quota_limit_value.0")
    if isinstance(node.get("@type"), str):  # google.rpc.DebugInfo, LocalizedMessage
        for text in (node.get("detail"), node.get("message")):
            facts.add_message(text if isinstance(text, str) else "")
    if "flagged_input" in node:  # presence only: it quotes the prompt
        facts.add_reason("moderation")
    _gather_numbers({k: v for k, v in node.items() if k != "status"}, facts)
    for key in ("violations", "metadata", *_QUALIFIES[:3]):
        _qualify(node.get(key) if not isinstance(node.get(key), str) else None, facts, depth - 1)


# -- values ------------------------------------------------------------------------------


def _status(value: object) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"[45]\d\d", value):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599:
        return value
    return None


def _location(node: Mapping[str, object]) -> str | None:
    """Return the field that FastAPI names in ``loc``: ``["body", "messages", 0]``."""
    where = node.get("loc")
    names = [w for w in where if isinstance(w, str)] if isinstance(where, list) else []
    return names[-1] if names else None


def _json(text: str) -> object:
    """Return the JSON value in a string, or None; a long text is no wrapped error."""
    text = text.strip()
    if not text.startswith(("{", "[")) or len(text) > 64 * 1024:
        return None
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value


def _body_wait(value: object) -> float | None:
    """Return seconds from ``"15s"``, ``15``, ``"15"`` or ``{"seconds": 15}``."""
    if isinstance(value, dict):
        return _body_wait(value.get("seconds"))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return plausible_wait(min(value, LONGEST_S))  # a float cannot hold every whole number
    return parse_duration(value) if isinstance(value, str) else None


# -- headers -----------------------------------------------------------------------------


def stated_type(headers: Headers) -> str | None:
    """Return the exception in ``x-amzn-errortype``, without namespace and link (botocore)."""
    for name, value in headers:
        if name == b"x-amzn-errortype":
            return bare_exception(value.decode("latin-1")) or None
    return None
