"""Read a provider's error out of a payload of any shape, and how long it asks to wait.

``classifier.causes`` decides what it means. An echo of the request is never read.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from html import unescape
from http import HTTPStatus
from itertools import islice
from typing import Final, TypeGuard
from urllib.parse import unquote

from classifier.grammar import GRAMMAR
from classifier.records import ProviderError
from proxy.wire.dialect import Headers
from proxy.wire.quoted_answer import quoted_answer

# --- places of error objects in the bodies of each API -----------------------------------------


MESSAGE_CAP: Final = 2_000  # characters
ITEMS: Final = 16  # of any list
ERROR_EVENTS: Final = frozenset(("error", "exception", "fault"))  # of any stream
_CODES: Final = (
    "error_code", "errorCode", "err_code", "errcode", "errCode", "errorcode", "ErrorCode", "Code",
    "errno", "err_no", "retcode", "retCode", "ret_code", "ret", "resultCode", "result_code",
    "returnCode", "return_code", "resp_code", "response_code",
)  # fmt: skip
CODE_KEYS: Final = ("code", *_CODES)
TYPE_KEYS: Final = ("type", "error_type", "errorType", "exception")
# Sentences that only an error has.
_COMPLAINTS: Final = (
    "error_msg", "errorMessage", "error_message", "errorMsg", "errmsg", "errMsg", "err_msg",
    "ErrorMessage", "faultstring", "failureReason", "failure_reason", "failureMessage",
    "OriginalMessage", "error_description",
)  # fmt: skip
MESSAGE_KEYS: Final = (
    "message", "Message", "msg", *_COMPLAINTS, "status_msg", "retmsg", "ret_msg", "retMsg",
    "resultMsg", "result_msg", "resultMessage", "return_msg", "returnMsg", "statusMessage",
    "status_message", "statusDescription", "resp_msg", "response_msg", "detail", "title",
    "description", "explanation",
)  # fmt: skip
_STATUS_KEYS: Final = (
    "status", "status_code", "statusCode", "StatusCode", "http_status_code", "http_status",
    "originalStatusCode", "OriginalStatusCode",
)  # fmt: skip
# Without case, blanks, ``-`` and ``_``. Waits, in seconds or as a duration: google.rpc.RetryInfo,
# OpenAI's Codex (``resets_in_seconds``), gateways; and moments.
_WAIT_KEY: Final = re.compile(
    r"(?:retrydelay|(?:retry|reset)s?(?:after|in)|quotaresetdelay|(?:wait|backoff|cooldown)(?:time)?)"
    r"(?:(s|secs?|seconds?)|(ms|millis|milliseconds))?"
)
_MOMENT_KEY: Final = re.compile(r"(?:quota|limit)?(?:retry|resets?)(?:at|time)(?:stamp)?")
# A body with one of these is a response, so that a lone ``message`` in it is no error.
_ANSWER_KEYS: Final = frozenset((
    "choices", "candidates", "output", "content", "data", "usage", "usageMetadata", "embeddings",
    "text", "results", "result", "response", "models", "input_tokens", "totalTokens",
))  # fmt: skip
# Finish reasons of Cohere and OpenRouter.
_UNFINISHED: Final = frozenset(("ERROR", "TIMEOUT", "error"))
_BESIDE_RESPONSE: Final = ("code", "message", "error_type")  # its status is the response's
_BESIDE: Final = (*_BESIDE_RESPONSE, "status", "status_code", "statusCode")
_LEVELS: Final = 8  # of objects in objects, until nothing was found that has content
_MEMBERS: Final = 64  # of an object


def error_nodes(
    body: Mapping[str, object],
    event: str | None,
    *,
    refused: bool = True,
    answered: bool = False,
    marked: bool = False,
) -> Iterator[object]:
    """Yield the parts of a body that describe an error, innermost first.

    Arguments:
        refused: the status says that the call failed, so that any sentence is the error's.
        answered: an output was read, so that a code alone is no error.
        marked: nothing tells that a model was asked, so that a sentence alone is none either.
    """
    body = respelled(body)
    for place in _PLACES:
        nodes = list(place(body, event))
        if nodes:
            yield from nodes
            return
    nodes = list(_at_outcome(body, bare=not answered and not marked))
    yield from nodes or _at_top(body, event, bare=not marked, refused=refused)


def _at_error(body: Mapping[str, object], _event: str | None) -> Iterator[object]:
    error = body.get("error")
    if isinstance(error, str | int):
        if says(error):
            yield unquoted(body)
    elif substantial(error):
        yield error
        beside = _BESIDE_RESPONSE if body.get("object") == "response" else _BESIDE
        yield {k: body[k] for k in islice(body, _MEMBERS) if k in beside or _states_wait(k)}


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


def _at_abort(body: Mapping[str, object], _event: str | None) -> Iterator[object]:
    """SGLang: why a request was aborted stands in its finish reason.

    Source: sgl-project/sglang, python/sglang/srt/managers/schedule_batch.py, ``FINISH_ABORT``.
    """
    if (reason := abort_reason(body)) is not None:
        yield {**reason, "type": reason.get("err_type")}


def abort_reason(body: Mapping[str, object]) -> dict[str, object] | None:
    """Return SGLang's finish reason of an aborted request that states a status, else None."""
    meta = body.get("meta_info")
    reason = meta.get("finish_reason") if isinstance(meta, dict) else None
    stated = isinstance(reason, dict) and _status(reason.get("status_code")) is not None
    return reason if stated and isinstance(reason, dict) else None


