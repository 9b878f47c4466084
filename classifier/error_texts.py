"""Read a short answer that is an error put in place of a model's words.

Gateways and agents' libraries turn a failed call into an answer: "[API ERROR] HTTP 500: Internal
Server Error", a web page of nginx's. Models write about errors too, so a sentence that only speaks
of one is not read. The whole answer has to be an error's message by its form: a label with a status
or with words of the cause table, the name of a client's exception, a provider's own first words,
an error object, a gateway's page. What such a message means the cause table says, as it does of
any error.
"""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Final

from classifier.causes import classify, status_only
from classifier.records import Ending, FailureEvidence, Kind, ProviderError
from classifier.verdicts import Subcategory

LONGEST: Final = 300  # characters of a message; what is longer is no error
LONGEST_PAGE: Final = 2_000  # of a web page

_AROUND: Final = " \t\r\n\ufeff\ufe0f⚠❌🚨🔴⛔"
MAY_TELL: Final = re.compile(
    r"error|fail|exceed|limit|quota|overload|unavailable|timed?[ _-]?out|gateway|upstream"
    r"|api key|http|exception|<html|fehler|erreur|erro\b|ошибк|エラー|오류|错误|錯誤|失败|失敗",
    re.IGNORECASE,
)
"""Found in every text that is read as an error; to be looked for before."""
# An error in the languages of the grammar, and what else such a label says.
_ERROR: Final = (
    r"(?:errors?|exception|failed|failure|fehler|erreur|erro|ошибка|エラー|오류|错误|錯誤|失败|失敗"
    r")"
)
_STATE: Final = (
    r"(?:time[ _-]?out|timed out|unavailable|overloaded|exceeded|limited|filtered|blocked"
    r"|unauthorized|超时)"
)
_WHOSE: Final = (
    r"(?:api|https?|server|upstream|provider|gateway|proxy|llm|model|openai|anthropic|claude"
    r"|gemini|google|azure|bedrock|openrouter|litellm|deepseek|mistral|groq|qwen|service|backend"
    r"|engine|inference|completion|internal|rate limit|da api|del servidor|du serveur"
    r"|服务器?|模型|接口|请求|サーバー|서버)"
)
_WHAT: Final = r"(?:call|request|status|code|调用|调用|请求)"
_GAP: Final = r"[ _-]{0,2}"
_STATUS: Final = (
    r"\(?(?:https?[ :/_-]{0,2}(?:[12](?:\.\d)?[ ])?)?"
    r"(?:(?:status(?:[ ]code)?|code|状态码)[ :：]{0,2})?(?P<status>[45]\d\d)\b\)?"
)
# "[API ERROR] HTTP 500: …", "【错误】…"
_BRACKETS: Final = re.compile(
    rf"(?:\*\*)?[\[【(](?P<label>[^\[\]【】()\n]{{0,40}}?(?:{_ERROR}|{_STATE})[^\[\]【】()\n]{{0,20}})"
    rf"[\]】)](?:\*\*)?[ :：]{{0,3}}(?:{_STATUS})?(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
# "API Error: 500 …", "Error 529: …", "请求失败，状态码：503"
_LABELLED: Final = re.compile(
    rf"(?:\*\*)?(?P<whose>(?:{_WHOSE}{_GAP}|{_WHAT}{_GAP}){{0,4}})(?:returned (?:an )?)?{_ERROR}"
    rf"(?:{_GAP}(?:(?:communicating with|calling|from) )?(?P<whom>{_WHOSE}|code)){{0,2}}(?:\*\*)?"
    rf"(?:[ ]{{0,2}}(?:[:：,，–—-]|with)(?:\*\*)?[ ]{{0,2}}(?:request[ ]failed[ ]with[ ])?{_STATUS}"
    rf"|[ ]{_STATUS.replace('status>', 'number>')}[ ]{{0,2}}[:：–—-]"
    rf"|[ ]{{0,2}}[:：](?:\*\*)?)(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
# "HTTP/1.1 502 Bad Gateway", "HTTP 503: …"
_HTTP: Final = re.compile(
    r"https?(?:/[12](?:\.\d)?)?[ ](?:status[ ](?:code[ ])?|error[ ])?(?P<status>[45]\d\d)"
    r"(?P<rest>[ ]{0,2}[:：–—-].*|[ ][A-Z][a-z]+(?:[ -][A-Z][a-z]+){0,3}[.]?)",
    re.IGNORECASE | re.DOTALL,
)
# Of openai, anthropic, litellm and the AWS and Google clients.
_CLASS: Final = re.compile(
    r"(?:[a-z_]+\.){0,4}(?P<label>(?:RateLimit|Authentication|PermissionDenied|InternalServer"
    r"|API|APIConnection|APITimeout|APIStatus|ServiceUnavailable|ServiceUnavailableError"
    r"|Throttling|Overloaded|InsufficientQuota|QuotaExceeded|BadGateway|GatewayTimeout"
    r"|ResourceExhausted|ModelNotFound|ModelNotReady|ModelError)(?:Error|Exception)?)"
    r"(?<=Error|ption|usted)[ ]{0,2}:(?P<rest>.*)",
    re.DOTALL,
)
_CALLED_OFF: Final = frozenset(("apiconnectionerror", "apitimeouterror"))
# First words that providers and gateways use of themselves, with what must follow somewhere.
_FIRST_WORDS: Final = re.compile(
    r"you exceeded your current quota, please check your plan"
    r"|incorrect api key provided: "
    r"|rate limit reached for \S+ (?:in organization|on (?:tokens|requests) per)"
    r"|(?:the server|openai) had an error (?:while )?processing your request[.!]"
    r"|(?:that|the) model is currently overloaded with other requests"
    r"|upstream connect error or disconnect/reset before headers"
    r"|no healthy upstream\Z"
    r"|your credit balance is too low to access the \w+ api",
    re.IGNORECASE,
)
# Where a model speaks: of itself, of its task, of what an error means or comes from.
_MODEL_SPEAKS: Final = re.compile(
    r"`|\?|\b(?:I|I'm|I've|I'll|we|we've)\b(?!P)"
    r"|\b(?:your (?:code|function|app|script|file)|the (?:code|function|handler|script|fixture)"
    r"|line \d|tests?|snippet|means?|indicates?|returns?|raise[sd]?|catch|occurs?|caused|cause is"
    r"|comes from|fixed|fix|because|while (?:fetching|loading|reading|opening|downloading)"
    r"|fetching|download\w*|web ?site|file|page|url|curl|pip|npm|git|docker|users?)\b"
    r"|表示|意味|означает|bedeutet|signifie|significa|뜻",
    re.IGNORECASE,
)
# Whose errors are nobody's but a provider's.
_OF_MODELS: Final = re.compile(
    r"api|llm|model|provider|upstream|openai|anthropic|claude|gemini|azure|bedrock|openrouter"
    r"|litellm|deepseek|mistral|groq|qwen|inference|completion|模型|接口|调用",
    re.IGNORECASE,
)
# What a provider says in words of the above.
_WORDS_OF_BOTH: Final = re.compile(r"help (?:center|page)|https?://\S+|model `[\w./:-]{1,80}`")
# In what follows "Error 503:", where nothing else says that it is a service's.
_OF_A_SERVICE: Final = re.compile(
    r"\A\W{0,3}(?:unauthorized|payment required|forbidden|too many requests|bad gateway|overloaded"
    r"|internal server|service unavailable|gateway time|request time)|\{|\bmodel\b|\bapi\b"
    r"|\brequests?\b|quota|rate limit|upstream|server|请求|服务|模型|リクエスト|サーバ|サービス"
    r"|요청|서비스|сервер|сервис|запрос|dienst|anfrage|servicio|solicitud|serviço|passerelle",
    re.IGNORECASE,
)

_TITLE: Final = re.compile(r"<(title|h1)[^>]{0,200}>([^<]{1,200})</\1>", re.IGNORECASE)
_PAGE: Final = re.compile(r"(?:<!doctype html[^>]{0,200}>\s{0,20})?<html\b", re.IGNORECASE)
_GATEWAY: Final = re.compile(
    r"nginx|openresty|cloudflare|\bcf-|ray id|apache|envoy|varnish|awselb|haproxy|caddy|gateway"
    r"|google frontend|cloudfront|akamai|traefik|<center><h1>",
    re.IGNORECASE,
)
_PAGE_STATUS: Final = re.compile(
    r"\b(40[1378]|429|5\d\d)\b\W{0,3}(?:bad gateway|gateway time-?out|service (?:temporarily )?"
    r"unavailable|internal server error|too many requests|forbidden|unauthorized|connection timed"
    r" out|web server is down|origin is unreachable|a timeout occurred|ssl handshake failed"
    r"|request time-?out|server error|unknown error)",
    re.IGNORECASE,
)
_NAME: Final = re.compile(r"[A-Za-z][\w.-]{2,60}")
_REJECTIONS: Final = frozenset(("content_filter", "context_length"))  # the model's, not the task's
_UNNAMED: Final = "in_band.unnamed"  # the row of whatever no other row knows


def reads_as(text: str) -> Subcategory | None:
    """Return the failure that an answer tells of; None if a model may have written it.

    Arguments:
        text: the whole of the answer's text, of which no more than ``LONGEST_PAGE`` is looked at.
    """
    if len(text) > LONGEST_PAGE + LONGEST or MAY_TELL.search(text) is None:
        return None
    text = text.strip(_AROUND)
    if _PAGE.match(text):
        return _of_page(text)
    if len(text) > LONGEST:
        return None
    if text.startswith("{"):
        return _of_object(text)
    return _of_message(text)


def _of_message(text: str) -> Subcategory | None:
    if _FIRST_WORDS.match(text):
        return _caused(text, status=None)
    if (match := _CLASS.match(text)) is not None:
        name, rest = match["label"], match["rest"]
        if _MODEL_SPEAKS.search(_WORDS_OF_BOTH.sub("", rest)):
            return None
        named = _caused(rest, status=None, name=name)
        lost = name.casefold() in _CALLED_OFF
        return named or (Subcategory.PROVIDER_ERROR if lost else None)
    if (match := _BRACKETS.match(text)) is not None:
        label, stated = match["label"], match["status"] or _status_in(match["label"])
        return _told(match["rest"], stated, f"{label}. {match['rest']}", sure=True)
    if (match := _HTTP.match(text)) is not None:
        return _told(match["rest"], match["status"], match["rest"], sure=True)
    if (match := _LABELLED.match(text)) is None:
        return None
    whose, stated = f"{match['whose']} {match['whom']}", match["status"] or match["number"]
    if not stated and _OF_MODELS.search(whose) is None:
        return None
    sure = _OF_A_SERVICE.search(whose) is not None or _OF_MODELS.search(whose) is not None
    return _told(match["rest"], stated, match["rest"], sure=sure)


def _told(rest: str, stated: str | None, message: str, *, sure: bool) -> Subcategory | None:
    """Return what stands behind a label.

    Arguments:
        stated: the status that the label or its message states.
        message: what the cause table is to read, the label's own words among it.
        sure: the label itself says whose error it is.
    """
    rest = rest.strip()
    if _MODEL_SPEAKS.search(_WORDS_OF_BOTH.sub("", rest)):
        return None
    if stated is None:
        return _caused(message, status=None, name=rest if _NAME.fullmatch(rest) else None)
    if not sure and rest.strip(".:,- ") and _OF_A_SERVICE.search(rest) is None:
        return None
    return _caused(message, status=int(stated))


def _status_in(label: str | None) -> str | None:
    stated = re.search(r"\b[45]\d\d\b", label or "")
    return stated[0] if stated else None


def _of_object(text: str) -> Subcategory | None:
    """Read an error object: its names speak, or a status that it states."""
    try:
        payload = json.loads(text)
    except (ValueError, RecursionError):
        return None
    error = payload.get("error") if isinstance(payload, dict) else None
    holder = error if isinstance(error, dict) else payload
    if not error or not isinstance(error, str | dict):
        return None
    listed = [error, *(holder.get(key) for key in ("code", "type", "status"))]
    names = [each for each in listed if isinstance(each, str) and _NAME.fullmatch(each)]
    codes = [each for each in listed if type(each) is int and 400 <= each < 600]
    message = holder.get("message")
    sentence = message if isinstance(message, str) else ""
    if codes:
        return _caused(sentence, status=codes[0], name=names[0] if names else None)
    return next((read for name in names if (read := _caused("", status=None, name=name))), None)


def _of_page(text: str) -> Subcategory | None:
    """Read a gateway's page by its title or heading."""
    if len(text) > LONGEST_PAGE or _GATEWAY.search(text) is None:
        return None
    for _, title in _TITLE.findall(text):
        if (stated := _PAGE_STATUS.search(unescape(title))) is not None:
            return status_only(int(stated[1]))
    return None


def _caused(message: str, *, status: int | None, name: str | None = None) -> Subcategory | None:
    """Return what the cause table says of an error; None if only its last row does."""
    error = ProviderError(message=message.strip(), code=name, status=status)
    cause = classify(
        FailureEvidence(
            upstream="",
            api="",
            kind=Kind.INFERENCE,
            status=200 if status is None else status,
            ending=Ending.COMPLETE,
            error=error,
        )
    )
    if cause is None or (status is None and cause.rule == _UNNAMED):
        return None
    if cause.subcategory is Subcategory.REJECTED_REQUEST and cause.reason not in _REJECTIONS:
        return None
    return cause.subcategory
