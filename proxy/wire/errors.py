"""What a provider's error says, in whichever of the many shapes it comes.

It judges nothing (``classifier.causes`` does), and never reads an echo of the request.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, TypeGuard

from classifier.records import ProviderError

MESSAGE_CAP: Final = 2_000  # characters
_NAME: Final = re.compile(r"[^\s]{1,120}")  # a code or type has no blanks; a sentence does
_DEPTH: Final = 6  # errors wrapped in errors: gateways nest two or three deep
_ITEMS: Final = 16  # of any list

_CODE_KEYS: Final = ("code", "error_code", "errorCode", "err_code")
_TYPE_KEYS: Final = ("type", "error_type", "errorType", "exception")
_MESSAGE_KEYS: Final = (
    "message", "Message", "msg", "error_msg", "errorMessage", "error_message", "status_msg",
    "error_description", "detail", "title", "description",
)  # fmt: skip
_STATUS_KEYS: Final = (
    "status", "status_code", "statusCode", "http_status_code", "http_status", "originalStatusCode",
)  # fmt: skip
_WAIT_KEYS: Final = ("retryDelay", "retry_after", "retry_after_s", "retryAfter",
                     "retry_after_seconds")  # fmt: skip
_WRAPS: Final = ("error", "errors", "message", "detail", "raw")  # a whole error may sit inside
_QUALIFIES: Final = ("innererror", "inner_error", "innerError", "details", "metadata")
_METADATA_NAMES: Final = (
    "reason", "error_type", "error_code", "provider_code", "limit_source",
    "quotaId", "quotaMetric", "quota_limit", "quota_metric", "quota_unit",
)  # fmt: skip
# A body with one of these is an answer, so that a lone ``message`` in it is no error.
_ANSWER_KEYS: Final = frozenset((
    "choices", "candidates", "output", "content", "data", "usage", "usageMetadata", "embeddings",
    "text", "results", "result", "response", "models", "input_tokens", "totalTokens",
))  # fmt: skip
_FINE: Final = frozenset((0, 200, "0", "200", "success", "Success", "OK", "ok"))
_UNFINISHED: Final = frozenset(
    ("ERROR", "TIMEOUT", "error")
)  # cohere and openrouter finish reasons


@dataclass(slots=True)
class _Found:
    """What has been read so far; the innermost error speaks first."""

    code: str | None = None
    type: str | None = None
    param: str | None = None
    status: int | None = None
    retry_after_s: float | None = None
    messages: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        text = text.strip()
        if text and text not in self.messages:
            self.messages.append(text)

    def reason(self, name: str) -> None:
        if name and name not in self.reasons and name not in (self.code, self.type):
            self.reasons.append(name)

    def name_code(self, value: object) -> None:
        """Take a code: an HTTP status, a token, or (xAI) a sentence."""
        if (status := _status(value)) is not None:
            self.status = self.status or status
        elif isinstance(value, int) and not isinstance(value, bool):
            self._first("code", str(value))
        elif isinstance(value, str) and _NAME.fullmatch(value):
            self._first("code", value)
        elif isinstance(value, str):
            self.say(value)

    def name_type(self, value: object) -> None:
        if isinstance(value, str) and value not in ("error", "") and _NAME.fullmatch(value):
            self._first("type", value)

    def _first(self, slot: str, value: str) -> None:
        if getattr(self, slot) is None:
            setattr(self, slot, value)
        else:
            self.reason(value)

    def told(self) -> bool:
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
        found = _Found()
        for node in _error_nodes(body, event):
            _gather(node, found, _DEPTH)
        if found.told():
            return found.error()
    if _is_exception(event):
        return ProviderError(type=event, message=_text(payload))
    if event == "error" and (message := _text(payload)):
        return ProviderError(message=message)
    return None


def read_text_error(text: str) -> ProviderError | None:
    """Take a short plain-text error body as the message; None for HTML or nothing."""
    message = text.strip()[:MESSAGE_CAP]
    return ProviderError(message=message) if message and not message.startswith("<") else None


# -- where the error sits ------------------------------------------------------------


def _bodies(payload: object) -> Iterator[Mapping[str, object]]:
    if isinstance(payload, list):
        yield from (item for item in payload[:_ITEMS] if isinstance(item, dict))
    elif isinstance(payload, dict):
        yield payload


def _error_nodes(body: Mapping[str, object], event: str | None) -> Iterator[object]:
    """The parts of a body that speak of an error, innermost first."""
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
    elif _substantial(error):
        yield error
        yield {k: body[k] for k in ("code", "message", "error_type", "status") if k in body}


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
    if isinstance(error := response.get("error") or detailed, dict) and _substantial(error):
        yield error
    elif kind == "response.failed" or (
        response.get("object") == "response" and response.get("status") == "failed"
    ):
        yield {"type": "response.failed"}


def _at_choice(body: Mapping[str, object], _event: str | None) -> Iterator[object]:
    choices = body.get("choices")
    for choice in choices[:1] if isinstance(choices, list) else ():
        if isinstance(choice, dict) and _substantial(choice.get("error")):
            yield choice["error"]
        elif isinstance(choice, dict) and choice.get("finish_reason") == "error":
            yield {"type": "finish_reason.error"}


def _at_cohere_end(body: Mapping[str, object], _event: str | None) -> Iterator[object]:
    """Cohere v2 ``message-end``: ``delta.error``, or a finish reason that says it broke."""
    delta = body.get("delta")
    end = delta if isinstance(delta, dict) and body.get("type") == "message-end" else body
    if isinstance(text := end.get("error"), str) and text:
        yield {"message": text}
    reason = end.get("finish_reason")
    if isinstance(reason, str) and reason in _UNFINISHED:
        yield {"type": f"finish_reason.{reason.lower()}"}


def _at_base_resp(body: Mapping[str, object], _event: str | None) -> Iterator[object]:
    """MiniMax: ``base_resp.status_code`` 0 is fine, anything else is its own error code."""
    base = body.get("base_resp")
    code = base.get("status_code") if isinstance(base, dict) else None
    if isinstance(base, dict) and code not in (None, 0, "0"):
        yield {"reason": f"base_resp.{code}", "message": base.get("status_msg")}


def _at_errors(body: Mapping[str, object], _event: str | None) -> Iterator[object]:
    """Cloudflare's envelope: ``success: false`` and numbered errors."""
    errors = body.get("errors")
    for item in errors[:_ITEMS] if isinstance(errors, list) else ():
        if isinstance(item, dict) and isinstance(item.get("code"), int):
            yield {"reason": f"errors.{item['code']}", "message": item.get("message")}
        elif _substantial(item):
            yield item


