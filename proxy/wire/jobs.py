"""Read batch and media jobs, and what they leave: counts of answered requests, lines of results.

A job that is under way is nothing yet. One that was refused, failed, expired or was cancelled is a
failure, unless some of its requests were answered. No tokens are read of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from classifier.records import ProviderError
from proxy.wire import usage
from proxy.wire.dialect import (
    Dialect,
    Headers,
    Payload,
    ResponseFacts,
    count,
    last_segment,
    name,
    part,
    parts,
)
from proxy.wire.provider_error import read_error

# --- jobs --------------------------------------------------------------------------------------


# platform.openai.com/docs/api-reference/batch (request_counts), docs.claude.com/en/api/
# retrieving-message-batches, docs.mistral.ai/api (batch), ai.google.dev/api/batch-api
# (batchStats), cloud.google.com/vertex-ai/docs (completionStats), botocore bedrock
# GetModelInvocationJob.
_HOLDERS: Final = ("request_counts", "batchStats", "completionStats")
_ANSWERED: Final = (
    "completed", "succeeded", "succeeded_requests", "successfulRequestCount", "successfulCount",
    "successRecordCount",
)  # fmt: skip
_STATES: Final = ("processing_status", "status", "state", "task_status", "jobState")
# Names of the id under which an answer's work can be asked for, the work's own before the call's:
# DashScope's tasks; docs.fal.ai (queue), docs.x.ai (deferred completions, videos); others.
BEGUN: Final = ("task_id", "taskId", "job_id", "jobId", "id", "request_id", "requestId")
_PREFIX: Final = re.compile(r"^(?:batch|job)_state_")
_UNDER_WAY: Final = frozenset((
    "validating", "in_progress", "inprogress", "finalizing", "cancelling", "canceling", "queued",
    "pending", "running", "processing", "submitted", "scheduled", "stopping", "updating",
    "cancellation_requested", "paused",
))  # fmt: skip
_ENDED: Final = frozenset(("completed", "complete", "ended", "succeeded", "success", "done",
                           "partiallycompleted", "partially_succeeded"))  # fmt: skip
_FAILED: Final = frozenset(("failed", "failure", "fail", "expired", "cancelled", "canceled",
                            "stopped", "timeout_exceeded", "timed_out", "timeout", "rejected",
                            "error", "errored"))  # fmt: skip
_CANCELLED: Final = frozenset(("cancelled", "canceled", "stopped"))
_SENTENCES: Final = ("failureMessage", "failure_message", "message", "reason")


def read(reading: ResponseFacts, payload: Payload) -> tuple[bool, ProviderError | None]:
    """Add a job or a line of results to the reading.

    Returns:
        Whether it is one, and the error that it states.
    """
    if _is_line(payload):
        return True, _line(reading, payload)
    job = payload
    for inner in (payload.get("metadata"), payload.get("output")):
        if isinstance(inner, dict) and not _STATES_OF.isdisjoint(inner):
            job = inner  # an operation (Google), a task (DashScope)
    stated = next((job[key] for key in _STATES if isinstance(job.get(key), str)), None)
    done = payload.get("done")
    state = _PREFIX.sub("", stated.lower()) if isinstance(stated, str) else None
    if state is None and not isinstance(done, bool) and "name" not in payload:
        began = begun(payload)
        if began is not None:
            reading.response_id, reading.pending = began, True
        return began is not None, None
    if state not in _ENDED | _FAILED | _UNDER_WAY and not isinstance(done, bool):
        return _takes_name(reading, payload), None
    _note_id(reading, payload)
    reading.pending = done is False or (done is None and state in _UNDER_WAY)
    reading.has_part |= not reading.pending
    answered = _answered(job) or _answered(payload)
    if answered or _media(payload) or _inlined(payload):
        reading.output = reading.content = True
    if reading.pending or reading.content:
        return True, None
    return True, _failure(payload, job, state)


_STATES_OF: Final = frozenset(_STATES)


def _takes_name(reading: ResponseFacts, payload: Payload) -> bool:
    """Take an operation that was begun: ``{"name": "…/operations/1"}`` (Google)."""
    begun = payload.get("name")
    if not isinstance(begun, str) or "/" not in begun or "error" in payload:
        return False
    reading.pending = True
    _note_id(reading, payload)
    return True


_NO_WORK: Final = frozenset(("error", "code", "trace_id", "traceId"))


def begun(payload: Payload) -> str | None:
    """Return the id of work that an answer began, of one that says nothing else; else None.

    xAI answers ``{"request_id": "…"}``, fal with addresses beside it. A bare ``id`` is too common.
    """
    if any(isinstance(value, dict | list) or " " in str(value) for value in payload.values()):
        return None
    if not _NO_WORK.isdisjoint(payload):
        return None
    named = (name(payload.get(key)) for key in BEGUN if key != "id")
    stated = next((each for each in named if each is not None), None)
    return None if stated is None else last_segment(stated)


# How keys end that hold an id or an address, without case, ``_`` and ``-``.
_IDS: Final = ("id", "uuid", "guid", "url", "uri", "href", "arn", "token", "handle", "ticket",
               "location", "name")  # fmt: skip
_NAMED: Final = frozenset(key.replace("_", "").lower() for key in BEGUN if key != "id")
_ID: Final = re.compile(r"(?=[^\d-]*[\d-])[\w.:~=+-]{3,200}")
_VERSION: Final = re.compile(r"v\d\w{0,8}")
# learn.microsoft.com/azure/architecture/patterns/async-request-reply; RFC 9110 §15.3.3.
_PLACES: Final = frozenset((b"location", b"operation-location", b"azure-asyncoperation"))
_MOST_IDS: Final = 6  # of one answer
_MEMBERS: Final = 64  # of an object


def offered(payload: Payload, headers: Headers, *, named: bool) -> list[str]:
    """Return the ids by which an answer's work may be asked for, as its body and head state them.

    Arguments:
        payload: of an answer in which nothing was read.
        named: only ids that are called a job's, a task's or a request's.
    """
    found: dict[str, None] = {}
    for holder in islice(_holders(payload, 2), _MEMBERS):
        for key, value in islice(holder.items(), _MEMBERS):
            bare = key[:64].replace("_", "").replace("-", "").lower()
            if bare in _NAMED or (not named and bare.endswith(_IDS)):
                found.update(dict.fromkeys(_id_in(name(value) or "")))
    found.update((each, None) for place in places(headers) for each in _id_in(place))
    return list(found)[:_MOST_IDS]


def _holders(payload: Payload, levels: int) -> Iterator[Payload]:
    yield payload
    for value in islice(payload.values(), _MEMBERS):
        if isinstance(value, dict) and levels:
            yield from _holders(value, levels - 1)


def places(headers: Headers) -> list[str]:
    """Return the addresses at which a response's head says that its work is."""
    return [value.decode("latin-1") for header, value in headers if header in _PLACES]


