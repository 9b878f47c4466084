"""The dialect of a response, and `ResponseFacts`: the facts taken from one response so far.

They are counts and names, and of a text no more than one chat completion's, while its call
lasts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote

from classifier.records import COUNT_LIMIT

NAME_LIMIT = 200  # characters of a name
# What models are called, brackets too ("claude-sonnet-4-5[1m]"); a sentence has blanks.
_MODEL = re.compile(r"[A-Za-z0-9_.:/@+~,=*#()\[\]\\-]{1,200}")
_WORD = re.compile(r"[A-Za-z0-9_.:/=+-]{1,64}")
_WORDS = re.compile(r"(?:[A-Za-z0-9_.:/=+*@%~{}\[\]\",-]|(?<=[,:;]) ){1,128}")
# A key put where a name belongs would have a name's shape.
_KEY = re.compile(
    r"(?<![A-Za-z0-9])"
    r"(?:[spr]k[-_]|tz-|gsk_|xai-|hf_|nvapi-|AIza|AKIA|ASIA|eyJ|gh[a-z]_)[\w.-]{16}"
)
# Keys of errors with a value, for the patterns of dialects: behind a quote, which one of
# ``[bdeEfmM]`` has to follow.
FAILURE = (
    rb'(?:[eE]rr\w{0,12}|fault\w{0,8}|detail|base_resp)"\s*:\s*[^n\s]|(?:[mM]essage|msg)"\s*:\s*"'
)
_UNFIT = "unfit"  # a finish reason that was given, and is no word
_TEXT_OR_LIST = (str, list)
_OBJECTS = frozenset((dict,))
_DIGITS = re.compile(r" ?\d{1,18}(?:\.\d{1,18})? ?", re.ASCII)
_NOTHING: frozenset[str] = frozenset()


@dataclass(slots=True, init=False)
class ResponseFacts:
    """The facts taken from one response so far; None is unknown.

    The six token fields are the provider's own numbers. ``input_beside`` and ``output_beside`` are
    tokens that ``input_tokens`` and its cached parts, or ``output_tokens``, leave out (Gemini's
    tool use, Anthropic's compaction). ``input_total`` and ``output_total`` are set only where a
    provider states them and not their parts.
    ``output`` is true once anything was generated, reasoning included; ``content`` once that
    was more than reasoning: a text, a refusal, a tool call. ``has_part`` is true once the part
    that holds output was there, be it empty. ``calls`` names each tool call once.
    ``understood`` is true once a payload had the dialect's shape, ``ended`` once its terminal
    event came. ``response_id`` is the answer's own id; ``pending``, of one that can be fetched
    later, says whether it was still queued or in progress. ``served_by`` is the provider or region
    that the answer names, ``system_fingerprint`` as it states it, ``weight_version`` that of the
    weights, or several, oldest first, with commas between them. ``billed_as`` is a service tier
    other than the standard one, or paid tools of the provider's own, as `billed_as` names them.
    ``text`` is that of a chat completion without tool calls; of a stream its first piece.
    ``unreadable`` are the fields of counts and costs that no call can have.
    """

    model: str | None
    finish_reason: str | None
    output: bool
    content: bool
    has_part: bool
    calls: Set[Hashable]
    understood: bool
    ended: bool
    input_tokens: int | None
    output_tokens: int | None
    cached_input_tokens: int | None
    cache_write_tokens: int | None
    reasoning_tokens: int | None
    total_tokens: int | None
    input_beside: int | None
    output_beside: int | None
    input_total: int | None
    output_total: int | None
    cost_usd: float | None
    response_id: str | None
    pending: bool | None
    served_by: str | None
    system_fingerprint: str | None
    weight_version: str | None
    billed_as: str | None
    text: str | None
    unreadable: frozenset[str]

    # By hand, since a dataclass's own stays Python in the compiled copy, at six times the cost.
    def __init__(self) -> None:
        self.model = None
        self.finish_reason = None
        self.output = False
        self.content = False
        self.has_part = False
        self.calls = _NOTHING
        self.understood = False
        self.ended = False
        self.input_tokens = None
        self.output_tokens = None
        self.cached_input_tokens = None
        self.cache_write_tokens = None
        self.reasoning_tokens = None
        self.total_tokens = None
        self.input_beside = None
        self.output_beside = None
        self.input_total = None
        self.output_total = None
        self.cost_usd = None
        self.response_id = None
        self.pending = None
        self.served_by = None
        self.system_fingerprint = None
        self.weight_version = None
        self.billed_as = None
        self.text = None
        self.unreadable = _NOTHING

    def take_model(self, model: object) -> None:
        """Take the first usable model name (Azure's first chunk has ``""``)."""
        if self.model is None:
            self.model = model_name(model)

    def take_id(self, response_id: object) -> None:
        """Take the first id of the answer that is one (Azure's first chunk has ``""``)."""
        if self.response_id is None and response_id and isinstance(response_id, str):
            self.response_id = response_id

    def take_finish_reason(self, reason: object) -> None:
        """Take a finish reason; null and ``""`` mean that the response goes on."""
        stated = reason[:NAME_LIMIT] if isinstance(reason, str) else name(reason or None)
        if stated:
            try:
                self.finish_reason = _known_word(stated)
            except _Unfit:
                self.finish_reason = _UNFIT

    def add_tool_call(self, key: Hashable) -> None:
        """Count a tool call; the same key again is the same call."""
        if not isinstance(self.calls, set):
            self.calls = set(self.calls)
        self.calls.add(key)
        self.output = self.content = True
        self.text = None

    def note_content(self, text: object) -> None:
        """Note that there is content where the value is a non-empty text or list."""
        if text and isinstance(text, _TEXT_OR_LIST):
            self.output = self.content = True

    def note_items(self, *items: object) -> None:
        """Note that there is content where a value is a non-empty text, list or object."""
        for item in items:
            if item and isinstance(item, str | list | dict):
                self.output = self.content = True

    def note_paid_tools(self, ran: object) -> None:
        """Note that the provider ran tools that it charges for, where the value is not empty."""
        if ran:
            self.billed_as = _billed(_tier_in(self), tools=True)

    def note_reasoning(self, text: object) -> None:
        """Note that there is output where the value is a non-empty text or list."""
        if text and isinstance(text, _TEXT_OR_LIST):
            self.output = True


Payload = Mapping[str, object]
Headers = Sequence[tuple[bytes, bytes]]  # in order, duplicates too; names in lower case
Read = Callable[[ResponseFacts, Payload, str | None], None]
Totals = Callable[[ResponseFacts], tuple[int | None, int | None]]
Text = Callable[[Payload, str | None], str]


def no_text(payload: Payload, event: str | None) -> str:
    """Return nothing: the text of this dialect is not looked at."""
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One format of responses: data and stateless functions.

    ``read`` adds one JSON object to a reading: a whole body, or one stream event with the
    event's name. ``totals`` returns all input and all output tokens of a reading. ``relevant``
    matches, in the raw bytes of an event, anything that ``read`` needs once content has been
    seen, and ``relevant_reasoning`` while only reasoning has; an event without a match is not
    parsed. Each of their branches must begin with a quote: a quote inside a JSON string is
    escaped, so a quoted key in the bytes is a key. None: every event is relevant.
    ``cumulative`` means that each event repeats all counts, so that the newest is kept,
    unparsed, in case the stream is cut. ``known`` is false for a format that
    cannot be read. ``done`` is the data of a terminal event that is no JSON. ``shape_keys`` are
    top-level keys of which any identifies this dialect. ``text`` returns what a JSON object says
    of the answer's text, reasoning left out: a delta of it, or all of it. ``blamed`` returns the
    part of a JSON object in a 2xx that may hold the call's error; None: all of it may.
    """

    name: str
    read: Read
    totals: Totals
    relevant: re.Pattern[bytes] | None = None
    relevant_reasoning: re.Pattern[bytes] | None = None
    cumulative: bool = False
    known: bool = True
    done: bytes | None = None
    shape_keys: frozenset[str] = frozenset()
    text: Text = no_text
    blamed: Callable[[Payload], Payload] | None = None


def name(value: object) -> str | None:
    """Return a name cut to 200 characters; whole numbers are names too (Vertex enums)."""
    if isinstance(value, str):
        return value[:NAME_LIMIT] or None
    return str(value) if type(value) is int else None


def model_name(value: object) -> str | None:
    """Return a model's name that is safe to store; None if it may be a text or a key."""
    if not isinstance(value, str):
        return str(value) if type(value) is int else None
    try:
        return _known_model(value)
    except _Unfit:
        return None


def word(value: str) -> str | None:
    """Return a short technical word that is safe to store; None for what may be a text or key."""
    return value if _WORD.fullmatch(value) and not _KEY.search(value) else None


def are_words(value: str) -> bool:
    """Return True if a path, or a value in JSON or a list, is safe to store, as words are."""
    return _WORDS.fullmatch(value) is not None and not _KEY.search(value)


class _Unfit(Exception):
    """Not safe to store. Raised so that the caches below do not keep the value."""


# Few models and reasons repeat.
@lru_cache(maxsize=1024)
def _known_model(value: str) -> str:
    if not _MODEL.fullmatch(value) or _KEY.search(value):
        raise _Unfit
    return value


@lru_cache(maxsize=256)
def _known_word(value: str) -> str:
    if word(value) is None:
        raise _Unfit
    return value


def last_segment(path: str) -> str:
    """Return the last segment of a path or of an id, decoded."""
    return unquote(path.rstrip("/").rpartition("/")[2])[:NAME_LIMIT].rpartition("/")[2]


def count(value: object) -> int | None:
    """Return a token count: a whole number from 0 on.

    Also when written as a float (Cohere) or as a text (Yandex; protobuf's JSON of an int64).
    """
    if isinstance(value, str):
        value = _number_in(value)
    if type(value) is int:
        return value if 0 <= value <= COUNT_LIMIT else None
    if isinstance(value, float) and 0 <= value <= COUNT_LIMIT and value.is_integer():
        return int(value)
    return None


def is_beyond(value: object, limit: float) -> bool:
    """Return True if the value is a number that is over a limit or is not finite."""
    if isinstance(value, str):
        value = _number_in(value)
    return isinstance(value, int | float) and not value <= limit


def _number_in(text: str) -> float | None:
    """Return the number that a text of digits is; None if it is another text."""
    if not _DIGITS.fullmatch(text):
        return None
    return float(text) if "." in text else int(text)


def part(value: object) -> Payload:
    """Return the value where it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def joined(value: object) -> str:
    """Return a text, or the texts of a list of parts, those of reasoning left out."""
    if isinstance(value, list):
        return "".join(
            [
                text
                for piece in parts(value)
                if isinstance(text := piece.get("text"), str) and piece.get("thought") is not True
            ]
        )
    return value if isinstance(value, str) else ""


def parts(value: object) -> list[Payload]:
    """Return the objects of a list; empty where it is none."""
    if not isinstance(value, list):
        return []
    if _OBJECTS.issuperset(map(type, value)):  # nearly always: no copy
        return value
    return [item for item in value if isinstance(item, dict)]


# --- who served an answer: provider or region, weights, fallback -------------------------------
# Only short technical words are taken: a header or a field may hold anything.


# Hugging Face's router (huggingface.co/docs/inference-providers), Azure OpenAI
# (learn.microsoft.com/azure/ai-services/openai, the region that answered), LiteLLM
# (docs.litellm.ai/docs/proxy/response_headers).
_SERVED_BY = (b"x-inference-provider", b"x-ms-region", b"x-litellm-model-region")
# How many models were given up before the one that answered. LiteLLM (docs.litellm.ai/docs/proxy/
# response_headers), Cloudflare AI Gateway (developers.cloudflare.com/ai-gateway/configuration/
# fallbacks) and Helicone (docs.helicone.ai/getting-started/integration-method/gateway-fallbacks).
_FALLBACKS = (b"x-litellm-attempted-fallbacks", b"cf-aig-step", b"helicone-fallback-index")
# Portkey states the target that answered (portkey.ai/docs/api-reference/response-schema), as
# "config.targets[0].targets[1]": the first of all is no fallback; another one may be one, or a
# load balancer's choice.
_PORTKEY = b"x-portkey-last-used-option-index"
_FIRST = re.compile(rb"(?:config)?(?:\.?targets\[0\])*|0")
# ai.google.dev/gemini-api/docs/priority-inference: the tier that served the request.
_TIER = b"x-gemini-service-tier"
HEADERS: frozenset[bytes] = frozenset((*_SERVED_BY, *_FALLBACKS, _PORTKEY, _TIER))

# Where SGLang's OpenAI-compatible answers state the version of their weights
# (python/sglang/srt/utils/weight_versions.py; ``sglext``: sgl-project/sglang#40347). vLLM states it
# with no answer yet (vllm-project/vllm#49040, #54443).
_WEIGHED = ("metadata", "sglext")
_LONGEST = 64  # characters of one version, and of several
FIELDS: frozenset[str] = frozenset(("provider", "system_fingerprint", "service_tier", *_WEIGHED))
# "Google AI Studio", "Amazon Bedrock": openrouter.ai/docs/api-reference/overview (provider).
_NAME = re.compile(r"[A-Za-z0-9.-]{1,24}(?: [A-Za-z0-9.-]{1,24}){0,2}")


def served_by(headers: Mapping[bytes, bytes]) -> str | None:
    """Return the provider or region that headers name; names in lower case."""
    for name in _SERVED_BY:
        if name in headers:
            return word(headers[name].decode("latin-1"))
    return None


def fallback(headers: Mapping[bytes, bytes]) -> bool | None:
    """Return True if headers say that another model answered than asked; None if unknown."""
    counts = [headers[name] for name in _FALLBACKS if name in headers]
    stated = [int(value) > 0 for value in counts if value.isdigit() and len(value) < 4]
    if stated:
        return any(stated)
    return False if _PORTKEY in headers and _FIRST.fullmatch(headers[_PORTKEY]) else None


def take_serving(reading: ResponseFacts, payload: Payload) -> None:
    """Take what an OpenAI-compatible payload states beside its model."""
    fingerprint = payload.get("system_fingerprint")
    if reading.system_fingerprint is None and isinstance(fingerprint, str):
        reading.system_fingerprint = word(fingerprint)
    take_provider(reading, payload.get("provider"))
    take_tier(reading, payload.get("service_tier"))
    for place in _WEIGHED:
        take_weights(reading, payload.get(place))


def take_weights(reading: ResponseFacts, stated: object) -> None:
    """Take the version of the weights, or all that one answer spans, from where it is stated.

    SGLang: ``weight_version``, and ``weight_versions``, a list of ``{version, start, end}`` over
    the tokens of the answer (its ``update_weights_from_…`` with ``pause_generation``).
    """
    if not isinstance(stated, dict):
        return
    spans = [span.get("version") for span in parts(stated.get("weight_versions"))]
    known = reading.weight_version.split(",") if reading.weight_version else []
    for version in spans or [stated.get("weight_version")]:
        text = str(version) if type(version) is int else version
        if isinstance(text, str) and word(text) and text not in known:
            known.append(text)
    if known:
        reading.weight_version = _listed(known)


def _listed(versions: list[str]) -> str:
    """Return them with commas between; of too many the first and the last, or the last alone."""
    for some in (versions, [versions[0], versions[-1]]):
        if len(joined := ",".join(some)) <= _LONGEST:
            return joined
    return versions[-1]


def take_provider(reading: ResponseFacts, provider: object) -> None:
    """Take the name of a provider or region; blanks inside become hyphens."""
    if reading.served_by is None and isinstance(provider, str) and _NAME.fullmatch(provider):
        reading.served_by = word(provider.replace(" ", "-"))


# --- how an answer is billed -------------------------------------------------------------------
# A table of prices holds those of tokens at the standard tier. Of a tier no more is kept than one
# of these words.


_STANDARD: frozenset[str] = frozenset(
    ("auto", "default", "standard", "standard_only", "on_demand", "unspecified", "normal",
     "traffic_type_unspecified", "service_tier_unspecified")
)  # fmt: skip
_TIERS: Mapping[str, str] = {
    "priority": "priority", "on_demand_priority": "priority", "flex": "flex",
    "on_demand_flex": "flex", "batch": "batch", "scale": "scale", "reserved": "provisioned",
    "provisioned": "provisioned", "provisioned_throughput": "provisioned", "fast": "fast",
    "optimized": "fast",
}  # fmt: skip


def take_tier(reading: ResponseFacts, *stated: object) -> None:
    """Take the service tier that an answer states; a later event states the one that served it.

    Arguments:
        stated: its words, of which one that is not standard decides; others are no texts.
    """
    words = [each.lower() for each in stated if isinstance(each, str) and each]
    if words:
        priced_apart = [each for each in words if each not in _STANDARD]
        named = _TIERS.get(priced_apart[0], "other") if priced_apart else None
        reading.billed_as = _billed(named, tools=_ran_tools(reading))


def billed_as(reading: ResponseFacts, head: str | None) -> str | None:
    """Name what a call is billed by beside the standard price of its tokens; None if nothing is.

    A tier, ``tools`` for paid tools, or both with a plus between them.

    Arguments:
        head: the tier that a header states, which holds where the answer states no other.
    """
    return _billed(_tier_in(reading) or head, tools=_ran_tools(reading))


def _billed(tier: str | None, *, tools: bool) -> str | None:
    return "+".join([*([tier] if tier else []), *(["tools"] if tools else [])]) or None


def _tier_in(reading: ResponseFacts) -> str | None:
    return (reading.billed_as or "").removesuffix("tools").removesuffix("+") or None


def _ran_tools(reading: ResponseFacts) -> bool:
    return (reading.billed_as or "").endswith("tools")


def tier(headers: Mapping[bytes, bytes]) -> str | None:
    """Return the service tier that headers state, None for the standard one."""
    reading = ResponseFacts()
    take_tier(reading, headers.get(_TIER, b"").decode("latin-1"))
    return reading.billed_as