def _at_exception(body: Mapping[str, object], event: str | None) -> Iterator[object]:
    """AWS: an exception named by the event, by ``__type``, or by the only key."""
    output = body.get("Output")
    typed = output if isinstance(output, dict) else body
    if isinstance(name := typed.get("__type"), str):
        yield {"type": _bare_exception(name)}
        yield _without_type(body)
    elif event is not None and _is_exception(event):
        yield {"type": event}
        yield _without_type(body)
    elif len(body) == 1 and _is_exception(only := next(iter(body))):
        yield {"type": only}
        yield body[only]


def _at_top(body: Mapping[str, object], event: str | None) -> Iterator[object]:
    """The body itself is the error: ``message`` (AWS, Cohere, Mistral), ``detail`` (FastAPI)."""
    named = event == "error" or "error" in (body.get("type"), body.get("object"))
    if named or (_ANSWER_KEYS.isdisjoint(body) and not _says_fine(body) and _has_message(body)):
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


def _says_fine(body: Mapping[str, object]) -> bool:
    code = body.get("code")
    fine = isinstance(code, int | str) and code in _FINE
    return body.get("success") is True or (fine and body.get("success") is not False)


def _has_message(body: Mapping[str, object]) -> bool:
    sayings = (body.get(key) for key in ("message", "Message", "detail", "msg", "error_msg"))
    return any(isinstance(s, str | list) and s for s in sayings) or (
        isinstance(body.get("detail"), dict) or body.get("success") is False
    )


def _substantial(value: object) -> bool:
    """Whether an ``error`` field says anything: ``{"code": null, "message": ""}`` does not."""
    if isinstance(value, dict):
        return any(_substantial(item) for item in value.values())
    if isinstance(value, list):
        return any(_substantial(item) for item in value[:_ITEMS])
    return bool(value)


# -- what it says ----------------------------------------------------------------------


def _gather(node: object, found: _Found, depth: int) -> None:
    if depth == 0:
        return
    if isinstance(node, str):
        _gather_text(node, found, depth)
    elif isinstance(node, list):
        for item in node[:_ITEMS]:
            _gather(item, found, depth - 1)
    elif isinstance(node, dict):
        _gather_object(node, found, depth)