def _at_cohere_end(body: Mapping[str, object], _event: str | None) -> Iterator[object]:
    """Cohere v2 ``message-end``: ``delta.error``, or a finish reason that states a failure."""
    delta = body.get("delta")
    end = delta if isinstance(delta, dict) and body.get("type") == "message-end" else body
    if isinstance(text := end.get("error"), str) and says(text):
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
    """Cloudflare's envelope: ``success: false`` and numbered errors; errors by field (Rails)."""
    errors = body.get("errors")
    for item in errors[:ITEMS] if isinstance(errors, list) else ():
        if isinstance(item, dict) and isinstance(item.get("code"), int):
            yield {"reason": f"errors.{item['code']}", "message": item.get("message")}
        elif substantial(item):
            yield item
    if isinstance(errors, str):
        if says(errors):
            yield {"message": errors}
    elif isinstance(errors, dict) and substantial(errors):
        yield {k: body[k] for k in _BESIDE if k in body}
        yield errors
        yield from errors_by_field(errors)


def errors_by_field(errors: Mapping[str, object]) -> Iterator[object]:
    """Yield what is said of each field of a request: ``{"model": ["is required"]}``."""
    for field_name, texts in islice(errors.items(), ITEMS):
        if field_name not in MESSAGE_KEYS and isinstance(texts, list):
            for text in texts[:ITEMS]:
                if isinstance(text, str):
                    yield {"param": field_name, "message": f"{field_name} {text}"}


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


_PLACES: Final[tuple[Callable[[Mapping[str, object], str | None], Iterator[object]], ...]] = (
    _at_error,
    _at_failed_response,
    _at_choice,
    _at_abort,
    _at_base_resp,
    _at_errors,
    _at_exception,
    _at_cohere_end,
)


def _at_top(
    body: Mapping[str, object], event: str | None, *, bare: bool, refused: bool
) -> Iterator[object]:
    """Take the body as the error: ``message`` (AWS, Cohere, Mistral), ``detail`` (FastAPI).

    Inside a 2xx a ``message`` by itself has to say so: gateways greet with it, too.
    """
    if event in ERROR_EVENTS or "error" in (body.get("type"), body.get("object")):
        yield unquoted(body)
        yield from _inner(body)
    elif (
        bare
        and not _states_success(body)
        and not _answers(body)
        and _says_why(body, refused=refused)
    ):
        yield unquoted(body)


def _says_why(body: Mapping[str, object], *, refused: bool) -> bool:
    return _has_message(body) if refused else _tells_failure(body)


def _answers(body: Mapping[str, object]) -> bool:
    return any(body[key] is not None for key in _ANSWER_KEYS & body.keys())


def _has_message(body: Mapping[str, object]) -> bool:
    messages = (body.get(key) for key in ("message", "Message", "detail", "msg"))
    return any(isinstance(s, str | list) and s for s in messages) or isinstance(
        body.get("detail"), dict
    )


def _tells_failure(body: Mapping[str, object]) -> bool:
    sentences = [body.get(key) for key in ("message", "Message", "msg")]
    return bool(body.get("detail")) or any(
        isinstance(each, str) and read_text_failure(each) is not None for each in sentences
    )


