"""Providers' answers, where a harness kept their JSON; counts and yes or no only."""

from __future__ import annotations

from typing import Any

from truezero.audit.runs import RecordedCall, RecordedError
from truezero.audit.values import count, items, mapping, text, total

# Names of one count in the dialects: OpenAI, Anthropic and Responses, Gemini, Bedrock, Gemini's
# Interactions.
_INPUT = ("prompt_tokens", "input_tokens", "promptTokenCount", "inputTokens",
          "total_input_tokens")  # fmt: skip
_REASONED = ("reasoning_tokens", "thoughtsTokenCount", "total_thought_tokens")
_OUTPUT = ("completion_tokens", "output_tokens", "candidatesTokenCount", "outputTokens",
           "total_output_tokens")  # fmt: skip


def call_of(
    status: int | None, request: dict[str, Any], answer: dict[str, Any], *, at: float | None = None
) -> RecordedCall:
    """Return one call by its status and the JSON that went either way."""
    model = text(request.get("model")) or text(answer.get("model"))
    offered = bool(request.get("tools") or request.get("functions")) if request else None
    failed = answer.get("error") or (answer.get("status") == "failed" and "steps" in answer)
    if (status or 0) >= 400 or (failed and not answer.get("choices")):
        error = RecordedError(status=status if (status or 0) >= 400 else None, body=answer)
        return RecordedCall(error=error, model=model, has_tools=offered, started_at=at)
    usage = mapping(answer.get("usage")) or mapping(answer.get("usageMetadata"))
    parts = _parts(answer)
    return RecordedCall(
        model=model,
        content=None if parts is None else any(parts),
        reasoning=_reasoned(answer, usage) or None,
        input_tokens=next(
            (n for n in (count(usage.get(k)) for k in _INPUT) if n is not None), None
        ),
        output_tokens=next(
            (n for n in (count(usage.get(k)) for k in _OUTPUT) if n is not None), None
        ),
        tool_calls=None if parts is None else sum(each == _CALL for each in parts),
        has_tools=offered,
        finish_reason=_finish(answer),
        started_at=at,
    )


_CALL = "tool call"


def _parts(answer: dict[str, Any]) -> list[str] | None:
    """Return what came back, part by part; None in a dialect that is not known."""
    for read in (_chat, _messages, _responses, _gemini, _interactions):
        parts = read(answer)
        if parts is not None:
            return [part for part in parts if part]
    return None


def _chat(answer: dict[str, Any]) -> list[str] | None:
    if not isinstance(answer.get("choices"), list):
        return None
    parts: list[str] = []
    for choice in answer["choices"]:
        message = mapping(mapping(choice).get("message"))
        parts += content(message.get("content"))
        parts += [_CALL for _ in items(message.get("tool_calls"))]
    return parts


def _messages(answer: dict[str, Any]) -> list[str] | None:
    return content(answer["content"]) if isinstance(answer.get("content"), list) else None


def _responses(answer: dict[str, Any]) -> list[str] | None:
    if not isinstance(answer.get("output"), list):
        return None
    parts: list[str] = []
    for item in map(mapping, answer["output"]):
        if str(item.get("type", "")).endswith("_call"):
            parts.append(_CALL)
        parts += content(item.get("content"))
    return parts


def _gemini(answer: dict[str, Any]) -> list[str] | None:
    if not isinstance(answer.get("candidates"), list):
        return None
    parts: list[str] = []
    for candidate in map(mapping, answer["candidates"]):
        for part in map(mapping, items(mapping(candidate.get("content")).get("parts"))):
            if "functionCall" in part:
                parts.append(_CALL)
            elif not part.get("thought"):
                parts.append(text(part.get("text")) or "")
    return parts


def _interactions(answer: dict[str, Any]) -> list[str] | None:
    if not isinstance(answer.get("steps"), list):
        return None
    parts: list[str] = []
    for step in map(mapping, answer["steps"]):
        if step.get("type") == "function_call":
            parts.append(_CALL)
        elif step.get("type") == "model_output":
            parts += content(step.get("content"))
    return parts


_REASONING = ("thinking", "redacted_thinking", "reasoning", "thought")
_WORDS = ("", "text", "output_text", "refusal")  # parts that hold what they say, or nothing


def reasons(value: object) -> bool:
    """Return True if a message's content holds the model's reasoning, readable or not."""
    parts = map(mapping, items(value))
    return any(part.get("type") in _REASONING or part.get("thought") for part in parts)


def content(value: object) -> list[str]:
    """Return the visible parts of a message's content; reasoning is none."""
    if isinstance(value, str):
        return [value]
    parts: list[str] = []
    for part in items(value):
        if isinstance(part, str):
            parts.append(part)
            continue
        kind = str(mapping(part).get("type", ""))
        if kind in ("tool_use", "tool_call", "function_call"):
            parts.append(_CALL)
        elif kind not in _REASONING:
            named = (text(mapping(part).get(key)) for key in ("text", "refusal", "content"))
            parts.append(next(filter(None, named), "" if kind in _WORDS else kind))
    return parts


def _reasoned(answer: dict[str, Any], usage: dict[str, Any]) -> bool:
    """Return True if an answer holds reasoning, or its usage counts some."""
    details = (
        usage,
        *(mapping(usage.get(f"{of}_tokens_details")) for of in ("completion", "output")),
    )
    if any(count(each.get(name)) for each in details for name in _REASONED):
        return True
    messages = (mapping(mapping(each).get("message")) for each in items(answer.get("choices")))
    if any(each.get("reasoning_content") or each.get("reasoning") for each in messages):
        return True
    candidates = map(mapping, items(answer.get("candidates")))
    parts = (mapping(each.get("content")).get("parts") for each in candidates)
    held = (answer.get("content"), answer.get("output"), answer.get("steps"), *parts)
    return any(map(reasons, held))


def _finish(answer: dict[str, Any]) -> str | None:
    first = mapping(
        next(iter(items(answer.get("choices")) or items(answer.get("candidates"))), None)
    )
    return (
        text(first.get("finish_reason"))
        or text(first.get("finishReason"))
        or text(answer.get("stop_reason"))
        or (text(answer.get("status")) if "steps" in answer else None)
    )


def tokens_of(usage: object) -> int | None:
    """Return a usage block's tokens, input and output; None if it counts none."""
    counts = mapping(usage)
    stated = count(counts.get("total_tokens"))
    names = (*_INPUT, *_OUTPUT)
    return total(count(counts.get(name)) for name in names) if stated is None else stated
