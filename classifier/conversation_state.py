"""Patterns of sentences about a conversation's state, by the names that rows have for them.

The state is signed or encrypted reasoning, tool calls with their results, and earlier turns.
Clients and gateways drop or change them, and a provider forgets what it keeps: none is a
credential. Names of fields stand in sentences quoted, with a blank, in snake_case or in camelCase.
"""

from __future__ import annotations

from typing import Final

_Q: Final = r"[`'\"]?"
_S: Final = r"[\s_-]?"


def _in_one_sentence(*parts: str, without: str = r"(?!)") -> str:
    """Return a pattern of parts in any order; a dot inside a path ends no sentence."""
    ahead = (rf"(?=(?:[^.\n]|\.(?=\S)){{0,400}}?(?:{part}))" for part in parts)
    denied = rf"(?!(?:[^.\n]|\.(?=\S)){{0,400}}?(?:{without}))"
    return rf"(?:\A|[.\n]\s*){denied}{''.join(ahead)}"


_REASONING: Final = (
    rf"(?:thoughts?|thinking|reasoning){_S}signatures?"
    rf"|signatures?{_Q} (?:field )?(?:in|of|for|on) [^.\n]{{0,20}}"
    r"(?:thinking|thought|reasoning|\bparts?\b|content block)"
    r"|\b(?:messages|contents?|parts)[.\[]\d[^\n]{0,40}?signature"
    r"|(?:thinking|reasoning)\.signature|content\[\]\.thinking"
    rf"|encrypted{_S}(?:content|reasoning|thinking|thought)"
    rf"|(?:redacted|previous){_S}thinking|of type {_Q}reasoning"
    rf"|\b(?:thinking|reasoning){_Q}{_S}(?:blocks?|items?|content|details)\b"
)
_SPOILT: Final = (
    r"corrupt|tamper|invalid(?![\W_]*(?:(?:request|argument|param\w*|input)\b|value:))"
    r"|not (?:a )?valid|malformed|missing|absent|mismatch|expired|not found|decrypt"
    r"|field required|without its required"
    r"|(?:fail|unable|could not|cannot|can't|error)[^.\n]{0,30}(?:verif|decod|pars|validat)"
    r"|(?:verification|validation|decoding) failed|not (?:be )?(?:verified|decoded|parsed|match)"
    r"|cannot be modified|must (?:remain|start|begin|be (?:passed|sent|returned|preserved|kept))"
    r"|must contain|unsigned|(?:bound|belongs?) to|issued for|different conversation"
)
_UNSUPPORTED: Final = r"(?:not |n't |un)support|not (?:allowed|permitted)"
_CALL: Final = rf"(?:tool{_S}(?:use|calls?)|function{_S}calls?)\b"
_RESULT: Final = (
    rf"(?:(?:tool|function){_S}(?:call{_S})?(?:results?|outputs?|responses?)|tool{_Q} messages?"
    rf"|role {_Q}tool|calls and responses)\b"
)
_UNPAIRED: Final = (
    r"without|follow|correspond|immediately|equal|same number|exceed|matching|prece|unexpected"
    r"|missing|\bno |not found|not find|not have|single result"
)
_CALL_IDS: Final = rf"\b(?:call_ids?|tool{_S}(?:(?:call|use|result){_Q}{_S})?ids?|toolUse blocks)\b"
_UNMATCHED: Final = (
    r"not found|unknown|without|unique|duplicate|unexpected|missing|match|not exist|not have"
    r"|must be answered"
)
_EARLIER: Final = (
    rf"\b(?:(?:previous|prior|earlier){_S}(?:response|interaction|message)(?:{_S}ids?)?"
    rf"|(?:response|item) (?:found )?with id|response {_Q}resp_\w+"
    r"|interaction|conversation|thread)\b"
)
_GONE: Final = (
    r"not (?:be |been )?(?:found|available)|not exist|no such|expired|no longer|deleted"
    r"|not persisted"
)

PATTERNS: Final = {
    "rejected_reasoning": _in_one_sentence(_REASONING, _SPOILT, without=_UNSUPPORTED),
    "unpaired_tool_call": (
        _in_one_sentence(_CALL, _RESULT, _UNPAIRED)
        + f"|{_in_one_sentence(_CALL_IDS, _UNMATCHED)}"
        + "|"
        + _in_one_sentence(_CALL, r"(?:has|have|had) no (?:output|result|response)")
        + rf"|(?:\bno|missing|\bexpected|multiple|orphan\w*)\W{{0,3}}{_RESULT}"
    ),
    "no_earlier_turn": _in_one_sentence(
        rf"{_EARLIER}(?:[^.\n]|\.(?=\S)){{0,60}}?(?:{_GONE})"
        rf"|(?:not|n't|to) find (?:\w+ ){{0,3}}?{_EARLIER}"
        rf"|\b(?:no|invalid) (?:\w+ )?{_Q}{_EARLIER}",
        without=r"\b(?:model|engine|deployment)s?\b",
    ),
}