def substantial(value: object, levels: int = _LEVELS) -> bool:
    """Return True if an ``error`` field has content: ``{"code": null, "message": ""}`` has none.

    Content deeper than ``levels`` is not looked for.
    """
    if not isinstance(value, dict | list):
        return bool(value)
    if levels == 0:
        return False
    inside = value[:ITEMS] if isinstance(value, list) else islice(value.values(), _MEMBERS)
    return any(substantial(item, levels - 1) for item in inside)


def is_exception(name: str | None) -> TypeGuard[str]:
    """Return True if a name is an exception class, as AWS states errors."""
    return name is not None and name.lower().endswith("exception")


def bare_exception(name: str) -> str:
    """Cut ``com.amazon.coral.service#AccessDeniedException:http://…`` to the name."""
    return name.split(":", 1)[0].rsplit("#", 1)[-1].strip()


def _without_type(body: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in body.items() if key not in ("__type", "type", "Output")}


def text_of(payload: object) -> str | None:
    """Return a message as bounded text; None if it is empty or no string."""
    return payload.strip()[:MESSAGE_CAP] or None if isinstance(payload, str) else None


# --- negative outcomes -------------------------------------------------------------------------


# What an error is called besides ``error`` and ``errors``, which have places of their own.
_NAMES: Final = ("Error", "Errors", "err", "fault", "Fault", "exception", "last_error",
                 "lastError")  # fmt: skip
_WITHIN: Final = ("error", "errors", *_NAMES)
_FLAGS: Final = ("success", "Success", "ok", "isSuccess", "is_success", "succeeded", "succeed",
                 "successful")  # fmt: skip
_OUTCOMES: Final = ("status", "Status", "state", "result", "outcome", "resultStatus",
                    "return_code")  # fmt: skip
_FAILED: Final = frozenset(("fail", "failed", "failure", "error", "err"))
_FINE: Final = re.compile(
    r"\W*(?:(?:the |your )?(?:request|operation|query|call|api)?\W*(?:was |is |has been )?"
    r"(?:success\w*|succeed(?:ed)?|ok(?:ay)?|accepted|completed|done|normal)|no errors?|none|null"
    r"|nil|false|n/a|-|0+|(?:请求|操作|调用|处理)?成功)?\W*",
    re.IGNORECASE,
)
# Whole numbers that say that all is well, besides 200 to 299. Of CLOVA 20000, of others 1000.
_FINE_CODES: Final = frozenset((0, 1000, 20000))
_WHOLE_NUMBER: Final = re.compile(r"-?\d{1,18}", re.ASCII)
MARKS: Final = frozenset((
    "has_error", "hasError", *_NAMES, *_FLAGS, *_OUTCOMES, *_STATUS_KEYS, *CODE_KEYS, *_COMPLAINTS,
))  # fmt: skip
"""Top-level keys of which any may mark a negative outcome."""
# What a model wrote, a tool returned or a request said: nothing in it is a provider's word.
_QUOTED: Final = frozenset((
    "choices", "candidates", "content", "contents", "output", "outputs", "messages", "input",
    "inputs", "request", "arguments", "args", "params", "parameters", "metadata", "usage", "tools",
    "tool_calls", "tool", "tool_result", "tool_results", "toolResult", "function_call",
    "functions", "prompt", "instructions", "text", "delta", "item", "items", "part", "parts",
    "content_block", "generations", "generation", "generated_text", "predictions", "prediction",
    "completion", "completions", "alternatives", "answer", "reply", "echo", "json", "form",
    "headers", "query", "variables", "config", "options", "settings", "context", "payload",
    "logs", "promptFeedback", "content_filter_results", "prompt_filter_results", "moderation",
    "guardrail", "trace", "search_results", "citations", "annotations", "reasoning", "thinking",
    "embedding", "embeddings", "incomplete_details", "properties", "schema", "response_format",
    "documents", "conversation", "user", "usageMetadata",
))  # fmt: skip
# What gateways put an outcome into. Beside an output nothing else is looked into.
HOLDERS: Final = frozenset(("header", "Response", "ResponseMetadata", "base_resp", "x_groq"))
_HOLDING: Final = HOLDERS | {"status"}


_ALIKE: Final = {
    key.replace("_", "").lower(): key
    for key in reversed((
        "error", "errors", "message", "type", "reason", "has_error",
        *_STATUS_KEYS, *CODE_KEYS, *MESSAGE_KEYS, *_FLAGS, *_NAMES, *_OUTCOMES,
    ))  # of two spellings the first
}  # fmt: skip