def _id_in(stated: str) -> list[str]:
    """Return the id itself, or the last segment of a path or an address that may be one."""
    segments = stated.partition("?")[0].rpartition("://")[2].split("/")
    fit = [each for each in segments if _ID.fullmatch(each) and not _VERSION.fullmatch(each)]
    return fit[-1:]


def _note_id(reading: ResponseFacts, payload: Payload) -> None:
    for key in ("id", "name", "jobArn", "invocationArn", *BEGUN):
        stated = name(payload.get(key))
        if stated is not None:
            reading.response_id = last_segment(stated)
            return


def _answered(job: Payload) -> bool:
    for holder in (job, *(part(job.get(key)) for key in _HOLDERS)):
        for key in _ANSWERED:
            if count(holder.get(key)):
                return True
    return False


def _failure(payload: Payload, job: Payload, state: str | None) -> ProviderError | None:
    """Return why a job ended without an answered request; None for one that did not fail."""
    for holder in (payload, job):
        errors = holder.get("errors")
        listed = parts(part(errors).get("data")) or parts(errors)
        for error in (*listed, holder.get("error"), holder.get("last_error")):
            failure = read_error({"error": error}) if error else None
            if failure is not None:
                return failure
    counts = part(job.get("request_counts"))
    spoilt = ("failed", "errored", "expired", "canceled")
    lost = next((key for key in spoilt if count(counts.get(key))), None)
    if state not in _FAILED and lost is None:
        return None
    sentence = next((job[key] for key in _SENTENCES if isinstance(job.get(key), str)), None)
    kind = state if state in _FAILED else lost
    return read_error(
        {"error": {"type": f"job_{kind}", "code": job.get("code"), "message": sentence}}
    )


