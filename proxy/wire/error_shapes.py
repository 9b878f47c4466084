"""Find the error objects in the bodies of each API."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final, TypeGuard

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