def respelled(body: Mapping[str, object]) -> Mapping[str, object]:
    """Return a body with its errors' keys as they are spelled here: ``ErrCode`` is ``errcode``."""
    more = {}
    for key in islice(body, _MEMBERS):
        known = _ALIKE.get(key[:40].replace("_", "").lower())
        if known is not None and known not in body:
            more[known] = body[key]
    return {**body, **more} if more else body


def _at_outcome(body: Mapping[str, object], *, bare: bool) -> Iterator[object]:
    """Find a negative outcome at the top or one level down, and the sentences beside and under it.

    Apigee: ``fault``. Tencent Cloud: ``Response.Error``. Volcengine: ``ResponseMetadata.Error``.
    Spark: ``header.code``. CLOVA Studio: ``status.code``. AWS Lambda: ``errorMessage``.

    Arguments:
        bare: a mark counts that has no sentence and no name.
    """
    inner = list(_inner(body))
    if marks_failure(body):
        sentences = [each for each in inner if _has_sentence(each)]
        told = _has_sentence(body) or _has_coded_text(body) or (_fails(body) and _has_name(body))
        if bare or sentences or told:
            yield from _described(body)
            for each in inner:
                yield from _described(each)
            return
    if _states_success(body):
        return
    for each in inner:
        if any(says(each.get(key)) for key in _WITHIN) or (
            marks_failure(each) and _has_sentence(each)
        ):
            yield from _described(each)
            return


