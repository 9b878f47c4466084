"""Rollouts in a few characters, for tests: ``rollout("429", "200+tool")``.

A call is written ``HEAD[+word…]``, then any of ``@model >answered #key %upstream ^n ~seconds
[start-end] *times`` in this order, without spaces:

========== =====================================================================
head       a status (``200``, ``429``; from 400 on it fails as its status says), or
           ``net`` (never connected), ``timeout``, ``left`` (the agent hung up before
           a byte came), ``stalled`` (it hung up after a long silence), ``pending``,
           ``lost``
``+word``  what came: ``tool`` (a tool call), ``empty`` (nothing), ``text`` (output
           although the call failed or was left), ``nousage``, ``unread``, ``refusal``,
           ``length``, ``same`` (a text that others say too), ``errortext`` (an error's message in
           an answer's place), ``thought`` (hidden tokens only), ``reasoned`` (reasoning to be read,
           no more); ``queued`` and ``polled`` (a background response: not there yet when it was
           begun, or when it was asked for; ``fetched`` is the same once it is there); how the
           answer was found, where it was looked at: ``read``, ``blank`` (nothing in it),
           ``garbled`` (neither an output nor an error) and ``unseen``; the other words are of
           calls recorded before that
           why it failed: a subcategory or a reason inside one (``quota``,
           ``context_length``, ``truncated``…); in a 200 it makes it a failure.
           ``transient`` and ``permanent`` say otherwise than the subcategory does
           what it was: ``side`` (a small model, no tools), ``toolless``, ``small`` and
           ``large`` (a shorter and a longer request), ``again`` (the same request as before),
           ``override``, ``operators``, ``added`` (whose key), ``twice`` (two models in the
           body), ``huge`` (too long for it to be read), ``held`` (the agent sent or read
           nothing), ``beta`` (it chose a version),
           ``judge``, ``embed``, ``probe``, ``media`` (images, audio, files, batches), ``other``,
           ``shaped`` (an inference call by its shape alone)
``@``      the model, ``>`` the one that answered, ``#`` the key's digest, ``%`` the upstream
``^n``     the SDK's n-th retry of the request before
``~s``     the provider asks for a wait of that many seconds
``[a-b]``  it started a and ended b seconds after the beginning
``*n``     the same call n times
========== =====================================================================

Calls start one second apart and take half a second unless a span says otherwise. Several may
stand in one text, with spaces between.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from classifier.batch_summary import ScoredBatch
from classifier.batches import Entry
from classifier.causes import status_only
from classifier.records import (
    READ_REQUEST_BYTES,
    AnswerState,
    Cause,
    Ending,
    Exchange,
    ExecutionStatus,
    KeySource,
    Kind,
    LimitReached,
    Outcome,
    RolloutRecord,
    TerminationReason,
    Timing,
    Usage,
    UsageSource,
)
from classifier.references import (
    OTHER_WORDS,
    WORDLESS,
    AskedBy,
    NotRun,
    ReferenceCall,
    ReferenceSeries,
)
from classifier.repeat_counts import CountedRollout
from classifier.rules import references_wanted
from classifier.verdicts import Policy, Subcategory
from classifier.whole_batch import whole_batch

MODEL, SIDE_MODEL, UPSTREAM, KEY = "gpt-5", "gpt-5-mini", "openai", "3f9a"
STARTED = 1_790_000_000.0

REASONS = {
    "context_length": Subcategory.REJECTED_REQUEST,
    "content_filter": Subcategory.REJECTED_REQUEST,
    "wrong_endpoint": Subcategory.REJECTED_REQUEST,
    "lost_state": Subcategory.REJECTED_REQUEST,
    "unsupported": Subcategory.REJECTED_REQUEST,
    "malformed": Subcategory.REJECTED_REQUEST,
    "too_large": Subcategory.REJECTED_REQUEST,
    "wrong_shape": Subcategory.REJECTED_REQUEST,
    "harness_budget": Subcategory.REJECTED_REQUEST,
    "harness_refusal": Subcategory.REJECTED_REQUEST,
    "region": Subcategory.AUTH,
    "truncated": Subcategory.PROVIDER_ERROR,
    "empty_body": Subcategory.PROVIDER_ERROR,
    "html_body": Subcategory.PROVIDER_ERROR,
    "foreign_body": Subcategory.PROVIDER_ERROR,
    "network": Subcategory.PROVIDER_ERROR,
    "timed_out": Subcategory.PROVIDER_ERROR,
    "stalled": Subcategory.PROVIDER_ERROR,
}
_SUBCATEGORIES = {member.value: member for member in Subcategory}
_HEADS: dict[str, dict[str, Any]] = {
    "net": {"ending": Ending.NEVER_CONNECTED, "status": None, "why": "network"},
    "timeout": {"ending": Ending.TIMED_OUT, "status": None, "why": "timed_out"},
    "left": {"ending": Ending.LEFT_BY_AGENT, "status": None, "output": None},
    "stalled": {"ending": Ending.LEFT_BY_AGENT, "status": None, "why": "stalled"},
    "pending": {"ending": None, "status": None, "output": None},
    "lost": {"ending": Ending.LOST, "status": None, "output": None},
    "held": {"ending": Ending.LEFT_WHILE_HELD, "status": None, "output": None},
}
_SPOKEN = Usage(
    input_tokens=10,
    output_tokens=20,
    total_tokens=30,
    input_total=10,
    output_total=20,
    source=UsageSource.PROVIDER,
)
_MUTE = replace(_SPOKEN, output_tokens=0, total_tokens=10, output_total=0)
_QUEUED: dict[str, Any] = {
    "response_digest": "b1", "pending": True, "usage": Usage(), "output_seen": False,
    "tool_calls": 0, "finish_reason": None,
}  # fmt: skip
_FETCH: dict[str, Any] = {
    "kind": Kind.CONTINUATION, "method": "GET", "response_digest": "b1", "model": None,
    "has_tools": None, "request_bytes": 0, "request_digest": None,
}  # fmt: skip
_UNKNOWN: dict[str, Any] = {
    "usage": Usage(), "output_seen": None, "tool_calls": None, "finish_reason": None,
}  # fmt: skip
_WORDS: dict[str, dict[str, Any]] = {
    "tool": {"tool_calls": 1, "output_seen": True, "usage": _SPOKEN},
    "text": {"tool_calls": 0, "output_seen": True, "usage": _SPOKEN},
    "empty": {"tool_calls": 0, "output_seen": False, "usage": _MUTE},
    "nousage": {"usage": Usage()},
    "unread": {
        "usage": Usage(),
        "output_seen": None,
        "tool_calls": None,
        "unreadable_reason": "encoding",
    },
    "refusal": {"output_seen": False, "usage": _MUTE, "finish_reason": "refusal"},
    "length": {"finish_reason": "length"},
    "read": {"answer_state": AnswerState.READ},
    "blank": {
        "answer_state": AnswerState.EMPTY,
        "tool_calls": 0,
        "output_seen": False,
        "usage": _MUTE,
    },
    "garbled": _UNKNOWN | {"answer_state": AnswerState.UNREAD},
    "unseen": _UNKNOWN | {"answer_state": AnswerState.UNSEEN},
    "shaped": {"inferred": True, "api": "opaque", "answer_state": AnswerState.READ},
    "same": {"output_digest": "5a" * 16},
    "errortext": {"output_digest": "e7" * 16, "output_reads_as": Subcategory.PROVIDER_ERROR},
    "thought": {"output_seen": False, "content_seen": False, "usage": _SPOKEN, "tool_calls": 0},
    "reasoned": {"output_seen": True, "content_seen": False, "usage": _SPOKEN, "tool_calls": 0},
    "queued": _QUEUED,
    "polled": _QUEUED | _FETCH,
    "fetched": _FETCH,
    "side": {"model": SIDE_MODEL, "has_tools": False, "request_bytes": 900},
    "toolless": {"has_tools": False},
    "small": {"request_bytes": 5_000},
    "large": {"request_bytes": 400_000},
    "judge": {"role": "judge"},
    "embed": {"kind": Kind.EMBEDDING},
    "operators": {"key_source": KeySource.OPERATOR},
    "added": {"key_source": KeySource.ADDED},
    "override": {"key_source": KeySource.OVERRIDE},
    "twice": {"model_ambiguous": True},
    "huge": {"model": None, "has_tools": None, "request_bytes": READ_REQUEST_BYTES + 1},
    "held": {"held": True},
    "beta": {"selector_digest": "beta"},
    "probe": {"kind": Kind.PROBE},
    "media": {
        "kind": Kind.ACTIVITY,
        "usage": Usage(),
        "output_seen": None,
        "tool_calls": None,
        "finish_reason": None,
        "response_bytes": 90_000,
    },
    "other": {
        "kind": Kind.OTHER,
        "usage": Usage(),
        "output_seen": None,
        "tool_calls": None,
        "finish_reason": None,
        "response_bytes": 90,
    },
}
_CALL = re.compile(
    r"(?P<head>\w+)(?P<words>(\+\w+)*)(@(?P<model>[\w./:-]+))?(>(?P<answered>[\w./:-]+))?"
    r"(#(?P<key>\w+))?(%(?P<up>\w+))?(\^(?P<retry>\d+))?(~(?P<wait>[\d.]+))?"
    r"(\[(?P<start>[\d.]+)-(?P<end>[\d.]+)\])?(\*(?P<times>\d+))?"
)


def exchange(status: int | None = 200, **said: Any) -> Exchange:
    """One call, by default an answered one; from status 400 on it failed as its status says.

    Any field of ``Exchange`` can be given, and ``at`` (seconds after the first call) and
    ``took`` for its timing.
    """
    failing = status is not None and status >= 400
    at, took = said.pop("at", 0.0), said.pop("took", 0.5)
    fields: dict[str, Any] = {
        "id": f"x{at:g}",
        "rollout_id": "r1",
        "upstream": UPSTREAM,
        "api": "openai.chat",
        "timing": Timing(started_at=STARTED + at, duration_s=took),
        "model": MODEL,
        "status": status,
        "ending": Ending.COMPLETE,
        "usage": Usage() if failing else _SPOKEN,
        "output_seen": not failing,
        "tool_calls": 0,
        "finish_reason": None if failing else "stop",
        "has_tools": True,
        "request_bytes": 40_000,
        "key_digest": KEY,
        "cause": cause(status_only(status)) if failing and status is not None else None,
    }
    return Exchange(**fields | said)


def cause(
    subcategory: Subcategory | None,
    *,
    reason: str | None = None,
    transient: bool | None = None,
    wait: float | None = None,
) -> Cause:
    """A cause as the table of causes would have given it."""
    assert subcategory is not None
    return Cause(
        subcategory=subcategory,
        transient=subcategory.transient if transient is None else transient,
        rule=f"built.{reason or subcategory.value}",
        reason=reason,
        retry_after_s=wait,
    )


def calls(*texts: str) -> tuple[Exchange, ...]:
    """The exchanges written in the texts, one second apart."""
    built: list[Exchange] = []
    for text in " ".join(texts).split():
        match = _CALL.fullmatch(text)
        assert match, f"{text!r} is no call"
        for _ in range(int(match["times"] or 1)):
            built.append(_call(match, len(built), built[-1] if built else None))
    return tuple(built)


def _call(match: re.Match[str], at: int, before: Exchange | None) -> Exchange:
    head = _HEADS.get(match["head"], {})
    status = head["status"] if head else int(match["head"])
    said: dict[str, Any] = {"request_digest": f"d{at}"}
    if head:
        said |= {"ending": head["ending"], "usage": Usage(), "finish_reason": None}
        said |= {"output_seen": False if "why" in head else None, "tool_calls": None}
    if match["head"] == "pending":
        said["took"] = None
    words = match["words"].split("+")[1:]
    if match["head"] == "left" and "text" in words:
        status = 200
    for word in words:
        said |= _WORDS.get(word, {})
    if match["model"]:
        said["model"] = match["model"]
    if match["answered"]:
        said["answered_model"] = match["answered"]
    if match["key"]:
        said["key_digest"] = match["key"]
    if match["up"]:
        said["upstream"] = match["up"]
    if match["retry"]:
        assert before is not None
        said |= {"sdk_retry": int(match["retry"]), "request_digest": before.request_digest}
    if "again" in words:
        assert before is not None
        said["request_digest"] = before.request_digest
    said["id"] = f"x{at}"
    start, end = match["start"], match["end"]
    span = (float(start), float(end) - float(start)) if start else (float(at), 0.5)
    said = {"at": span[0], "took": span[1]} | said
    return _caused(exchange(status, **said), [head.get("why", ""), *words], match)


def _caused(built: Exchange, words: list[str], match: re.Match[str]) -> Exchange:
    wait = float(match["wait"]) if match["wait"] else None
    why = None if built.cause is None else built.cause.subcategory
    reason = None
    for word in words:
        if word in REASONS:
            why, reason = REASONS[word], word
        why = _SUBCATEGORIES.get(word, why)
    if why is None:
        return built
    transient = {"transient": True, "permanent": False}.get(words[-1])
    if built.cause is None and built.status is not None and "text" not in words:
        built = replace(built, output_seen=False, usage=Usage(), tool_calls=0, finish_reason=None)
    return replace(built, cause=cause(why, reason=reason, transient=transient, wait=wait))


def outcome(status: str = "success", **said: Any) -> Outcome:
    """What a runner reports of a rollout that it thinks went well, unless told otherwise."""
    ended = status == "success"
    fields: dict[str, Any] = {
        "termination_reason": TerminationReason.AGENT_STOP if ended else None,
        "prompts_executed": 1,
        "rewards": {"reward": 0.0},
    }
    fields |= said
    reason = fields.pop("termination_reason")
    return Outcome(
        status=ExecutionStatus(status),
        termination_reason=None if reason is None else TerminationReason(reason),
        **fields,
    )


def rollout(*texts: str, running: bool = False, **said: Any) -> RolloutRecord:
    """A rollout of the calls in the texts; fields of ``RolloutRecord`` and ``Outcome`` by name.

    ``running=True`` leaves the outcome out. ``status`` is the runner's.
    """
    known = {name for name in RolloutRecord.__slots__ if name in said}
    about = {name: said.pop(name) for name in known}
    reported = None if running else outcome(**said)
    assert not (running and said), f"a running rollout has no {', '.join(said)}"
    fields: dict[str, Any] = {"id": "r1", "batch": "b1", "task": "task-7"}
    fields |= {"exchanges": calls(*texts), "outcome": reported}
    return RolloutRecord(**fields | about)


def limit_reached(
    scope: str = "batch",
    *,
    own: float = 10,
    callers: int = 9,
    limit: str = "calls",
    spent: float = 100,
) -> LimitReached:
    """A limit of 100 that refused calls: by default a batch's, of which others spent the most."""
    return LimitReached(
        scope=scope, limit=limit, most=100, spent=spent, own=own, callers=callers, at=STARTED
    )