def _gather_text(text: str, found: _Found, depth: int) -> None:
    """A sentence, or a whole error body written into a string (OpenRouter ``raw``, gateways)."""
    inner = _json(text)
    nodes = [n for body in _bodies(inner) for n in _error_nodes(body, None)]
    for node in nodes:
        _gather(node, found, depth - 1)
    if not nodes:
        found.say(text)


def _gather_object(node: Mapping[str, object], found: _Found, depth: int) -> None:
    for key in _WRAPS:
        if isinstance(node.get(key), dict | list):
            _gather(node[key], found, depth - 1)
    if isinstance(node.get("metadata"), dict):
        _gather_wrapped_metadata(node["metadata"], found, depth)
    _gather_names(node, found)
    _gather_numbers(node, found)
    _gather_sayings(node, found, depth)
    for key in _QUALIFIES:
        _qualify(node.get(key), found, depth - 1)


def _gather_wrapped_metadata(metadata: object, found: _Found, depth: int) -> None:
    """OpenRouter: the provider's own body rides in ``metadata.raw``."""
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    if _substantial(raw):
        _gather(raw, found, depth - 1)


def _gather_names(node: Mapping[str, object], found: _Found) -> None:
    for key in _CODE_KEYS:
        found.name_code(node.get(key))
    for key in _TYPE_KEYS:
        found.name_type(node.get(key))
    if isinstance(kind := node.get("__type"), str):
        found.name_type(_bare_exception(kind))
    if isinstance(reason := node.get("reason"), str) and _NAME.fullmatch(reason):
        found.reason(reason)
    if isinstance(status := node.get("status"), str) and _NAME.fullmatch(status):
        found.reason("" if _status(status) else status)
    param = node.get("param")
    found.param = found.param or (param if isinstance(param, str) else None) or _location(node)


def _gather_numbers(node: Mapping[str, object], found: _Found) -> None:
    for key in _STATUS_KEYS:
        found.status = found.status or _status(node.get(key))
    for key in _WAIT_KEYS:
        if found.retry_after_s is None:
            found.retry_after_s = _body_wait(node.get(key))


def _gather_sayings(node: Mapping[str, object], found: _Found, depth: int) -> None:
    for key in _MESSAGE_KEYS:
        if isinstance(text := node.get(key), str):
            _gather_text(text, found, depth)
    if isinstance(text := node.get("error"), str):
        has_sentence = any(isinstance(node.get(k), str) for k in ("message", "detail"))
        if has_sentence:  # {"error": "not_found", "message": "…"}: the first is a name
            found.name_code(text)
        else:
            _gather_text(text, found, depth)


def _qualify(node: object, found: _Found, depth: int) -> None:
    """Names around an error: Google ``details``, Azure ``innererror``, OpenRouter metadata."""
    if depth <= 0:
        return
    if isinstance(node, str):
        found.say(node)
    elif isinstance(node, list):
        for item in node[:_ITEMS]:
            if isinstance(item, dict):
                _qualify(item, found, depth - 1)
    elif isinstance(node, dict):
        _qualify_object(node, found, depth)


def _qualify_object(node: Mapping[str, object], found: _Found, depth: int) -> None:
    for key in (*_METADATA_NAMES, "code", "type"):
        if isinstance(name := node.get(key), str) and _NAME.fullmatch(name):
            found.reason(name)
    if str(node.get("quota_limit_value", node.get("quotaValue"))) == "0":
        found.reason("quota_limit_value.0")
    if isinstance(node.get("@type"), str):  # google.rpc.DebugInfo, LocalizedMessage
        for text in (node.get("detail"), node.get("message")):
            found.say(text if isinstance(text, str) else "")
    if "flagged_input" in node:  # presence only: it quotes the prompt
        found.reason("moderation")
    _gather_numbers({k: v for k, v in node.items() if k != "status"}, found)
    for key in ("violations", "metadata", *_QUALIFIES[:3]):
        _qualify(node.get(key) if not isinstance(node.get(key), str) else None, found, depth - 1)


# -- small readings ----------------------------------------------------------------------


def _status(value: object) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"[45]\d\d", value):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599:
        return value
    return None


def _location(node: Mapping[str, object]) -> str | None:
    """FastAPI names the field in ``loc``: ``["body", "messages", 0]``."""
    where = node.get("loc")
    names = [w for w in where if isinstance(w, str)] if isinstance(where, list) else []
    return names[-1] if names else None