def _inner(body: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """Yield the objects one level down in which an outcome may stand.

    Beside an output or an echo these are `HOLDERS` only: what else is there may be one too.
    """
    alone = not any(body[key] for key in _QUOTED & body.keys())
    for key, value in islice(body.items(), _MEMBERS):
        if isinstance(value, dict) and (key in _HOLDING or (alone and key not in _CLOSED)):
            yield respelled(value)


_CLOSED: Final = _QUOTED | {"message", "detail", "error", "errors", "body"}


def _described(node: Mapping[str, object]) -> Iterator[object]:
    for key in _WITHIN:
        error = node.get(key)
        if isinstance(error, dict | list):
            yield error
        elif isinstance(error, str) and says(error):
            yield {"message": error}
    if _fails(node) and isinstance(node.get("body"), str | dict):  # a Lambda's response, unproxied
        yield node["body"]
    if _has_coded_text(node):
        yield {"message": node["text"]}
    yield unquoted(node)


def unquoted(body: Mapping[str, object]) -> dict[str, object]:
    """Return a body without the parts that a model, a tool or a request wrote."""
    return {key: value for key, value in islice(body.items(), _MEMBERS) if key not in _QUOTED}


def marks_failure(node: Mapping[str, object]) -> bool:
    """Return True if a flag, a word, a status or a code in an object marks a negative outcome."""
    if _fails(node) or any(says(node.get(key)) for key in _NAMES):
        return True
    if _states_success(node):
        return False
    return any(_is_failing_code(node[key]) for key in CODE_KEYS if key in node) or any(
        isinstance(node.get(key), str) and says(node[key]) for key in _COMPLAINTS
    )


def _fails(node: Mapping[str, object]) -> bool:
    """Return True if an object says in words, by a flag or by an HTTP status that it failed."""
    for key in _FLAGS:
        flag = node.get(key)
        if flag in (False, "false", "False"):  # 0 too
            return True
    if node.get("has_error") is True:
        return True
    for key in _OUTCOMES:
        if isinstance(outcome := node.get(key), str) and outcome.lower() in _FAILED:
            return True
    for key in _STATUS_KEYS:
        status = node.get(key)
        if _status(status) is not None or (isinstance(status, int) and status < 0):
            return True
    return False


def _states_success(body: Mapping[str, object]) -> bool:
    if body.get("success") is False:
        return False
    return body.get("success") is True or _is_fine_code(body.get("code"))


def _is_fine_code(code: object) -> bool:
    if isinstance(code, str):
        if not _WHOLE_NUMBER.fullmatch(code):
            return bool(code.strip()) and _FINE.fullmatch(code[:80]) is not None
        code = int(code)
    if not isinstance(code, int) or isinstance(code, bool):
        return False
    return code in _FINE_CODES or 200 <= code <= 299


def _is_failing_code(code: object) -> bool:
    """Return True if a code is a number or a name, and not one of success."""
    if isinstance(code, str):
        named = _NAME.fullmatch(code) is not None
    else:
        named = isinstance(code, int) and not isinstance(code, bool)
    return named and not _is_fine_code(code)


def _has_sentence(node: Mapping[str, object]) -> bool:
    return any(says(node.get(key)) for key in (*MESSAGE_KEYS, *_WITHIN, "reason")) or (
        _fails(node) and says(node.get("body"))
    )


def _has_coded_text(node: Mapping[str, object]) -> bool:
    """FastChat's workers, LMDeploy's proxy: ``text`` is the output, or with a code the error."""
    return says(node.get("text")) and any(
        _is_failing_code(node[key]) for key in _CODES if key in node and key[:3].lower() == "err"
    )


def _has_name(node: Mapping[str, object]) -> bool:
    return any(
        isinstance(node.get(key), str) and _is_failing_code(node[key])
        for key in (*CODE_KEYS, "error_type", "errorType", "__type")
    )


def says(value: object) -> bool:
    """Return True if a field for errors has content other than blanks, "none" or "success"."""
    if isinstance(value, str):
        return _FINE.fullmatch(value[:80]) is None
    return substantial(value)


# --- waits: Retry-After and the vendors' reset headers -----------------------------------------


LONGEST_S: Final = 366 * 86_400.0  # no allotment takes more than a year to come back
# learn.microsoft.com/azure/ai-services/openai (x-ms-), openai-python _base_client.py (-ms).
_MS: Final = ("retry-after-ms", "x-ms-retry-after-ms", "x-retry-after-ms")
_SECONDS: Final = ("retry-after", "x-retry-after", "x-ratelimit-retry-after")
_WAITS: Final = frozenset(name.encode() for name in (*_MS, *_SECONDS))
_UNITS: Final[Mapping[str, float]] = {
    "d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0,
    "mil": 1e-3, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9,
}  # fmt: skip
_PART: Final = re.compile(
    r"(\d+(?:\.\d+)?) ?(milliseconds?|ms|us|µs|μs|ns|days?|hours?|hrs?|minutes?|mins?|seconds?"
    r"|secs?|d|h|m|s)(?:,? ?(?:and )?(?=\d)|\Z)"
)
# draft-ietf-httpapi-ratelimit-headers, in its older and its newer form: `"default";r=0;t=30`.
_COMBINED: Final = re.compile(r"(?:remaining|\br) ?= ?0\b.{0,40}?(?:reset|\bt) ?= ?(\d{1,9})")
_RESET: Final = re.compile(r"ratelimit(?:bysize)?-(?:.*-)?reset(?:-|$)|ratelimit-unified-reset$")
_EPOCH_S: Final = 1e9  # smaller numbers are waits, from here on points in time
_EPOCH_MS: Final = 1e11


def retry_after(headers: Headers, *, now: float) -> float | None:
    """Return how long to wait, in seconds, from 0 to `LONGEST_S`; None if no header states it.

    ``retry-after-ms`` and ``retry-after`` come first. Otherwise the longest reset among the
    rate-limit windows that are used up: a window whose ``…-remaining`` header is above
    zero is not what stopped the call. Names are lower-case, ``now`` is epoch seconds.

    Sources: openai-python ``_base_client.py`` (retry-after-ms, HTTP-date),
    platform.openai.com/docs/guides/rate-limits (Go durations), console.groq.com,
    docs.claude.com/en/api/rate-limits (RFC 3339), openrouter.ai/docs/limits (epoch ms).
    """
    stated = {
        name.decode("latin-1").replace("rate-limit", "ratelimit"): value.decode("latin-1").strip()
        for name, value in headers
        if b"ratelimit" in name or b"rate-limit" in name or name in _WAITS
    }
    if not stated:
        return None
    for name in _MS:
        if (ms := _number(stated.get(name))) is not None:
            return plausible_wait(ms / 1000)
    for name in _SECONDS:
        if (wait := stated_wait(stated.get(name), now)) is not None:
            return wait
    waits = [
        stated_wait(v, now) for k, v in stated.items() if _RESET.search(k) and _used_up(k, stated)
    ]
    combined = _COMBINED.search(stated.get("ratelimit", "")[:200])
    waits.append(float(combined[1]) if combined else None)
    return max((w for w in waits if w is not None), default=None)


def nothing_left(headers: Headers) -> bool:
    """Return True if a rate-limit header says that nothing remains of its window.

    Names are lower-case. Sources: as of `retry_after`.
    """
    return any(
        b"ratelimit" in name and b"remaining" in name and _spent(value.decode("latin-1").strip())
        for name, value in headers
    )


def _spent(value: str) -> bool:
    remaining = _number(value)
    return remaining is not None and remaining <= 0


def _used_up(name: str, stated: Mapping[str, str]) -> bool:
    remaining = stated.get(name.replace("reset", "remaining"), "")
    return _number(remaining) is None or _spent(remaining)


def stated_wait(value: str | None, now: float) -> float | None:
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


_LONGEST_DURATION = 64  # characters


def parse_duration(value: str) -> float | None:
    """Parse a duration (``6m0s``, ``20ms``, ``1 hour and 5 minutes``) or plain seconds."""
    text = value.strip()
    if (number := _number(text)) is not None:
        return plausible_wait(number)
    # The search takes the square of a long number's digits, and a header may be that long.
    parts = _PART.findall(text) if len(text) <= _LONGEST_DURATION else []
    if not parts or _PART.sub("", text):
        return None
    return plausible_wait(sum(float(amount) * _unit_s(unit) for amount, unit in parts))


def _unit_s(unit: str) -> float:
    return _UNITS.get(unit) or _UNITS.get(unit[:3]) or _UNITS[unit[0]]


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
    """Return a wait in seconds, from 0 to `LONGEST_S`; None if it is not finite."""
    return min(max(0.0, seconds), LONGEST_S) if math.isfinite(seconds) else None


# --- the error ---------------------------------------------------------------------------------


_NAME: Final = re.compile(r"[^\s]{1,120}")  # a code or type has no blanks; a sentence does
_DEPTH: Final = 6  # errors wrapped in errors: gateways nest two or three deep
_NODES: Final = 256  # objects, lists and texts that are looked into

_WRAPS: Final = ("error", "errors", "message", "detail", "raw")  # a whole error may sit inside
_QUALIFIES: Final = ("innererror", "inner_error", "innerError", "details", "metadata", "extensions")
_METADATA_NAMES: Final = (
    "reason", "error_type", "error_code", "provider_code", "limit_source",
    "quotaId", "quotaMetric", "quota_limit", "quota_metric", "quota_unit",
)  # fmt: skip


@dataclass(slots=True)
class _ErrorFacts:
    """The facts read so far; the innermost error comes first."""

    code: str | None = None
    type: str | None = None
    param: str | None = None
    status: int | None = None
    retry_after_s: float | None = None
    messages: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    headers: dict[bytes, bytes] = field(default_factory=dict)
    nodes_left: int = _NODES

    def quote(self, headers: Mapping[str, object]) -> None:
        """Take headers that a body quotes, as far as `retry_after` reads them."""
        for name, value in islice(headers.items(), _MEMBERS):
            lower = name[:64].lower()
            if "limit" not in lower and lower.encode() not in _WAITS:
                continue
            if isinstance(value, str | int | float) and not isinstance(value, bool):
                stated = str(value)[:64].encode("ascii", "replace")
                self.headers.setdefault(lower.encode("ascii", "replace"), stated)

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
            headers=tuple(self.headers.items()),
        )


