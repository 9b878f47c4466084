"""Find the answer of an upstream that a gateway quotes in its own sentence.

Gateways and clients' exceptions put what they were told into one string, with the status in words
and the body as JSON or as Python prints it: ``litellm.RateLimitError: OpenAIException - {…}``,
``Error from provider(p,m: 400): {…}``, ``Error code: 402 - {'error': …}``, ``500: 429: …``.

A request may be quoted too, and an agent writes it. So the words before a body have to name an
upstream, a status or an exception, and neither a part of a request nor a quotation.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

_LEAD: Final = 200  # characters before a body
_LONGEST: Final = 16 * 1024  # of a body

# Up to a status at the very beginning: "[p/m] [429]", "upstream returned 401", "500: 429:".
_STATED: Final = re.compile(
    r"(?:\[[^\[\]\n]{1,80}\][ ]?){0,2}"
    r"(?:(?:[A-Za-z_]\w{0,40}\.){0,3}[A-Z]\w{0,60}(?:Error|Exception)[ ]?[:-][ ]?){0,3}"
    r"(?:(?:upstream|provider|backend|server|api|http|error|status|code|response|request|call"
    r"|returned|responded|answered|replied|failed|unexpected|with|an?|from|the)[ :(\[]{1,3}){0,8}"
    r"[\[(]?(?P<status>[45]\d\d)(?=[\])]?[ ]?(?:[:,.–-]|\Z|body\b))"
    r"(?:[\])]?[ ]?[:-][ ]?(?P<inner>[45]\d\d)(?=[ ]?[:-]))?",
    re.IGNORECASE,
)
# Or in brackets, or before a phrase, behind whose answer it is: "Vertex says: 429 Resource …".
_TOLD: Final = re.compile(
    r"\b(?:upstream|provider|backend|target|channel|deployment|gateway|relay|fallback|last|worker"
    r"|engine|vertex|openai|anthropic|azure|bedrock|gemini)\b[^\n{}'\"`]{0,80}?"
    r"(?:[\[(](?P<bracketed>[45]\d\d)[\])]"
    r"|\b(?:status(?:[ _]code)?|code|https?)[ :=]{1,2}(?P<named>[45]\d\d)\b"
    r"|(?:said|says|with|last|error|failed|returned)[ :]{1,2}(?P<bare>[45]\d\d)(?=[ ][A-Z]|[:,]))",
    re.IGNORECASE,
)
# What Python's clients raise: requests, httpx and aiohttp, in this order.
_RAISED: Final = re.compile(
    r"(?<![\w.-])([45]\d\d) (?:Client|Server) Error: [^:\n]{0,60} for url\b"
    r"|\b(?:Client|Server) error '([45]\d\d)[^'\n]{0,60}' for url\b"
    r"|(?<![\w.-])([45]\d\d), message='"
)
_STATUS: Final = re.compile(r"(?<![\w.-])[45]\d\d(?=[\])]{0,2}[ ]?[:,–-])")
_UPSTREAM: Final = re.compile(
    r"\b(?:upstream|provider|backend|(?:[A-Z]\w{0,60})?(?:Error|Exception))\b|\bsent us\b"
)
_OF_A_REQUEST: Final = re.compile(
    r"[`'\"“”]|\b(?:got|received|input|prompt|content|value|given|arguments?|parameters?|params?"
    r"|fields?|messages?|tools?|functions?|schema|models?|role|json|request|body of)[ ]?[:=]?\s*\Z",
    re.IGNORECASE,
)
# Words before a status that make it another host's, or one that a request may have written.
_ELSEWHERE: Final = re.compile(
    r"[`'\"]|\b(?:image|picture|audio|video|media|file|url|model(?! server)|tool|function|param"
    r"|value|field|argument|role|schema|prompt|input|content|got|received)",
    re.IGNORECASE,
)
_TAIL: Final = re.compile(r"\s*(?:\Z|Error\b|[^\w\s`'\"])")
_REMARK: Final = re.compile(r"[}\]][ ]?\(([^(){}\[\]\"']{1,80})\)\Z")  # "(reset after 3h)"
_DECODER: Final = json.JSONDecoder()
# Python's repr: strings in either quotes, and its constants. What is escaped begins no string.
_PRINTED: Final = re.compile(
    r"\\.|'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"|\b(None|True|False)\b", re.DOTALL
)
_CONSTANTS: Final = {"None": "null", "True": "true", "False": "false"}
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotedAnswer:
    """The status of an upstream's answer, its body, and what a gateway adds in brackets behind."""

    status: int | None
    body: object = None
    remark: str = ""


def quoted_answer(text: str) -> QuotedAnswer | None:
    """Find the upstream's answer in a gateway's sentence; None if it quotes none."""
    text = text.strip()
    stated = _STATED.match(text)
    status = int(stated["inner"] or stated["status"]) if stated else _told(text[:_LEAD])
    body = None
    lead, brace, _ = text[: _LEAD + 1].partition("{")
    if brace and (lead := lead.removesuffix("[")):
        found = _STATUS.findall(lead)
        status = int(found[-1]) if found else status
        told = status is not None or _UPSTREAM.search(lead) is not None
        if told and _OF_A_REQUEST.search(lead) is None:
            body = _body(text, len(lead))
    if status is None and body is None:
        return None
    remark = None if body is None else _REMARK.search(text)
    return QuotedAnswer(status=status, body=body, remark=remark[1] if remark else "")


def _told(text: str) -> int | None:
    """Return the status that a gateway tells of an upstream, or that a Python client raised."""
    told = _TOLD.search(text)
    if told is None or _ELSEWHERE.search(text[: told.end()]) is not None:
        return _raised(text)
    return int(told["bracketed"] or told["named"] or told["bare"])


def _raised(text: str) -> int | None:
    """Return the status in what a Python client raised, if no part of a request stands before."""
    raised = _RAISED.search(text)
    if raised is None or _OF_A_REQUEST.search(text[: raised.start()]) is not None:
        return None
    return int(next(filter(None, raised.groups())))


def _body(text: str, start: int) -> object:
    """Return the object or list that begins at a place and ends the sentence; None if none does."""
    text = text[start : start + _LONGEST]
    for written in (text, _as_json(text)):
        try:
            body, end = _DECODER.raw_decode(written)
        except (ValueError, RecursionError):
            continue
        return body if _TAIL.match(written, end) else None
    return None


def _as_json(text: str) -> str:
    """Rewrite what Python prints of dicts and lists as JSON."""
    return _PRINTED.sub(_token, text)


def _token(match: re.Match[str]) -> str:
    if match[3]:
        return _CONSTANTS[match[3]]
    inner: str | None = match[1] if match[1] is not None else match[2]
    return match[0] if inner is None else json.dumps(_ESCAPE.sub(_unescaped, inner))


_UNESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t"}


def _unescaped(match: re.Match[str]) -> str:
    letter: str = match[1]
    return _UNESCAPED.get(letter, letter)