def _is_exception(name: str | None) -> TypeGuard[str]:
    return name is not None and name.lower().endswith("exception")


def _bare_exception(name: str) -> str:
    """``com.amazon.coral.service#AccessDeniedException:http://…`` → ``AccessDeniedException``."""
    return name.split(":", 1)[0].rsplit("#", 1)[-1].strip()


def _without_type(body: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in body.items() if key not in ("__type", "type", "Output")}


def _json(text: str) -> object:
    """The JSON value a string holds, or None; a long text is no wrapped error."""
    text = text.strip()
    if not text.startswith(("{", "[")) or len(text) > 64 * 1024:
        return None
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value


def _text(payload: object) -> str | None:
    return payload.strip()[:MESSAGE_CAP] or None if isinstance(payload, str) else None


def _body_wait(value: object) -> float | None:
    """Seconds from ``"15s"``, ``15``, ``"15"`` or ``{"seconds": 15}``."""
    if isinstance(value, dict):
        return _body_wait(value.get("seconds"))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _sane(float(value))
    return _duration(value) if isinstance(value, str) else None


# -- headers -----------------------------------------------------------------------------

Headers = Sequence[tuple[bytes, bytes]]

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
    """How long the provider asks to wait, in seconds, never negative; None where unsaid.

    ``retry-after-ms`` and ``retry-after`` come first. Otherwise the longest reset among the
    rate-limit windows that are used up: a window whose ``…-remaining`` header is above
    zero is not what stopped the call. Names are lower-case, ``now`` is epoch seconds.

    Sources: openai-python ``_base_client.py`` (retry-after-ms, HTTP-date),
    platform.openai.com/docs/guides/rate-limits (Go durations), console.groq.com,
    docs.claude.com/en/api/rate-limits (RFC 3339), openrouter.ai/docs/limits (epoch ms).
    """
    said = {
        name.decode("latin-1"): value.decode("latin-1").strip()
        for name, value in headers
        if b"ratelimit" in name or name in _WAITS
    }
    if not said:
        return None
    if (ms := _number(said.get("retry-after-ms"))) is not None:
        return ms / 1000
    if (wait := _moment(said.get("retry-after"), now)) is not None:
        return wait
    waits = [_moment(v, now) for k, v in said.items() if _RESET.search(k) and _used_up(k, said)]
    return max((w for w in waits if w is not None), default=None)


def stated_type(headers: Headers) -> str | None:
    """The exception that ``x-amzn-errortype`` names, without namespace and link (botocore)."""
    for name, value in headers:
        if name == b"x-amzn-errortype":
            return _bare_exception(value.decode("latin-1")) or None
    return None


def _used_up(name: str, said: Mapping[str, str]) -> bool:
    remaining = _number(said.get(name.replace("reset", "remaining")))
    return remaining is None or remaining <= 0


def _moment(value: str | None, now: float) -> float | None:
    """Seconds until what a header names: a wait, a duration, a date, or an epoch."""
    if not value:
        return None
    if (number := _number(value)) is not None:
        return _from_number(number, now)
    if (wait := _duration(value)) is not None:
        return wait
    at = _date(value)
    return None if at is None else _sane(at - now)


def _from_number(number: float, now: float) -> float | None:
    if number >= _EPOCH_MS:
        return _sane(number / 1000 - now)
    return _sane(number - now) if number >= _EPOCH_S else number


def _number(value: str | None) -> float | None:
    if value is None or not re.fullmatch(r"\d{1,18}(?:\.\d{1,18})?", value, re.ASCII):
        return None
    return float(value)


def _duration(value: str) -> float | None:
    """A Go duration (``6m0s``, ``20ms``) or plain seconds."""
    text = value.strip()
    if (number := _number(text)) is not None:
        return number
    parts = _PART.findall(text)
    if not parts or "".join(a + b for a, b in parts) != text:
        return None
    return _sane(sum(float(amount) * _UNITS[unit] for amount, unit in parts))


def _date(value: str) -> float | None:
    """Epoch seconds of an RFC 3339 or HTTP date; a date without a zone is UTC."""
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = parse(value)
            zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return zoned.timestamp()
        except (ValueError, TypeError, OverflowError, IndexError):
            continue
    return None


def _sane(seconds: float) -> float | None:
    return max(0.0, seconds) if math.isfinite(seconds) else None
