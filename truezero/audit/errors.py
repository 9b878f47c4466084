"""The causes of the errors that harnesses record."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from classifier.causes import classify
from classifier.grammar import GRAMMAR
from classifier.records import Cause, Ending, FailureEvidence, Kind, ProviderError
from classifier.verdicts import Subcategory
from truezero.audit.runs import RecordedError
from truezero.foreign import parse

# --- client errors ---
#
# Exceptions of model clients and harnesses, and the status that each stands for.


# Harbor's names of what its agents were answered (models/trial/error_policy.py).
HARBORS: Final[Mapping[str, int | None]] = {
    "AgentAuthenticationError": 401,
    "ApiUsageLimitError": 402,
    "ModelNotFoundError": 404,
    "ApiProviderResourceNotFoundError": 404,
    "ApiRateLimitError": 429,
    "ApiInternalServerError": 500,
    "ApiOverloadedError": 529,
    "ContextLengthExceededError": 400,
    "ApiError": None,
    "UnknownApiError": None,
    "ApiConnectionError": None,
    "ApiConnectionClosedError": None,
    "ApiResponseStalledError": None,
    "NetworkConnectionError": None,
}
# Exceptions of model clients and the status they stand for; None: no answer came.
# openai, anthropic: _exceptions.py; litellm: exceptions.py; botocore: error codes; google-genai.
CLIENT_ERRORS: Final[Mapping[str, int | None]] = {
    "AuthenticationError": 401,
    "PermissionDeniedError": 403,
    "RateLimitError": 429,
    "BadRequestError": 400,
    "ProviderRejectedRequest": 400,  # truezero/integrations/harbor.py
    "UnprocessableEntityError": 422,
    "ContextWindowExceededError": 400,
    "ContentPolicyViolationError": 400,
    "UnsupportedParamsError": 400,
    "InternalServerError": 500,
    "BadGatewayError": 502,
    "ServiceUnavailableError": 503,
    "OverloadedError": 529,
    "DeadlineExceededError": 504,
    "BudgetExceededError": 402,
    "APIConnectionError": None,
    "APITimeoutError": None,
    "APIStatusError": None,
    "APIError": None,
    "APIResponseValidationError": None,
    "ProviderError": None,  # verifiers, v1/errors.py
    "ThrottlingException": 429,
    "AccessDeniedException": 403,
    "ModelTimeoutException": 408,
    "ServiceQuotaExceededException": 429,
    "ResourceExhausted": 429,
    **HARBORS,
}
# Common names that mean a client's error only inside a client's package.
_PACKAGED: Final[Mapping[str, int | None]] = {
    "NotFoundError": 404,
    "ConflictError": 409,
    "Timeout": None,
    "ClientError": None,
    "ServerError": None,
}
STATUSES: Final[Mapping[str, int | None]] = {**_PACKAGED, **CLIENT_ERRORS}
# No answer came: why, by the exception.
SILENT: Final[Mapping[str, Ending]] = {
    "APIConnectionError": Ending.NEVER_CONNECTED,
    "ApiConnectionError": Ending.NEVER_CONNECTED,
    "NetworkConnectionError": Ending.NEVER_CONNECTED,
    "ApiConnectionClosedError": Ending.CUT_UPSTREAM,
    "APITimeoutError": Ending.TIMED_OUT,
    "ApiResponseStalledError": Ending.TIMED_OUT,
    "Timeout": Ending.TIMED_OUT,
}
# What a class says beside its status, as the code that a provider coined for it.
MEANINGS: Final[Mapping[str, str]] = {
    "ContentPolicyViolationError": "content_policy_violation",
    "ContextWindowExceededError": "context_length_exceeded",
    "ContextLengthExceededError": "context_length_exceeded",
    "ApiUsageLimitError": "insufficient_quota",
}
# Raised for an error event inside a stream that began with HTTP 200: openai/_streaming.py and
# anthropic/_streaming.py; one with another status names it.
IN_BAND: Final = frozenset(("APIError", "APIStatusError"))
LITELLM: Final = re.compile(r"\blitellm\.")  # whose APIError is any
# How OpenHands names what its model answered (openhands/runtime/runtime_status.py).
COINED: Final[Mapping[str, int]] = {
    "STATUS$ERROR_LLM_AUTHENTICATION": 401,
    "STATUS$ERROR_LLM_OUT_OF_CREDITS": 402,
    "STATUS$ERROR_LLM_SERVICE_UNAVAILABLE": 503,
    "STATUS$ERROR_LLM_INTERNAL_SERVER_ERROR": 500,
    "STATUS$ERROR_LLM_CONTENT_POLICY_VIOLATION": 400,
}
PACKAGE: Final = re.compile(
    r"\b(?:openai|anthropic|litellm|google\.genai|google\.api_core|botocore|cohere|mistralai|groq|"
    r"together|huggingface_hub|ollama)\."
)
# A class speaks before its sentence, its arguments or a status; at the start of a text, a client's
# own class does whatever follows.
_CLASS: Final = re.compile(
    rf"(?:[A-Za-z_]\w*\.)*([A-Z]\w+)(?=[:(]|$|\s[45]\d\d\b)|^\W*{PACKAGE.pattern}(?:\w+\.)*([A-Z]\w+)"
    r"|(?<=state=finished raised )(\w+)"  # tenacity: RetryError[<Future at 0x1 state=finished …>]
)
# What clients raise before they send anything: they know no provider, or have no key for one.
# BerriAI/litellm:litellm/litellm_core_utils/get_llm_provider_logic.py, litellm/llms; openai-python,
# anthropic-sdk-python and google-genai, each in its client.
_UNSENT: Final = re.compile(
    r"\bllm provider not provided\b|\bunmapped llm provider\b|\bmissing \w+ api key - |"
    r"\bapi_key client option must be set\b|\bcould not resolve authentication method\b|"
    r"\bmissing key inputs argument\b",
    re.IGNORECASE,
)


def client_error(kind: str | None, text: str) -> str | None:
    """Return the name of the client's exception that a text, or its type ``kind``, holds."""
    packaged = bool(PACKAGE.search(f"{kind or ''} {text}"))
    known = STATUSES if packaged else CLIENT_ERRORS
    names = [
        (kind or "").rpartition(".")[2],
        *(match[1] or match[2] or match[3] for match in _CLASS.finditer(text)),
    ]
    return next((name for name in names if name in known), None)


