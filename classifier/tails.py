"""What was left failed on the main lane when the rollout ended, and how strongly it speaks."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from enum import IntEnum
from itertools import accumulate
from typing import NamedTuple

from classifier.logical_calls import (
    CallState,
    LogicalCall,
    cut_short,
    ended_at,
    has_content,
    refused,
)
from classifier.records import Cause, Exchange, Kind
from classifier.verdicts import Subcategory


class Strength(IntEnum):
    """How strongly a failure says that the agent was cut off, weakest first."""

    EXPLAINED = 1  # a rejection with a reason: the agent's own doing
    UNEXPLAINED = 2  # a rejection that only a status speaks for: nobody knows whose
    TRANSIENT = 3  # rate_limit, provider_error
    PERMANENT = 4  # auth, quota, model_not_found

    @classmethod
    def of(cls, cause: Cause) -> Strength:
        """Return the strength of a cause."""
        if cause.subcategory is not Subcategory.REJECTED_REQUEST:
            return cls.TRANSIENT if cause.transient else cls.PERMANENT
        return cls.UNEXPLAINED if cause.reason is None else cls.EXPLAINED


class Tail(NamedTuple):
    """The failed calls to the model under test that nothing made good, by their ends.

    ``failures``: all their failed attempts, by their ends, ``strongest`` those with the
    strongest cause, whose ``strength`` is None where no call is left failed; ``last`` is that
    of the last cause. ``continued``: another model went on with the work.
    """

    calls: tuple[LogicalCall, ...] = ()
    failures: tuple[Exchange, ...] = ()
    strongest: tuple[Exchange, ...] = ()
    strength: Strength | None = None
    last: Strength | None = None
    continued: bool = False

    @property
    def cut_off(self) -> bool:
        """Whether failures of provider or account end it."""
        return self.strength is not None and self.strength >= Strength.TRANSIENT


def _began(call: LogicalCall) -> float:
    """Return when its last attempt began; fetching a background response begins nothing."""
    last = call.last if call.last.kind is Kind.INFERENCE else call.asked
    return last.timing.started_at


class _Answers:
    """Answered calls, asked whether one of them makes a failure good.

    One does that began after it ended. An overlapping one does only if it is the same
    request, or if it offers tools where the lane does (``tools``), began later and carries at
    least as many bytes: a title or a short-lived sub-agent is another conversation. Bytes
    stand for messages, whose number is not captured.
    """

    def __init__(self, answered: Sequence[LogicalCall], *, tools: bool) -> None:
        self._last_begun = max(map(_began, answered), default=float("-inf"))
        self._until: dict[str | None, float] = {}
        for call in answered:
            digest = call.asked.request_digest
            self._until[digest] = max(ended_at(call.last), self._until.get(digest, 0.0))
        self._until.pop(None, None)
        able = sorted(
            (_began(call), call.asked.request_bytes)
            for call in answered
            if call.asked.has_tools or not tools
        )
        self._starts = [start for start, _ in able]
        sizes = [size for _, size in reversed(able)]
        self._largest_since = list(accumulate(sizes, max))[::-1]

    def excuse(self, call: LogicalCall) -> bool:
        """Whether an answer makes this failed or abandoned call good."""
        began = _began(call)
        if self._last_begun >= ended_at(call.last):
            return True
        if self._until.get(call.asked.request_digest, float("-inf")) > began:
            return True
        since = bisect_left(self._starts, began)
        largest = self._largest_since[since] if since < len(self._starts) else -1
        return largest >= call.asked.request_bytes


def offers_tools(calls: Iterable[LogicalCall]) -> bool:
    """Whether any of the calls offered tools."""
    return any(call.asked.has_tools for call in calls)


def taken_over(
    main: Sequence[LogicalCall], calls: Sequence[LogicalCall], left: Sequence[LogicalCall]
) -> bool:
    """Whether answered calls beside the main lane went on with the work of the calls ``left``.

    A call without tools beside a main model that has them is a side call (a title, a
    routing decision), no continuation.
    """
    if len(main) == len(calls):
        return False
    own = {id(call) for call in main}
    tools = offers_tools(main)
    others = [
        call
        for call in calls
        if call.state is CallState.ANSWERED
        and id(call) not in own
        and (call.asked.has_tools or not tools)
    ]
    answers = _Answers(others, tools=tools)
    return bool(others) and all(answers.excuse(call) for call in left)


def tail_of(main: tuple[LogicalCall, ...], calls: tuple[LogicalCall, ...]) -> Tail:
    """Return what was left failed among the calls ``main``, of all ``calls``."""
    failed = [call for call in main if call.state is CallState.FAILED]
    answered = [call for call in main if call.state is CallState.ANSWERED] if failed else []
    if answered:
        failed = _not_made_good(main, failed, answered)
    if not failed:
        return Tail()
    failures = sorted((x for call in failed for x in call.failures), key=_by_end)
    strengths = [Strength.of(x.cause) for x in failures if x.cause is not None]
    most = max(strengths)
    return Tail(
        calls=tuple(failed),
        failures=tuple(failures),
        strongest=tuple([x for x, each in zip(failures, strengths, strict=True) if each is most]),
        strength=most,
        last=strengths[-1],
        continued=taken_over(main, calls, failed),
    )


def _by_end(exchange: Exchange) -> tuple[float, str]:
    return ended_at(exchange), exchange.id


def _not_made_good(
    main: Sequence[LogicalCall], failed: list[LogicalCall], answered: Sequence[LogicalCall]
) -> list[LogicalCall]:
    # Nearly always this settles it; only calls at the same time need the closer look.
    last_begun = max(map(_began, answered))
    failed = [call for call in failed if ended_at(call.last) > last_begun]
    if not failed:
        return failed
    tools = offers_tools(main)
    answers = _Answers(answered, tools=tools)
    failed = [call for call in failed if not answers.excuse(call)]
    return _without_recaps(failed, answered) if tools else failed


def _without_recaps(
    failed: Sequence[LogicalCall], answered: Sequence[LogicalCall]
) -> list[LogicalCall]:
    """Leave out calls without tools after a final answer: a recap or a title of the work."""
    if all(call.asked.has_tools is not False for call in failed):
        return list(failed)
    turns = [(ended_at(call.last), call) for call in answered if call.asked.has_tools]
    ends = [end for end, _ in turns]
    return [
        call
        for call in failed
        if call.asked.has_tools is not False
        or not (before := bisect_left(ends, ended_at(call.last)))
        or not _final(turns[before - 1][1].last)
    ]


def _final(answer: Exchange) -> bool:
    """Whether an answer ends the work: words, and no tool call."""
    spoken = has_content(answer) is True or refused(answer)
    return answer.tool_calls == 0 and spoken and not cut_short(answer)