# --- reference calls ---


def series(text: str, *, not_run: NotRun | None = None, running: bool = False) -> ReferenceSeries:
    """A series: ``ok``, ``none`` (no evidence), ``refused``, ``silent``, ``wordless``, a cause.

    ``words`` are others than were asked for. ``ok/2`` took two seconds. ``u:ok`` was asked by the
    usual way, ``s:ok`` by that beside others.
    """
    calls = tuple(_reference_call(n, word) for n, word in enumerate(text.split()))
    ended = None if running else STARTED + 1
    return ReferenceSeries(
        id="s1", upstream="openai", model="gpt-5", api="openai.chat", started_at=STARTED,
        ended_at=ended, calls=calls, not_run=not_run,
    )  # fmt: skip


_ASKED: dict[str, dict[str, Any]] = {
    "ok": {"answered": True},
    "none": {"answered": None},
    "wordless": {"answered": None, "reason": WORDLESS},
    "words": {"answered": None, "reason": OTHER_WORDS},
    "refused": {"subcategory": Subcategory.REJECTED_REQUEST, "explained": True},
    "filtered": {"subcategory": Subcategory.REJECTED_REQUEST, "reason": "content_filter",
                 "explained": True},
    "silent": {"subcategory": Subcategory.PROVIDER_ERROR, "timed_out": True},
}  # fmt: skip
_BY = {"u": AskedBy.USUAL, "s": AskedBy.SHARED}


def _reference_call(n: int, word: str) -> ReferenceCall:
    by, _, word = word.rpartition(":")
    word, _, took_s = word.partition("/")
    said = {"answered": False} | (_ASKED.get(word) or {"subcategory": Subcategory(word)})
    return ReferenceCall(
        exchange_id=f"c{n}", started_at=STARTED + n, ended_at=STARTED + n + float(took_s or 0.5),
        asked_by=_BY.get(by, AskedBy.OWN), **said,
    )  # fmt: skip


def asked(
    seen: RolloutRecord, text: str = "", *, not_run: NotRun | None = None, running: bool = False
) -> RolloutRecord:
    """A rollout with one series in words beside each call that an untrusted agent's wants one."""
    needs = references_wanted(seen, Policy(agents="untrusted"))
    found = {x.id: series(text, not_run=not_run, running=running) for x in needs}
    return replace(seen, references=found)


def summarized(entries: Iterable[Entry]) -> ScoredBatch:
    """Summarise a batch of rollouts that began one after the other."""
    return whole_batch(CountedRollout(each, float(n)) for n, each in enumerate(entries)).summary()