def unsent(error: RecordedError) -> bool:
    """Return True if a client raised an error before it sent a request."""
    return bool(_UNSENT.search(error.text))


# --- causes ---
#
# A run's error may be anything: only what a model's client raises, or what speaks of a model's
# provider, is evidence of one. Everything else is left to the harness.


_WRAPPER: Final = re.compile(
    r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Timeout)\s*(?::|-)\s*"
)
_REPR: Final = re.compile(
    r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*\(((['\"])(?:\\.|(?!\2).)*\2).*\)\s*$", re.DOTALL
)
_STATUS: Final = re.compile(
    r"(?:error code|status[ _]?code|status|http(?:/\d(?:\.\d)?)?|api error)\s*[:= (]*\s*"
    r"([45]\d\d)\b"
    r"|^\W*error\s+([45]\d\d)\b"
    r"|^\W*([45]\d\d)\s+(?:[A-Z][A-Z_]{3,}\b|[A-Z][a-z]+)"
    r"|\b(?:client|server) error '([45]\d\d)\b",
    re.IGNORECASE,
)
# A status by which an API refuses a key or an account, and nothing else.
_REFUSAL: Final = re.compile(
    r"\W*(?:(?:error|http(?:/\d(?:\.\d)?)?|status|code)[\W_]*)+(?:401|402|403|429)\W*"
    r"(?:unauthorized|payment required|forbidden|too many requests)?\W*",
    re.IGNORECASE,
)
# Words without which an error of a run is not about a model's provider.
_ABOUT_A_MODEL: Final = re.compile(
    r"\b(?:api[ _-]?key|llm|language model|model provider|provider|completions?|openai|anthropic|"
    r"claude|gemini|vertex|bedrock|mistral|openrouter|credit balance|billing|insufficient_quota|"
    r"rate[ _-]?limit(?:s|ed|_exceeded)?|tokens? per (?:minute|day)|usage limit|api error)\b|"
    r"ERROR_LLM_",
    re.IGNORECASE,
)
# How clients and agents introduce a status: "Error code: 401 - …", "429 RESOURCE_EXHAUSTED",
# "unexpected status 401", "exceeded retry limit, last status: 429".
_CLIENT_WORDS: Final = re.compile(
    r"error code: \d|^\W*\d{3} [a-z]|\b(?:api error|(?:api|last|unexpected) status)\b",
    re.IGNORECASE,
)
# What only a client of a model writes before a provider's JSON.
_INTRODUCED: Final = re.compile(r"\W*(?:error code: \d{3} - |api error: \d{3} )", re.IGNORECASE)
_MODEL_URL: Final = re.compile(
    r"/(?:v1|v1beta|chat|messages|responses|completions|model)s?\b|generatecontent|openai|anthropic|"
    r"generativelanguage|bedrock|openrouter",
    re.IGNORECASE,
)
_URL: Final = re.compile(r"https?://[^\s'\"<>)]+")
# What a sandbox, a tool or a package manager raises.
_ELSEWHERE: Final = re.compile(
    r"\b(?:docker|container|sandbox|dockerfile|podman|kubernetes|git clone|pip install|npm|apt-get|"
    r"pytest|verifier|subprocess|permissionerror|filenotfounderror|traceback in task)\b",
    re.IGNORECASE,
)
# A connection that broke, without a word of where it led to.
_TRANSPORT: Final = re.compile(
    r"\b(?:connect(?:ion)?|socket|stream|peer)\b.{0,40}"
    r"\b(?:reset|refused|closed|terminat\w+|aborted|errors?|lost|dropped|failed|broken)\b|"
    r"\b(?:broken pipe|unexpected eof|server disconnected|name resolution)\b",
    re.IGNORECASE,
)
_PLAIN: Final = frozenset(
    (Subcategory.AUTH, Subcategory.QUOTA, Subcategory.RATE_LIMIT, Subcategory.MODEL_NOT_FOUND)
)
# Our own sentence of a proven failure, which integrations leave in a harness's files; also in
# benchflow's words.
_JUDGED: Final = re.compile(
    r"\bapi[_ ]error \[(\w+)(?:, |/)(transient|permanent)\]:? "
    r"(?:an error inside )?(?:HTTP (\d{3})|no (?:answer|HTTP status))"
)
_SUBCATEGORIES: Final = {each.value: each for each in Subcategory}
_ERROR_STATUSES: Final = range(400, 600)
_ANSWERED: Final = re.compile(r"or code: \d{3} - (\{.*\})\s*$", re.MULTILINE)  # may be cut before
_LONGEST: Final = 2_000  # characters of a message, as on the wire
_NESTED: Final = ("error", "detail", "response", "body")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCall:
    """The failed call behind an error; ``status`` is None if none is known."""

    status: int | None
    ending: Ending
    cause: Cause


def failed_call(error: RecordedError, *, of_call: bool, upstream: str = "") -> FailedCall | None:
    """Return the failed call behind an error; None if it is not about a model's provider.

    Arguments:
        of_call: whether the harness recorded it as the result of a call to a model.
        upstream: the provider's name, where it is known.
    """
    judged = _judged(error.text)
    if judged is not None:
        return judged
    read = _Read.of(error)
    if not (of_call or read.from_client or _plainly(read)):
        return None
    ending = Ending.COMPLETE if read.status else SILENT.get(read.name or "", Ending.COMPLETE)
    cause = classify(
        FailureEvidence(
            upstream=upstream,
            api="recorded",
            kind=Kind.INFERENCE,
            status=read.status,
            ending=ending,
            error=None if ending is not Ending.COMPLETE else read.provider,
        )
    )
    return None if cause is None else FailedCall(status=read.status, ending=ending, cause=cause)


def bare_refusal(error: RecordedError) -> bool:
    """Return True if an error is a status that refuses a key or an account, and says no more."""
    return bool(_REFUSAL.fullmatch(error.text))


def broken_connection(error: RecordedError) -> bool:
    """Return True if an error is a connection's that may have been a model's, and names none."""
    return bool(_TRANSPORT.search(error.text)) and not _elsewhere(error.text)


def _judged(text: str) -> FailedCall | None:
    """Return the failure that a verdict of ours had proven when the harness wrote it down."""
    match = _JUDGED.search(text)
    if match is None or match[1] not in _SUBCATEGORIES:
        return None
    status = None if match[3] is None else int(match[3])
    cause = Cause(
        subcategory=_SUBCATEGORIES[match[1]],
        transient=match[2] == "transient",
        rule="audit.verdict",
    )
    ending = Ending.NEVER_CONNECTED if status is None else Ending.COMPLETE
    return FailedCall(status=status, ending=ending, cause=cause)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """One error, taken apart."""

    text: str
    name: str | None  # of the client's exception
    status: int | None
    provider: ProviderError
    has_body: bool
    stated: bool  # the harness has a field for the status of a model's answer

    @classmethod
    def of(cls, error: RecordedError) -> _Read:
        text = error.text.strip()
        inner = _said(text)
        name = client_error(error.type, text)
        body = error.body if error.body is not None else _body_in(inner)
        stated = error.status if error.status in _ERROR_STATUSES else None
        status = _status_in(inner) if stated is None else stated
        if status is None:
            status = next((code for word, code in COINED.items() if word in text), None)
        if status is None and name is not None and not unsent(error):
            status = STATUSES[name]
        if status is None and name in IN_BAND and not LITELLM.search(f"{error.type} {text}"):
            status = 200
        return cls(
            text=text,
            name=name,
            status=status,
            provider=_named(_provider_error(body, inner), name),
            has_body=body is not None,
            stated=stated is not None,
        )

    @property
    def from_client(self) -> bool:
        """True if a model's client raised the error."""
        if self.stated or (self.has_body and _INTRODUCED.match(self.text)):
            return True
        if self.name is not None:  # docker.errors.APIError is another client's
            return self.name in HARBORS or not _by_others(self.text)
        if _elsewhere(self.text):
            return False
        return self.status is not None and (self.has_body or bool(_model_like(self.text)))


def _said(text: str) -> str:
    """Return the sentence inside an exception's ``repr``, as Inspect writes it down."""
    repeated = _REPR.match(text)
    if repeated is None:
        return text
    try:
        return str(ast.literal_eval(repeated[1]))
    except (ValueError, SyntaxError):
        return repeated[1][1:-1]


def _plainly(read: _Read) -> bool:
    """Return True if an error about a model speaks of auth, a quota, a limit or a missing model."""
    if not _ABOUT_A_MODEL.search(read.text) or _elsewhere(read.text):
        return False
    reading = GRAMMAR.read(read.provider.message, (), status=read.status, retry_after_s=None)
    return reading is not None and reading.meaning.gives in _PLAIN


def _model_like(text: str) -> bool:
    """Return True if a text with a status is about a model's API, and not about a tool's call."""
    urls = _URL.findall(text)
    if urls and not any(map(_MODEL_URL.search, urls)):
        return False
    return bool(urls or _ABOUT_A_MODEL.search(text) or _CLIENT_WORDS.search(text))


def _by_others(text: str) -> bool:
    """Return True if a text speaks of a sandbox, a tool or a package manager."""
    return bool(_ELSEWHERE.search(text)) and not PACKAGE.search(text)


def _elsewhere(text: str) -> bool:
    """Return True if an error's words or addresses point elsewhere than to a model's API."""
    if PACKAGE.search(text):
        return False
    urls = _URL.findall(text)
    return _by_others(text) or (bool(urls) and not any(map(_MODEL_URL.search, urls)))


def _status_in(text: str) -> int | None:
    match = _STATUS.search(text)
    return None if match is None else int(next(filter(None, match.groups())))


def _named(error: ProviderError, name: str | None) -> ProviderError:
    """Add what the class of the client's exception says of the cause beside its status."""
    coined = MEANINGS.get(name or "")
    return error if coined is None else replace(error, reasons=(*error.reasons, coined))


def _provider_error(body: Mapping[str, object] | None, text: str) -> ProviderError:
    """Return the provider's own words; without its JSON, the sentence behind the class names."""
    if body is None:
        return ProviderError(message=_sentence(text)[:_LONGEST] or None)
    error = _inner(body)
    wrapped = _wrapped(error.get("traceback"))
    if wrapped is not None:
        return _provider_error(wrapped, text)
    name = error.get("status")
    kind = _word(error.get("type")) or _word(error.get("__type"))
    message = _sentence(_word(error.get("message")) or _word(error.get("detail")) or "")
    return ProviderError(
        code=_word(error.get("code")),
        type=None if kind in CLIENT_ERRORS else kind,
        message=message[:_LONGEST] or None,
        param=_word(error.get("param")),
        reasons=tuple(_reasons(name, error.get("details"))),
        status=STATUSES.get(kind or ""),  # what a gateway was answered
    )


def _wrapped(traceback: object) -> Mapping[str, object] | None:
    """Return the provider's JSON in the traceback that LiteLLM's proxy answers with."""
    match = _ANSWERED.search(traceback) if isinstance(traceback, str) else None
    body = _body_in(match[1]) if match else None
    return None if body is None or "traceback" in _inner(body) else body


def _inner(body: Mapping[str, object]) -> Mapping[str, object]:
    """Return the object that holds the message, however often it is wrapped."""
    for _ in range(4):
        nested = next((body[key] for key in _NESTED if isinstance(body.get(key), Mapping)), None)
        if not isinstance(nested, Mapping):
            break
        body = nested
    plain = body.get("error")
    return {"message": plain, **body} if isinstance(plain, str) else body


def _reasons(status: object, details: object) -> Iterator[str]:
    if isinstance(status, str):
        yield status
    for detail in details if isinstance(details, list) else ():
        reason = detail.get("reason") if isinstance(detail, Mapping) else None
        if isinstance(reason, str):
            yield reason


def _word(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value) or None


def _sentence(text: str) -> str:
    """Return a text without the names of exceptions and clients before it."""
    for _ in range(5):
        shorter = _WRAPPER.sub("", text, count=1)
        shorter = re.sub(r"^\s*Error code: \d+\s*-?\s*", "", shorter)
        if shorter == text:
            break
        text = shorter
    return text


def _body_in(text: str) -> Mapping[str, object] | None:
    """Return the JSON or Python object inside a text that holds a provider's error."""
    start = text.find("{")
    if start < 0:
        return None
    end = text.rfind("}") + 1
    for read in (parse, ast.literal_eval):
        try:
            body = read(text[start:end])
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(body, Mapping) and _names_error(body):
            return body
    return _cut(text[start:])


# Of an error's JSON that was cut; what it says of itself comes first.
_PAIR: Final = re.compile(
    r"""(["'])(message|type|code|param|status)\1\s*:\s*(?:(\d+)|"((?:[^"\\]|\\.)*)|'((?:[^'\\]|\\.)*))"""
)


def _cut(text: str) -> Mapping[str, object] | None:
    """Return the names and the sentence of an error whose JSON lacks its end."""
    pairs = {
        match[2]: match[3] or match[4] or match[5] for match in reversed([*_PAIR.finditer(text)])
    }
    return pairs if "message" in pairs and len(pairs) > 1 else None


def _names_error(body: Mapping[str, object]) -> bool:
    return any(key in body for key in ("error", "message", "detail", "errors", "__type"))