def failure(payload: Payload) -> ProviderError | None:
    """Return why the job of one model call failed; None if it did not, or was cancelled."""
    for job in (payload, *(part(payload.get(key)) for key in ("output", "data", "result"))):
        state = next((job[key] for key in _STATES if isinstance(job.get(key), str)), None)
        if isinstance(state, str) and state.lower() in _FAILED - _CANCELLED:
            return _failure(payload, job, state.lower())
    return None


# --- media -------------------------------------------------------------------------------------


def _media(payload: Payload) -> bool:
    """Return True if a job that ended names what it made: a video or pictures."""
    response = part(payload.get("response"))  # ai.google.dev/gemini-api/docs/video
    if response and "inlinedResponses" not in response:
        return "error" not in response
    made = payload.get("object") == "video" or "outputDataConfig" in payload
    made = made or bool(part(payload.get("video")).get("url"))  # docs.x.ai (videos)
    status = payload.get("status")
    return made and isinstance(status, str) and status.lower() in _MADE_IT


_MADE_IT: Final = frozenset(("completed", "succeeded", "done"))


# ai.google.dev/api/batch-api: InlinedResponses
def _inlined(payload: Payload) -> bool:
    response = part(payload.get("response") or part(payload.get("metadata")).get("output"))
    inlined = part(response.get("inlinedResponses")).get("inlinedResponses")
    return any("response" in each for each in parts(inlined))


# --- lines of results --------------------------------------------------------------------------


_LINE: Final = frozenset(("custom_id", "key", "recordId", "modelOutput"))


def _is_line(payload: Payload) -> bool:
    return not _LINE.isdisjoint(payload) and bool(
        payload.keys() & {"response", "result", "error", "modelOutput", "status"}
    )


def _line(reading: ResponseFacts, payload: Payload) -> ProviderError | None:
    """Take one line: OpenAI and Mistral, Anthropic, Gemini, Bedrock."""
    reading.has_part = True
    response = part(payload.get("response") or payload.get("modelOutput"))
    result = part(payload.get("result"))
    status = response.get("status_code")
    if result:  # docs.claude.com/en/api/retrieving-message-batch-results
        if result.get("type") == "succeeded" and result.get("message"):
            reading.output = reading.content = True
            return None
        error = part(result.get("error"))
        kind = name(result.get("type")) or "errored"
        return read_error({"error": error.get("error") or error or {"type": f"batch_{kind}"}})
    if response and not payload.get("error") and (type(status) is not int or status < 300):
        reading.output = reading.content = True
        return None
    return read_error(part(response.get("body"))) or read_error(payload)


# --- the dialects of these routes --------------------------------------------------------------


def _read_nothing(reading: ResponseFacts, payload: Payload, event: str | None) -> None:
    """Read nothing: `read` did."""


JOBS: Final[Dialect] = Dialect(
    name="opaque",
    read=_read_nothing,
    totals=usage.inclusive,
    relevant=re.compile(rb"(?!)"),  # one answered request is enough
    relevant_reasoning=re.compile(rb"(?!)"),
    known=False,
)


# Names of what a media route gives: OpenAI (images, transcriptions, audio and its events), Mistral
# (OCR's pages), Imagen and Lyria (predictions), Stability, Bedrock's Nova.
_MADE: Final = (
    "data", "text", "pages", "predictions", "images", "artifacts", "b64_json", "audio", "delta",
    "segments", "words", "generatedImages",
)  # fmt: skip


def _read_media(reading: ResponseFacts, payload: Payload, event: str | None) -> None:
    for key in _MADE:
        if key in payload:
            reading.understood = reading.has_part = True
            reading.note_content(payload[key])
    reading.take_model(payload.get("model"))
    counts = payload.get("usage")
    usage.take(reading, usage.OPENAI, counts)
    usage.cost(reading, counts)


MEDIA: Final[Dialect] = Dialect(name="media", read=_read_media, totals=usage.inclusive, known=False)