def read_error(
    payload: object,
    *,
    event: str | None = None,
    refused: bool = True,
    answered: bool = False,
    marked: bool = False,
) -> ProviderError | None:
    """Read the error out of a parsed JSON value, or None when it holds none.

    Args:
        payload: any JSON value: a whole body, one stream event's data, a list of them
            (Gemini without ``alt=sse``).
        event: the event's own name, where the framing carries one (SSE ``event:``, AWS
            ``:exception-type``). An exception's name makes any payload an error.
        refused: the status says that the call failed, so that any sentence is the error's.
        answered: an output was read before, so that a code alone is no error.
        marked: nothing tells that a model was asked, so that a sentence alone is none either.

    Shapes: openai-python ``APIError.body``, docs.claude.com/en/api/errors, Google
    ``google.rpc.Status``, botocore ``service-2.json``, openrouter.ai/docs/errors,
    docs.mistral.ai, docs.cohere.com, platform.minimax.io errorcode, FastAPI
    ``HTTPException``, developers.cloudflare.com/workers-ai/platform/errors,
    docs.aws.amazon.com/lambda (``errorMessage``), cloud.google.com/apigee (``fault``),
    cloud.tencent.com/document/api (``Response.Error``), www.xfyun.cn (``header.code``),
    docs.aws.amazon.com/sagemaker (InvokeEndpoint, ``OriginalStatusCode``).
    """
    for body in _bodies(payload):
        facts = _ErrorFacts()
        nodes = error_nodes(body, event, refused=refused, answered=answered, marked=marked)
        for node in nodes:
            _gather(node, facts, _DEPTH)
        if facts.any():
            return facts.error()
    if is_exception(event):
        return ProviderError(type=event, message=text_of(payload))
    if event in ERROR_EVENTS:
        return _of_sentence(payload) if isinstance(payload, str) else ProviderError()
    return None


