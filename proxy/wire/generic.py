"""Read an answer by its shape, at paths whose format nobody documents here.

Two things are looked for: a shape that a known dialect has (`known_shape`), wherever it is served;
and the text or tokens of a model under the names that other wires share (`OutputFinder`). Scrapers,
rerankers, moderation, tool servers and telemetry answer in similar words. So at an unknown path a
text counts where its name or what stands beside it says that a model wrote it: a finish reason,
counted output tokens, the role of an assistant. Rather is an unusual answer missed than a log
server taken for a model.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from typing import Final

from proxy.wire import jobs, libraries, usage
from proxy.wire.dialect import (
    NAME_LIMIT,
    Dialect,
    Payload,
    ResponseFacts,
    last_segment,
    name,
    part,
    parts,
)
from proxy.wire.dialects import anthropic, bedrock, gemini, openai, others

MEDIA: Final = ("image/", "audio/", "video/")  # how content types begin that are no text's
WINDOW: Final = 65_536  # bytes, at the beginning and at the end of an answer, that are read
_MEMBERS: Final = 64  # of an object
_ITEMS: Final = 16  # of a list
_BLANKS: Final = 3  # in a sentence, at least
_DEPTH: Final = 6  # of objects and lists
_OBJECTS: Final = 512  # of one document


# --- shapes of known dialects ------------------------------------------------------------------


_BLOCK_EVENTS: Final = frozenset(("content_block_start", "content_block_delta"))
_COHERE_EVENTS: Final = frozenset(("content-start", "content-delta", "tool-call-start",
                                   "message-end"))  # fmt: skip
_INTERACTION_EVENTS: Final = frozenset(("interaction.created", "step.start", "step.delta"))
_CONVERSE_EVENTS: Final = frozenset(("contentBlockStart", "contentBlockDelta", "messageStop"))


def known_shape(payload: Payload, event: str | None) -> tuple[Dialect, str] | None:
    """Return the dialect whose answer this is, and its API's name; None if it is of none.

    Keys that others use too do not suffice: polls have ``choices``, and jobs an ``output``.
    """
    if "jsonrpc" in payload:
        return None  # of a tool's server: modelcontextprotocol.io
    kind = payload.get("type")
    choices = parts(payload.get("choices"))[:_ITEMS]
    if any(map(_is_choice, choices)):
        legacy = not any(map(openai.speaks, choices))
        return (openai.COMPLETIONS if legacy else openai.CHAT), "openai.chat"
    inner = part(payload.get("response"))
    if any(map(_is_candidate, parts((inner or payload).get("candidates"))[:_ITEMS])):
        return gemini.GENERATE, "gemini.generateContent"
    if _is_message(payload, kind):
        return anthropic.MESSAGES, "anthropic.messages"
    if _is_response(payload, kind):
        return openai.RESPONSES, "openai.responses"
    if _is_interaction(payload):
        return gemini.INTERACTIONS, "gemini.interactions"
    message = part(part(payload.get("output")).get("message"))
    if event in _CONVERSE_EVENTS or ("stopReason" in payload and "content" in message):
        return bedrock.CONVERSE, "bedrock.converse"
    answer = payload.get("message") or isinstance(payload.get("response"), str)
    if answer and isinstance(payload.get("done"), bool) and isinstance(payload.get("model"), str):
        return others.OLLAMA_CHAT, "ollama.chat"
    meta = payload.get("meta_info")
    if isinstance(meta, dict) and ("finish_reason" in meta or "completion_tokens" in meta):
        return others.SGLANG_GENERATE, "sglang.generate"
    message = part(payload.get("message"))
    ends = isinstance(payload.get("finish_reason"), str) and message.get("role") == "assistant"
    if kind in _COHERE_EVENTS or (ends and isinstance(message.get("content"), list)):
        return others.COHERE_CHAT, "cohere.v2.chat"
    return None


def _is_choice(choice: Payload) -> bool:
    for key in ("message", "delta"):
        value = choice.get(key)
        if isinstance(value, dict) and (
            "role" in value or "content" in value or "tool_calls" in value
        ):
            return True
    scored = "finish_reason" in choice or "logprobs" in choice
    return scored and isinstance(choice.get("text"), str)


def _is_candidate(candidate: Payload) -> bool:
    return "parts" in part(candidate.get("content")) or isinstance(
        candidate.get("finishReason"), str
    )


def _is_message(payload: Payload, kind: object) -> bool:
    if kind == "message":
        return payload.get("role") == "assistant" and isinstance(payload.get("content"), list)
    if kind == "message_start":
        return part(payload.get("message")).get("role") == "assistant"
    return kind in _BLOCK_EVENTS and "index" in payload


def _is_response(payload: Payload, kind: object) -> bool:
    response = payload.get("response")
    if isinstance(response, dict) and response.get("object") == "response":
        return True
    if isinstance(kind, str) and kind.startswith("response.") and kind.endswith(".delta"):
        return "item_id" in payload or "output_index" in payload
    return payload.get("object") == "response" and isinstance(payload.get("output"), list)


def _is_interaction(payload: Payload) -> bool:
    kind = payload.get("event_type")
    if isinstance(kind, str) and kind in _INTERACTION_EVENTS:
        return True
    return payload.get("object") == "interaction" and isinstance(payload.get("status"), str)


# --- names that other wires share --------------------------------------------------------------
# They are compared without case and underscores: Tencent writes `FinishReason`.


# Texts that only a model's server names so: TGI, SageMaker, watsonx, Salesforce; Triton; Titan.
_GENERATED: Final = frozenset(("generatedtext", "generatedtexts", "textoutput", "outputtext"))
# Tokens by number: SGLang, TRL (trl/scripts/vllm_serve.py), verl.
_TOKENS: Final = frozenset(("outputids", "outputtokenids", "completionids", "generatedids",
                            "generatedtokenids"))  # fmt: skip
# Texts that a chat writes: Dify, custom assistants. Web searches have them too.
_REPLIES: Final = frozenset(("answer", "reply"))
# Texts that may be anybody's: they need a sign beside them.
_NAMED: Final = frozenset(("response", "output", "completion", "completions", "generation",
                           "generations", "predictions", *_REPLIES))  # fmt: skip
_PLAIN: Final = frozenset(("text", "content", "value", "result", "results", "outputs", "responses",
                           "token", "tokens"))  # fmt: skip
# Objects and lists that may hold one.
_HOLDERS: Final = frozenset((
    "choices", "candidates", "alternatives", "sequences", "message", "delta", "data", "payload",
    "body", "interaction", "chatresponse", "inferenceresponse", "orchestrationresult",
    "finalresult", "requiredaction", "submittooloutputs",
)) | _GENERATED | _NAMED | _PLAIN  # fmt: skip
# Beside one of these a text is a document, a label, a program's output, a transcript.
_NO_MODELS: Final = frozenset((
    "url", "link", "href", "uri", "score", "scores", "relevancescore", "similarity",
    "distance", "embedding", "embeddings", "vector", "label", "labels", "flagged", "markdown",
    "html", "exitcode", "returncode", "stdout", "stderr", "transcript", "confidence", "iserror",
    "query", "documents", "sha", "encoding",
))  # fmt: skip
# A row of a log, which says what was asked too; Replicate does at paths of its own.
_ECHOED: Final = frozenset(("input", "inputs", "prompt", "request"))
# Texts that answer a question, where one was asked; a word that tells of a status is none.
_LIKELY: Final = frozenset(("output", "outputs", "response", "responses", "completion", "text",
                            "completions", "generation", "generations", "content", "answer",
                            "reply"))  # fmt: skip
_WORDS: Final = frozenset((
    "", "ok", "okay", "success", "successful", "succeeded", "accepted", "done", "queued",
    "received", "created", "completed", "processed", "saved", "stored", "true", "false", "none",
    "null",
))  # fmt: skip
# Of a request: what asks a model; and what asks a scraper, a reranker, a sandbox.
_ASKING: Final = frozenset((
    "messages", "prompt", "inputs", "input", "contents", "instances", "question", "conversation",
    "textinput", "chathistory", "instruction", "instructions", "userinput", "inputtext",
    "additionalmessages",
))  # fmt: skip
_OTHERWISE: Final = frozenset((
    "url", "urls", "documents", "texts", "passages", "code", "command", "cmd", "events", "event",
    "logs", "spans", "traces", "outputs", "output", "response", "file", "files", "html",
    "choices", "options",
))  # fmt: skip
_AI: Final = frozenset(("ai", "AIMessage", "AIMessageChunk"))  # types of LangChain's messages
_CALLS: Final = frozenset(("function_call", "function.call", "tool_use", "tool_call"))
_ASSISTANTS: Final = frozenset(("assistant", "model", "ai", "bot", "chatbot"))
_OTHERS: Final = frozenset(("user", "human", "system", "developer", "tool", "function"))
_VECTORS: Final = frozenset(("embedding", "embeddings", "vectors"))

_REASONS: Final = ("finishreason", "stopreason", "donereason", "completionreason", "stoptype")
_MODELS: Final = ("model", "modelid", "modelname", "modelversion", "deployedmodelid")
_USAGES: Final = ("usage", "usagemetadata", "metrics", "details", "meta", "tokens", "billedunits",
                  "metadata")  # fmt: skip
_COUNTS: Final[Mapping[str, str]] = {
    name: field
    for field, names in {
        "input_tokens": (
            "prompttokens", "inputtokens", "inputtokencount", "prompttokencount",
            "inputtexttokens", "inputlength", "tokensevaluated", "numtokensprompttotal",
            "inputtexttokencount", "promptevalcount", "totalinputtokens", "inputcount",
        ),
        "output_tokens": (
            "completiontokens", "outputtokens", "outputtokencount", "completiontokencount",
            "generatedtokencount", "generatedtokens", "generationtokencount", "tokenspredicted",
            "outputlength", "numtokensgenerated", "candidatestokencount",
            "totaloutputtokens", "outputcount",
        ),
        "total_tokens": ("totaltokens", "totaltokencount"),
    }.items()
    for name in names
}  # fmt: skip

# The request is under way: Replicate, RunPod, DashScope, OpenAI's runs, Bedrock's jobs.
_UNDER_WAY: Final = frozenset((
    "queued", "in_queue", "inqueue", "pending", "starting", "processing", "running", "in_progress",
    "inprogress", "submitted", "scheduled", "validating", "finalizing", "cancelling", "stopping",
))  # fmt: skip
_CANCELLED: Final = frozenset(("cancelled", "canceled", "aborted"))


@lru_cache(maxsize=2048)
def _bare(key: str) -> str:
    return key[:NAME_LIMIT].replace("_", "").replace("-", "").lower()


def _members(holder: Payload) -> dict[str, object]:
    members: dict[str, object] = {}
    for key, value in islice(holder.items(), _MEMBERS):
        members.setdefault(_bare(key), value)
    return members


class OutputFinder:
    """Find a model's output in the documents of one answer, of a format that is not known.

    ``adopted``: the shape turned out to be a known dialect's, which reads all. ``misshapen``: the
    path is that of another API, whose clients cannot read it.
    ``vectors``: there were embeddings. ``media``: the output is no text. ``whole``: nothing was
    left out between the windows.

    Arguments:
        trusting: the path is one of model calls in any format: a text needs no sign beside it.
        guarded: nobody knows of the path what is there: what repeats a request is no answer.
        fetching: it is what an earlier answer began.
    """

    __slots__ = ("_facts", "_fetching", "_guarded", "_left", "_likely", "_named", "_plain",
                 "_quoted", "_seen", "_signs", "_tail", "_tail_size", "_trusting", "adopted",
                 "media", "misshapen", "vectors", "whole")  # fmt: skip

    def __init__(self, *, trusting: bool, guarded: bool, fetching: bool = False) -> None:
        self._trusting = trusting
        self._guarded = guarded and not fetching
        self._fetching = fetching
        self.media = False
        self._facts = ResponseFacts()  # taken over once there is output
        self._named = False  # a text of a usual name was seen
        self._plain = False  # a text was seen
        self._signs = False  # that a model wrote it
        self._likely = False  # a text that answers a question, if one was asked
        self._quoted = 0  # lists of messages that are being looked at
        self._left = 0
        self._seen = 0
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.adopted = False
        self.misshapen = False
        self.vectors = False
        self.whole = True

    # -- windows -----------------------------------------------------------------------

    def wants(self, data: bytes) -> bool:
        """Return True if a document of a stream is to be read now; the last others are kept."""
        self._seen += len(data)
        if self._seen <= WINDOW or self.adopted:
            return True
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size > WINDOW:
            self._tail_size -= len(self._tail.popleft())
            self.whole = False
        return False

    def kept(self) -> list[bytes]:
        """Return the last documents that were not read."""
        return list(self._tail)

    # -- the question ------------------------------------------------------------------

    def settle(self, reading: ResponseFacts, request: Payload) -> None:
        """Take a text without a sign for output where the request put a question to a model."""
        facts = self._facts
        if self._likely and not facts.content and asks(request):
            facts.output = facts.content = True
            _take_over(reading, facts)

    # -- one document ------------------------------------------------------------------

    def take(self, reading: ResponseFacts, payload: Payload) -> None:
        """Add a document to the reading, where output was found in this one or before."""
        if "jsonrpc" in payload:
            return
        facts = self._facts
        self._left = _OBJECTS
        self._look(payload, 0)
        if self._fetching and _shows_media(payload):
            self.media = facts.output = facts.content = facts.has_part = True
        if not facts.content and (
            (self._trusting and (self._named or self._plain))
            or (self._signs and (self._named or self._plain))
            or (facts.model is not None and self._named)
        ):
            facts.output = facts.content = True
        _state_progress(facts, payload)
        if facts.content or self._trusting:
            _take_over(reading, facts)
            reading.take_id(payload.get("id") or payload.get("request_id"))
        elif facts.pending and facts.response_id is not None:
            reading.response_id, reading.pending = facts.response_id, True

    def _look(self, holder: Payload, depth: int) -> None:
        self._left -= 1
        if self._left < 0 or depth > _DEPTH:
            return
        members = _members(holder)
        kind = members.get("type")
        role = members.get("role") or members.get("author")
        role = "ai" if role is None and isinstance(kind, str) and kind in _AI else role
        if isinstance(role, str) and role.lower() in _OTHERS:
            return
        ends = "finishreason" in members
        messages = members.get("messages")
        if self._guarded and not ends and (any(map(members.get, _ECHOED)) or _is_history(messages)):
            return
        self._take_facts(members)
        if isinstance(members.get("history"), list):  # of a chat: docs.nlpcloud.com (chatbot)
            self._signs = True
        if isinstance(messages, list) and (ends or depth):  # docs.z.ai (agents), and wrappers
            self._quoted += not ends
            self._take_value("message", messages, depth, speaks=False, foreign=False)
            self._quoted -= not ends
        if isinstance(members.get("done"), bool) and isinstance(members.get("response"), str):
            self._signs = True  # Ollama's lines without their model
        if not _VECTORS.isdisjoint(members):
            self.vectors = self.vectors or any(map(_is_vector, map(members.get, _VECTORS)))
        if "shape" in members and _is_vector(members.get("data")):  # Workers AI
            self.vectors = True
        speaks = (
            depth > 0 and not self._quoted and isinstance(role, str) and role.lower() in _ASSISTANTS
        )
        foreign = not _NO_MODELS.isdisjoint(members)
        for key in _HOLDERS.intersection(members):
            self._take_value(key, members[key], depth, speaks=speaks, foreign=foreign)
        self._take_calls(members, depth)
        if members.get("datatype") == "BYTES":  # KServe's and Triton's tensors of texts
            self._take_value("predictions", members.get("data"), depth, speaks=False, foreign=False)

    def _take_calls(self, members: Mapping[str, object], depth: int) -> None:
        """Take tool calls, and tokens by number."""
        kind = members.get("type")
        if depth and isinstance(kind, str) and kind in _CALLS and members.get("name"):
            self._facts.add_tool_call(name(members.get("toolcallid") or members.get("id")) or depth)
        for place, call in enumerate(parts(members.get("toolcalls"))[:_ITEMS]):
            if call.get("function") or call.get("name") or call.get("Function"):
                self._facts.add_tool_call(place)
        for key in _TOKENS.intersection(members):
            self._take_tokens(members[key])
        if "tokenids" in members and "finishreason" in members:  # vLLM's tokens in, tokens out
            self._take_tokens(members["tokenids"])
        if "tokens" in members and "stopreason" in members:
            self._take_tokens(members["tokens"])

    def _take_value(
        self, key: str, value: object, depth: int, *, speaks: bool, foreign: bool
    ) -> None:
        facts = self._facts
        if isinstance(value, dict):
            self._look(value, depth + 1)
            return
        texts = value if isinstance(value, list) else [value]
        if key in _GENERATED or (speaks and key in _PLAIN):
            facts.has_part = True
            facts.note_items(*(text for text in texts[:_ITEMS] if isinstance(text, str)))
        elif not foreign and any(isinstance(text, str) and text for text in texts[:_ITEMS]):
            self._note(key, texts)
        elif self._trusting and (key in _NAMED or key in _PLAIN) and value is not None:
            facts.has_part = True
        for item in texts[:_ITEMS]:
            if isinstance(item, dict):
                self._look(item, depth + 1)

    def _note(self, key: str, texts: list[object]) -> None:
        """Note a text whose name says little."""
        if key in _LIKELY and not all(str(text).strip(" .!").lower() in _WORDS for text in texts):
            self._likely = True
        sentence = any(isinstance(text, str) and " " in text for text in texts)
        if key in _REPLIES and sentence:
            self._facts.note_content("reply")
        elif key == "predictions" and not self._trusting:
            # A class may have a name and a blank in it; a sentence has more.
            self._named = self._named or sentence
            if any(isinstance(text, str) and text.count(" ") > _BLANKS for text in texts):
                self._facts.note_content("prediction")
        elif key in _NAMED:
            self._named = True
        elif key in _PLAIN:
            self._plain = True

    def _take_tokens(self, value: object) -> None:
        facts = self._facts
        if not isinstance(value, list):
            return
        facts.has_part = True
        first = value[0] if value else None
        first = first[0] if isinstance(first, list) and first else first
        if type(first) is int:
            facts.output = facts.content = True

    def _take_facts(self, members: Mapping[str, object]) -> None:
        facts = self._facts
        for key in _REASONS:
            stated = members.get(key)
            if isinstance(stated, dict):
                stated = stated.get("type") or stated.get("reason")
            if isinstance(stated, str) and stated:
                facts.take_finish_reason(stated)
                self._signs = True
        for key in _MODELS:
            if isinstance(members.get(key), str):
                facts.take_model(members[key])
        _take_counts(facts, members)
        for key in _USAGES:
            counts = members.get(key)
            if isinstance(counts, dict):
                self._take_usage(counts)
        if facts.output_tokens:
            self._signs = True

    def _take_usage(self, counts: Payload) -> None:
        usage.take(self._facts, usage.OPENAI, counts)
        members = _members(counts)
        _take_counts(self._facts, members)
        for key, field in (("input", "input_tokens"), ("output", "output_tokens")):  # RunPod
            usage.take_other(self._facts, field, members.get(key))
        self._take_reason(members)
        for inner in islice(counts.values(), _ITEMS):
            if isinstance(inner, dict):  # Cohere's meta.tokens, Dify's metadata.usage
                usage.take(self._facts, usage.OPENAI, inner)
                _take_counts(self._facts, _members(inner))

    def _take_reason(self, members: Mapping[str, object]) -> None:
        for key in _REASONS:
            if isinstance(members.get(key), str) and members[key]:  # TGI's details
                self._facts.take_finish_reason(members[key])
                self._signs = True


def asks(request: Payload) -> bool:
    """Return True if a request puts a question to a model. By itself that proves nothing."""
    members = _members(request)
    return any(map(members.get, _ASKING)) and _OTHERWISE.isdisjoint(members)


def _is_history(value: object) -> bool:
    for message in parts(value)[:_ITEMS]:
        role = message.get("role")
        if isinstance(role, str) and role.lower() in _OTHERS:
            return True
    return False


def _take_counts(facts: ResponseFacts, members: Mapping[str, object]) -> None:
    for key in _COUNTS.keys() & members.keys():
        usage.take_other(facts, _COUNTS[key], members[key])


def _shows_media(payload: Payload) -> bool:
    """Return True if a result lists pictures, sounds or films: docs.fal.ai (model outputs)."""
    listed = islice(payload.values(), _MEMBERS)
    files = (file for each in listed for file in (parts(each)[:_ITEMS] or [part(each)]))
    return any(str(file.get("content_type")).startswith(MEDIA) for file in files)


def _is_vector(value: object) -> bool:
    for _ in range(3):
        if not isinstance(value, list) or not value:
            return False
        value = value[0]
        if isinstance(value, int | float):
            return True
        value = value.get("values") if isinstance(value, dict) else value
    return False


def _state_progress(facts: ResponseFacts, payload: Payload) -> None:
    """Note an answer that is to be asked for again."""
    holder = payload
    for inner in (payload.get("output"), payload.get("data"), payload.get("result")):
        if isinstance(inner, dict) and ("task_status" in inner or "status" in inner):
            holder = inner
    stated = holder.get("task_status") or holder.get("status")  # DashScope
    if not isinstance(stated, str):
        began = jobs.begun(payload) if _HOLDERS.isdisjoint(map(_bare, payload)) else None
        if began is not None:
            facts.pending, facts.response_id = True, began
        return
    facts.pending = stated.lower() in _UNDER_WAY
    if stated.lower() in _CANCELLED:
        facts.take_finish_reason("cancelled")
    for key in jobs.BEGUN:
        for where in (holder, payload):
            if (began := name(where.get(key))) is not None:
                facts.response_id = last_segment(began)
                return


_TAKEN: Final = ("model", "finish_reason", "input_tokens", "output_tokens", "total_tokens",
                 "cached_input_tokens", "reasoning_tokens", "pending", "response_id")  # fmt: skip


def _take_over(reading: ResponseFacts, facts: ResponseFacts) -> None:
    for field in _TAKEN:
        if (value := getattr(facts, field)) is not None:
            setattr(reading, field, value)
    reading.output |= facts.output
    reading.content |= facts.content
    reading.has_part |= facts.has_part
    if facts.calls:
        reading.calls = set(reading.calls) | set(facts.calls)


# --- a document that is longer than the windows ------------------------------------------------


# Strings, and what stands between them; a quote by itself opens a string that the cut divides.
_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:"]', re.DOTALL)
_CUT_ESCAPE: Final = re.compile(rb"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_CLOSING: Final = {b"{": b"}", b"[": b"]"}
_NESTED: Final = 256  # levels


def beginning(body: bytes) -> object:
    """Parse the beginning of a long JSON document, closed where it was cut; None for no JSON."""
    start = body[:WINDOW]
    open_: list[bytes] = []
    whole = 0  # up to where nothing is divided
    before = b""
    for match in _TOKEN.finditer(start):
        token = match[0]
        if token == b'"':
            if before == b":" or open_[-1:] == [b"]"]:
                start = _CUT_ESCAPE.sub(b"", start).decode("utf-8", "ignore").encode() + b'"'
                whole = len(start)
            break
        if token in _CLOSING:
            open_.append(_CLOSING[token])
            if len(open_) > _NESTED:
                return None
            whole = match.end()
        elif token in (b"}", b"]"):
            del open_[-1:]
            whole = match.end()
        elif token == b",":
            whole = match.start()
        before = token
    try:
        return libraries.loads(start[:whole] + b"".join(reversed(open_)))
    except libraries.JSONDecodeError:
        return None


_COUNTED: Final = re.compile(
    rb'"(?:usage|usageMetadata|usage_metadata|metrics|details|meta)"\s*:\s*(\{[^{}]*(?:\{[^{}]*\}'
    rb"[^{}]*)*\})"
)
_ENDED: Final = re.compile(
    rb'"(finish_reason|finishReason|stop_reason|stopReason)"\s*:\s*("[\w.:-]{1,64}")'
)


def ending(body: bytes) -> list[Payload]:
    """Return what the end of a long JSON document says of its counts and its finish reason."""
    end = body[-WINDOW:]
    events = [b'{"usage":%s}' % match[1] for match in _COUNTED.finditer(end)]
    events += [b"{%s:%s}" % (b'"' + match[1] + b'"', match[2]) for match in _ENDED.finditer(end)]
    documents = []
    for text in events[-_ITEMS:]:
        try:
            documents.append(part(libraries.loads(text)))
        except libraries.JSONDecodeError:
            continue
    return documents


def _read_nothing(reading: ResponseFacts, payload: Payload, event: str | None) -> None:
    """Read nothing: a `OutputFinder` did."""


NATIVE: Final[Dialect] = Dialect(
    name="opaque", read=_read_nothing, totals=usage.inclusive, known=False
)
