"""Judge one answer of a model's provider, or one exception of its client, without a service.

The wire's own readers and cause table do it, loaded at the first call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from classifier.records import Exchange

_ID = "answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseOfFailure:
    """The cause of one failed call to a model.

    Attributes:
        cause: auth, quota, model_not_found, rate_limit, provider_error or rejected_request.
        transient: sending the same call again can help.
        whose: operator (key, account, model name, or a request that was never accepted), provider
            or agent, as the verdict of a rollout with this call alone would say.
        reason: the finer name inside the cause, such as ``context_length``; None if there is none.
        rule: the row of the cause table, or the words, that decided.
        code: the provider's own code or type, if it is safe to store.
        retry_after_s: the wait in seconds that the provider asks for.
    """

    cause: str
    transient: bool
    whose: str
    reason: str | None = None
    rule: str
    code: str | None = None
    retry_after_s: float | None = None


def cause_of(
    status: int | None = None,
    headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    body: bytes | str = b"",
    *,
    exception: BaseException | str | None = None,
    url: str = "",
    request: bytes | str = b"",
    upstream: str = "",
) -> CauseOfFailure | None:
    """Return why a call to a model failed; None if nothing says that it did.

    Arguments:
        status: the HTTP status.
        headers: of the answer, in whatever case.
        body: of the answer, whole, as the HTTP client decoded it, whatever the headers say of its
            encoding; a stream's text too.
        exception: the client's exception or its text, in place of an answer. None is returned of
            one that is not about a model's provider.
        url: that was called, or its path. Without it a web page or an empty answer with status 200
            is not told from an API that is not known.
        request: the body that was sent; tells a field of the request from one of an answer.
        upstream: the provider's name (docs/reference/upstreams.md); a few codes mean something
            else to each.

    Raises:
        TypeError: neither a status nor an exception is given, or both are.
    """
    if (status is None) is (exception is None):
        raise TypeError("cause_of() takes a status or an exception")
    if exception is not None:
        failed = _raised(exception, upstream)
    else:
        assert status is not None
        failed = _answered(status, headers, body, url=url, request=request, upstream=upstream)
    return None if failed is None else _told(failed)


def _answered(
    status: int,
    headers: Mapping[str, str] | Iterable[tuple[str, str]],
    body: bytes | str,
    *,
    url: str,
    request: bytes | str,
    upstream: str,
) -> Exchange:
    """Observe an answer as the service observes each that it relays."""
    import time  # noqa: PLC0415  as all that is needed of an answer only
    from urllib.parse import urlsplit  # noqa: PLC0415

    from classifier.records import Ending  # noqa: PLC0415
    from proxy.capture.observer import CallObserver  # noqa: PLC0415
    from proxy.capture.request import Call  # noqa: PLC0415

    observer = CallObserver(
        Call(
            id=_ID,
            rollout_id=_ID,
            upstream=upstream,
            method="POST",
            path=(urlsplit(url).path or "/").encode(),
            started_at=time.time(),
            began=0.0,
        ),
        salt=b"",
    )
    observer.on_request_body(_bytes(request))
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    stated = [(name.lower().encode(), value.encode()) for name, value in pairs]
    observer.on_response_head(status, stated, 0.0)
    observer.on_response_body(_bytes(body), 0.0)
    return observer.finish(Ending.COMPLETE, 0.0)


def _bytes(text: bytes | str) -> bytes:
    return text.encode("utf-8", "replace") if isinstance(text, str) else text


def _raised(exception: BaseException | str, upstream: str) -> Exchange | None:
    """Read an exception as an audit reads those that harnesses record."""
    from classifier.records import Exchange, Timing  # noqa: PLC0415
    from truezero.audit.errors import failed_call  # noqa: PLC0415
    from truezero.audit.runs import RecordedError  # noqa: PLC0415

    error = RecordedError(text=str(exception))
    if isinstance(exception, BaseException):
        kind = type(exception)
        error = RecordedError(text=str(exception), type=f"{kind.__module__}.{kind.__qualname__}")
    failed = failed_call(error, of_call=False, upstream=upstream)
    if failed is None:
        return None
    return Exchange(
        id=_ID,
        rollout_id=_ID,
        upstream=upstream,
        api="recorded",
        timing=Timing(0.0),
        status=failed.status,
        ending=failed.ending,
        cause=failed.cause,
    )


def _told(failed: Exchange) -> CauseOfFailure | None:
    """Say why a call failed, and whose failure it is in a rollout of this call alone."""
    from dataclasses import replace  # noqa: PLC0415

    from classifier.attribution import attribute  # noqa: PLC0415
    from classifier.evidence import Evidence  # noqa: PLC0415
    from classifier.records import Kind, RolloutRecord  # noqa: PLC0415
    from classifier.verdicts import EVIDENCE, AttributedTo  # noqa: PLC0415

    cause = failed.cause
    if cause is None:
        return None
    alone = RolloutRecord(id=_ID, exchanges=(replace(failed, kind=Kind.INFERENCE),))
    attributed = attribute(Evidence.of(alone, EVIDENCE)).get(_ID)
    # What a filter stopped counts as an answer.
    whose = AttributedTo.AGENT if attributed is None else attributed.to
    return CauseOfFailure(
        cause=cause.subcategory.value,
        transient=cause.transient,
        whose=whose.value,
        reason=cause.reason,
        rule=cause.rule,
        code=cause.code,
        retry_after_s=cause.retry_after_s,
    )