def read_text_error(text: str) -> ProviderError | None:
    """Take a short plain-text error body as the message; None for HTML or nothing."""
    text = text.strip()
    return _of_sentence(text) if text and not text.startswith("<") else None


def _of_sentence(text: str) -> ProviderError:
    facts = _ErrorFacts()
    _gather_sentence(text, facts, _DEPTH)
    return facts.error()


def with_stated_status(error: ProviderError) -> ProviderError:
    """Take the status that a reason phrase names: "Too Many Requests", "502 Bad Gateway".

    RFC 9110 §15. Only of an error inside a 2xx: a status line goes before a phrase.
    """
    stated = None if error.status is not None else _named_status(error.message or "")
    return error if stated is None else replace(error, status=stated)


def _named_status(text: str) -> int | None:
    match = _STATUS_LINE.fullmatch(text[:100])
    if match is None:
        return None
    number, phrase = match.groups()
    stated = _PHRASES.get((phrase or "").strip().lower())
    return stated or (int(number) if number and (not phrase or len(phrase) < 4) else None)


_PHRASES: Final = {
    **{each.phrase.lower(): each.value for each in HTTPStatus if each.value >= 400},
    # RFC 9110 renamed these; Python 3.13 knows the new names only, an older one the old.
    "request entity too large": 413,
    "content too large": 413,
    "payload too large": 413,
    "request-uri too long": 414,
    "uri too long": 414,
    "requested range not satisfiable": 416,
    "range not satisfiable": 416,
    "unprocessable entity": 422,
    "unprocessable content": 422,
}
_STATUS_LINE: Final = re.compile(
    r"\s*(?:HTTP/\d(?:\.\d)?\s+|(?:http )?error:?\s+(?:code:?\s+)?)?([45]\d\d)?[\s:,-]*"
    r"([A-Za-z' -]{0,40})[.!]?\s*",
    re.IGNORECASE,
)
_SHORT: Final = 500  # characters of a text that is a failure's as a whole


def read_text_failure(text: str) -> ProviderError | None:
    """Read a short text where JSON was expected, in a 2xx; None if it states no failure.

    A reason phrase does, and so does a sentence that the grammar of causes reads.
    """
    message = text.strip()
    if not message or len(message) > _SHORT:
        return None
    error = with_stated_status(ProviderError(message=message))
    if error.status is None and GRAMMAR.read(message, (), status=None) is None:
        return None
    return error


# -- XML: AWS's query APIs and S3, SOAP faults, RFC 7807 -------------------------------------


_XML_ROOT: Final = re.compile(
    r"\s*(?:<\?xml[^>]{0,200}\?>\s*)?"
    r"<(?:[\w.-]{1,40}:)?(Error|Errors|ErrorResponse|error|errors|fault|Fault|problem|Envelope)\b"
)
_XML_FAULT: Final = re.compile(r"<(?:[\w.-]{1,40}:)?Fault[\s>]")
_XML_LEAF: Final = re.compile(
    r"<(?:[\w.-]{1,40}:)?([A-Za-z][\w.-]{0,40})(?:\s[^<>]{0,200})?>\s*(?:<!\[CDATA\[)?"
    r"([^<]{1,2000}?)(?:\]\]>)?\s*</"
)
_XML_NAMES: Final = {"Text": "message", "faultstring": "message", "Reason": "message"}


def read_xml_error(text: str) -> ProviderError | None:
    """Read an XML document whose root is an error, or a SOAP envelope with a fault; else None."""
    root = _XML_ROOT.match(text)
    if root is None or (root[1] == "Envelope" and not _XML_FAULT.search(text)):
        return None
    node: dict[str, object] = {}
    for leaf in islice(_XML_LEAF.finditer(text), _MEMBERS):
        node.setdefault(_XML_NAMES.get(leaf[1], leaf[1]), unescape(leaf[2]))
    facts = _ErrorFacts()
    node.pop("Type", None)  # AWS: who is at fault, "Sender"
    _gather_object(node, facts, 1)
    return facts.error()


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
        _gather_sentence(text, facts, depth)


