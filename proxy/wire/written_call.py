"""Find a tool call that stands in an answer's text, where its server left it unparsed.

A model that calls a tool stops there and waits for the result, so a real call is the end of the
text; what is quoted in prose or in a code fence is none. Text is looked at and let go: only what
may still become a call is held, up to a limit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any, Final

from proxy.wire import libraries
from proxy.wire.dialect import Payload, part, parts

# How the raw call begins, by whose format it is:
# Hermes, Qwen, Granite, GLM (vllm tool_parsers: hermes, granite, glm4_moe), Hunyuan and Jamba,
# Llama 3 (llama), Mistral (mistral), Qwen3-Coder and Llama 3.1 (qwen3coder), DeepSeek
# (deepseekv3, deepseekv31), Kimi (kimi_k2), InternLM (internlm2), Command (cohere), MiniMax and
# what is written like Anthropic's own prompt (minimax_m2), gpt-oss (openai harmony).
_OPENINGS: Final = (
    r"<\|?tool_calls?\|?>", r"<\|python_tag\|>", r"\[TOOL_CALLS\]", r"<function=",
    r"<｜+tool▁call▁begin｜>", r"<\|tool_call_begin\|>", r"<\|action_start\|>",
    r"<\|START_ACTION\|>", r"<(?:[a-z]+:|｜DSML｜)?invoke name=", r"<\|channel\|>",
)  # fmt: skip
_OPENING: Final = re.compile("|".join(_OPENINGS))
_FENCE: Final = "```"
_TOKEN: Final = re.compile("|".join((*_OPENINGS, _FENCE)))
_LONGEST: Final = 32  # characters of an opening, at most
# The end of a text that may be the beginning of one of these.
_UNFINISHED: Final = re.compile(
    rf"(?:<(?:[a-z|｜][^<>\[`]{{0,{_LONGEST}}})?|\[[A-Z_]{{0,11}}|`{{1,2}})\Z"
)
# What in an event's bytes may begin one; "<" as Go's JSON has it, "[" beside a quote or a "T".
TRIGGER: Final = rb'<|`|\\u003[cC]|\[["T]'
_TRIGGER: Final = re.compile(TRIGGER)

_NAME: Final = r"(?:functions\.)?(?P<name>[\w.:-]{1,128}?)"
_JSON: Final = r"(?P<json>[\[{].*[\]}])"
_ARGUMENTS: Final = r"(?P<arguments>\{.*\})"
# Blanks are bounded, and each pattern has one unbounded part: none takes more than linear time.
_S: Final = r"\s{0,9}"
_DEEPSEEK: Final = (
    rf"<｜+tool▁call▁begin｜>(?:function<｜+tool▁sep｜>)?{_NAME}{_S}(?:<｜+tool▁sep｜>)?{_S}"
    rf"(?:```json{_S})?{_ARGUMENTS}{_S}(?:```{_S})?<｜+tool▁call▁end｜>{_S}(?:<｜+tool▁calls▁end｜>)?"
)
_KIMI: Final = (
    rf"<\|tool_call_begin\|>{_S}{_NAME}(?::\d{{1,9}})?{_S}<\|tool_call_argument_begin\|>{_S}"
    rf"{_ARGUMENTS}{_S}<\|tool_call_end\|>{_S}(?:<\|tool_calls_section_end\|>)?"
)
_INVOKE: Final = (
    rf'<(?:[a-z]+:|｜DSML｜)?invoke name="(?P<name>[^"]{{1,128}})">{_S}'
    rf"(?:<[^<>]{{0,24}}parameter.*>{_S})?</(?:[a-z]+:|｜DSML｜)?invoke>{_S}(?:</[\w:｜]{{1,40}}>)?"
)
_HARMONY: Final = (
    rf"<\|channel\|>commentary to={_NAME}{_S}(?:<\|constrain\|>{_S}json)?{_S}<\|message\|>{_S}"
    rf"{_ARGUMENTS}{_S}(?:<\|call\|>)?"
)
_CALLS: Final = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        rf"<\|?tool_calls?\|?>{_S}{_JSON}{_S}(?:</?\|?tool_calls?\|?>)?",
        rf"(?:<\|python_tag\|>|\[TOOL_CALLS\]){_S}{_JSON}",
        rf"<\|action_start\|>{_S}<\|plugin\|>{_S}{_JSON}{_S}(?:<\|action_end\|>)?",
        rf"<\|START_ACTION\|>{_S}{_JSON}{_S}(?:<\|END_ACTION\|>)?",
        rf"\[TOOL_CALLS\]{_S}{_NAME}(?:\[CALL_ID\]\w{{1,64}})?(?:\[ARGS\])?{_S}{_ARGUMENTS}",
        rf"<function={_NAME}>{_S}{_ARGUMENTS}{_S}(?:</function>)?{_S}(?:</tool_call>)?",
        rf"<function={_NAME}>{_S}(?:<parameter=.*</parameter>{_S})?</function>{_S}(?:</tool_call>)?",
        rf"<tool_call>{_NAME}{_S}(?:<arg_key>.*</arg_value>{_S})?</tool_call>",
        _DEEPSEEK,
        _KIMI,
        _INVOKE,
        _HARMONY,
    )
)
# How a call ends, where its format says so; prose behind it makes it a quotation.
_CLOSING: Final = re.compile(
    r"</tool_calls?>|</function>|tool▁calls?▁end｜>|<\|tool_calls?(?:_section)?_end\|>"
    r"|</(?:[a-z]+:|｜DSML｜)?invoke>|<\|action_end\|>|<\|END_ACTION\|>|<\|call\|>"
)
# What stands between an opening and the tool's name.
_BEFORE_NAME: Final = ("{", "[", "<", "function<", "commentary to=")
_NAMED: Final = re.compile(r'"?(?:functions\.)?([\w.:-]+)')
_NAMES: Final = ("name", "tool_name")  # in JSON; Command's is the second
_BLANKS: Final = " \t\r\n"
_FIRST_LOOK: Final = 128  # characters behind an opening; then at twice as many each time
_LIMIT: Final = 65_536  # characters held
_TRIED: Final = 4  # openings in the held text, from the last one on
_TOOLS: Final = 1_024


def offered(payload: Payload) -> frozenset[str]:
    """Return the names of the tools that a JSON request offers."""
    tools: Any = payload.get("tools")
    for names_in in _SHAPES:
        try:
            names = frozenset(names_in(tools))
        except (KeyError, TypeError):
            continue
        if _STRINGS.issuperset(map(type, names)):
            return names
    return frozenset(_names(payload)) | frozenset(_names(part(payload.get("request"))))


# As nearly all requests have them, read without a step a tool: Anthropic and Responses; chat.
_SHAPES: Final[tuple[Callable[[list[Any]], Iterator[Any]], ...]] = (
    lambda tools: map(itemgetter("name"), tools),
    lambda tools: map(itemgetter("name"), map(itemgetter("function"), tools)),
)
_STRINGS: Final = frozenset((str,))


def _names(holder: Payload) -> Iterator[str]:
    tools = holder.get("tools") or holder.get("functions")
    for tool in parts(tools or part(holder.get("toolConfig")).get("tools"))[:_TOOLS]:
        inner = tool.get("function") or tool.get("toolSpec") or tool
        declared = tool.get("functionDeclarations") or tool.get("function_declarations")
        for each in (inner, *parts(declared)[:_TOOLS]):
            name = part(each).get("name")
            if isinstance(name, str):
                yield name


class WrittenCall:
    """A detector of answers whose text ends in a raw call of an offered tool.

    Arguments:
        names: of the tools that were offered.
    """

    __slots__ = ("_closed", "_fenced", "_held", "_look_at", "_names", "_prefixes", "_size",
                 "_verdict")  # fmt: skip

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names
        self._prefixes = tuple(names)
        self.begin()

    def begin(self) -> None:
        """Take that the text begins here, anew or not."""
        self._fenced = False
        self._held: list[str] = []  # from what may be an opening, or the beginning of one
        self._size = 0
        self._look_at = 0  # at which size what is held is looked at again
        self._closed = False  # nothing more is looked at
        self._verdict: bool | None = None  # then

    def close(self, verdict: bool | None) -> None:
        """Look at nothing more: a tool was called as it should be, or too much was held."""
        self._held, self._closed, self._verdict = [], True, verdict

    @property
    def holds(self) -> bool:
        """True if every further text must be looked at."""
        return bool(self._held)

    def wants(self, data: bytes) -> bool:
        """Return True if the text in an event's bytes must be looked at."""
        if self._closed:
            return False
        return bool(self._held) or _TRIGGER.search(data) is not None

    def take(self, text: str) -> None:
        """Take the next piece of the text, or one of which the pieces before had no trigger."""
        if self._closed or not (self._held or "<" in text or "[" in text or "`" in text):
            return
        self._held.append(text)
        self._size += len(text)
        if self._size >= self._look_at:
            self._look("".join(self._held))

    def ends_in_call(self) -> bool | None:
        """Return True if the text so far ends in a call, None if too much of it was held."""
        if self._closed:
            return self._verdict
        text = "".join(self._held).rstrip(_BLANKS)
        openings = [match.start() for match in _OPENING.finditer(text)]
        return any(
            text.count(_FENCE, 0, start) % 2 == 0 and self._is_call(text, start)
            for start in openings[: -_TRIED - 1 : -1]
        )

    def _look(self, text: str) -> None:
        """Let go of the text up to where a call may begin."""
        at = _quoted(text)
        self._fenced ^= text.count(_FENCE, 0, at) % 2 == 1
        while (token := _TOKEN.search(text, at)) is not None:
            at = token.end()
            if token[0] == _FENCE:
                self._fenced = not self._fenced
            elif not self._fenced and self._may_be_call(text, at):
                short = len(text) - at < _FIRST_LOOK  # for a verdict
                size = len(token[0]) + _FIRST_LOOK if short else 2 * (len(text) - token.start())
                self._hold(text[token.start() :], size)
                return
        unfinished = _UNFINISHED.search(text, max(at, len(text) - _LONGEST - 1))
        self._hold(text[unfinished.start() :] if unfinished else "", 0)

    def _hold(self, text: str, look_at: int) -> None:
        self._held = [text] if text else []
        self._size = len(text)
        self._look_at = look_at
        if self._size > _LIMIT:
            self.close(None)

    def _may_be_call(self, text: str, start: int) -> bool:
        """Return True if a call may follow an opening, as far as the text came."""
        if len(text) - start < _FIRST_LOOK:
            return True
        head = text[start : start + _FIRST_LOOK].lstrip(_BLANKS)
        if head.startswith(_BEFORE_NAME):
            return True
        named = _NAMED.match(head)
        return named is not None and named[1].startswith(self._prefixes)

    def _is_call(self, text: str, start: int) -> bool:
        """Return True if the text is one call from an opening to its end."""
        for pattern in _CALLS:
            match = pattern.fullmatch(text, start)
            if match is not None and self._names_offered(match.groupdict()):
                return True
        return False

    def _names_offered(self, groups: dict[str, str | None]) -> bool:
        name, written, arguments = (groups.get(key) for key in ("name", "json", "arguments"))
        if written is not None:
            calls = _parsed(written)
            calls = calls if isinstance(calls, list) else [calls]
            return bool(calls) and all(self._is_offered(_name_of(call)) for call in calls)
        if arguments is not None and not isinstance(_parsed(arguments), dict):
            return False
        return self._is_offered(name)

    def _is_offered(self, name: object) -> bool:
        return isinstance(name, str) and name in self._names


def _quoted(text: str) -> int:
    """Return where the last call that prose follows ends; 0 where there is none."""
    end = 0
    for closing in _CLOSING.finditer(text):
        end = closing.end()
    behind = text[end : end + _FIRST_LOOK].lstrip(_BLANKS)
    return end if behind and behind[0] not in "<[" else 0


def _parsed(text: str) -> object:
    try:
        return libraries.loads(text)
    except libraries.JSONDecodeError:
        return None


def _name_of(call: object) -> object:
    """Return the name in a call that is written as a JSON object."""
    if not isinstance(call, dict):
        return None
    inner = part(call.get("function")) or call
    return next((inner[key] for key in _NAMES if key in inner), None)