def _gather_sentence(text: str, facts: _ErrorFacts, depth: int) -> None:
    """Gather a sentence, or the upstream's answer that it quotes."""
    quoted = quoted_answer(text)
    if quoted is None:
        facts.add_message(text)
        return
    nodes = [n for body in _bodies(quoted.body) for n in error_nodes(body, None)]
    around, facts.status = facts.status, None
    for node in nodes:
        _gather(node, facts, depth - 1)
    facts.status = facts.status or quoted.status or around
    facts.add_message(quoted.remark if nodes else text)


def _gather_object(node: Mapping[str, object], facts: _ErrorFacts, depth: int) -> None:
    node = respelled(node)
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


# google/rpc/code.proto, which gRPC's gateways write as a number.
_GRPC: Final = (
    "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
    "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
    "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)  # fmt: skip


def read_grpc_error(stated: Mapping[bytes, bytes]) -> ProviderError | None:
    """Read the error in gRPC's headers or trailers, by lower-case name; None for status 0.

    github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md: the message is percent-encoded.
    """
    status = stated.get(b"grpc-status", b"").decode("latin-1").strip()
    if not status.isdecimal() or len(status) > 2 or int(status) == 0:
        return None
    message = unquote(stated.get(b"grpc-message", b"").decode("latin-1"))
    return read_error({"error": {"code": int(status), "message": message, "details": []}})


def _gather_names(node: Mapping[str, object], facts: _ErrorFacts) -> None:
    for key in CODE_KEYS:
        facts.add_code(node.get(key))
    if isinstance(number := node.get("error"), int):
        facts.add_code(number)
    # grpc-gateway: {"code", "message", "details"}, before its version 2 with "error" too
    code = node.get("code")
    is_grpc = isinstance(node.get("details"), list) or node.get("error") == node.get("message", "")
    if is_grpc and type(code) is int and 1 <= code <= len(_GRPC):
        facts.add_reason(_GRPC[code - 1])
    for key in TYPE_KEYS:
        facts.add_type(node.get(key))
    if isinstance(kind := node.get("__type"), str):
        facts.add_type(bare_exception(kind))
    if isinstance(reason := node.get("reason"), str) and _NAME.fullmatch(reason):
        facts.add_reason(reason)
    elif isinstance(reason, str):
        facts.add_message(reason)
    if isinstance(status := node.get("status"), str) and _NAME.fullmatch(status):
        facts.add_reason("" if _status(status) or status.lower() in _FAILED else status)
    param = node.get("param")
    facts.param = facts.param or (param if isinstance(param, str) else None) or _location(node)


def _gather_numbers(node: Mapping[str, object], facts: _ErrorFacts) -> None:
    for key in _STATUS_KEYS:
        facts.status = facts.status or _status(node.get(key))
    for key in islice(node, _MEMBERS):
        if _states_wait(key):
            _gather_wait(key, node[key], facts)
    if isinstance(quoted := node.get("headers"), dict):
        facts.quote(quoted)


@lru_cache(maxsize=1024)
def _bare_key(key: str) -> str:
    return re.sub("[ _-]", "", key[:40]).lower()


def _states_wait(key: str) -> bool:
    bare = _bare_key(key)
    return _WAIT_KEY.fullmatch(bare) is not None or _MOMENT_KEY.fullmatch(bare) is not None


def _gather_wait(key: str, value: object, facts: _ErrorFacts) -> None:
    named = _WAIT_KEY.fullmatch(_bare_key(key))
    if named is None:  # a moment, which the clock makes a wait of
        facts.quote({"x-ratelimit-reset": value})
    elif facts.retry_after_s is None and (wait := _body_wait(value)) is not None:
        facts.retry_after_s = wait / 1000 if named[2] else wait


def _gather_messages(node: Mapping[str, object], facts: _ErrorFacts, depth: int) -> None:
    for key in MESSAGE_KEYS:
        if isinstance(text := node.get(key), str):
            _gather_text(text, facts, depth)
    if isinstance(text := node.get("error"), str):
        # {"error": "not_found", "message": "…"}: the first is a name
        if any(isinstance(node.get(key), str) for key in MESSAGE_KEYS):
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
