"""Find the failed requests that never came again, though others were answered later.

An evaluator lost 3 of 7 documents to one failure each and read as healthy: later documents were
answered. A later answer makes a failure good only within its own conversation. Conversations are
told by what capture compared: ``continues`` (the exchange that a request repeats or goes on with),
``begun_elsewhere`` (None if it begins none) and ``request_digest``, which a request has if it was
compared with the failures before it. Where one is missing, nothing is found.

An agent may go on in other words: with a conversation made shorter, begun again, or written anew
into one growing prompt. So in a rollout whose requests go on with one another, a failure is
abandoned only if nothing that began after it can be its conversation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from classifier.attribution import attribute
from classifier.evidence import Evidence, Strength, offers_tools
from classifier.logical_calls import CallState, LogicalCall, ended_at
from classifier.verdicts import AttributedTo

_MANY = 3  # answered ones that are no agent's few steps, each asked in a prompt of its own
_SOME = 2  # conversations before and after, where conversations begin and end all the time


@dataclass(frozen=True, slots=True, kw_only=True)
class AbandonedRequests:
    """The failed requests of the model under test that never came again, by their ends.

    ``candidates`` are those of which it was asked, and ``known`` those of which it could be told.
    ``requests``: how many the main lane had, the same one sent again counted once.
    ``independent``: no request goes on with another. ``unrecovered``: the exchanges of all tries.
    """

    calls: tuple[LogicalCall, ...] = ()
    candidates: int = 0
    known: int = 0
    requests: int = 0
    independent: bool = False
    unrecovered: frozenset[str] = frozenset()


def abandoned_requests(facts: Evidence) -> AbandonedRequests:
    """Return the failed requests of the model under test that nothing made good.

    Those with which the rollout ends are left to the rules.
    """
    failed = _candidates(facts)
    if not failed:
        return AbandonedRequests()
    talks = _Conversations(facts.calls)
    known = [call for call in failed if talks.is_known(call)]
    independent = talks.are_independent(facts.main)
    ends = talks.may_end if independent else talks.is_over
    lost = [call for call in known if not talks.is_followed(call) and ends(call, facts.main)]
    names = {talks.name(call) for call in lost}
    repeated = sum(bool(call.failures) and talks.is_followed(call) for call in facts.main)
    return AbandonedRequests(
        calls=tuple(lost),
        candidates=len(failed),
        known=len(known),
        requests=len(facts.main) - repeated,
        independent=independent,
        unrecovered=frozenset(
            call.last.id for call in facts.main if call.failures and talks.name(call) in names
        ),
    )


def _candidates(facts: Evidence) -> list[LogicalCall]:
    """Return the failed calls that a later answer made good, as far as the rules look.

    Without the agent's own failures, and without side calls (a title), which have no tools.
    """
    tail = {id(call) for call in facts.tail.calls}
    failed = [
        call for call in facts.main if call.state is CallState.FAILED and id(call) not in tail
    ]
    failed = [call for call in failed if _unexplained(call)]
    if not failed:
        return []
    own, tools = _of_the_agent(facts), offers_tools(facts.main)
    return [
        call for call in failed if call.last.id not in own and (call.asked.has_tools or not tools)
    ]


def _unexplained(call: LogicalCall) -> bool:
    """Return True if the failure is not the request's own, and no state that was lost."""
    cause = call.failures[-1].cause
    return cause is not None and Strength.of(cause) >= Strength.UNEXPLAINED


def _of_the_agent(facts: Evidence) -> frozenset[str]:
    """Return the ids of failures that are the agent's own, whatever references say."""
    attributed = attribute(facts, asked=False)
    return frozenset(x for x, each in attributed.items() if each.to is AttributedTo.AGENT)


class _Conversations:
    """The conversations of a rollout's calls, each with a name: an exchange that belongs to it."""

    def __init__(self, calls: Sequence[LogicalCall]) -> None:
        self._ordered = sorted(calls, key=_started)
        self._owners = {x.id: call for call in calls for x in call.attempts}
        self._names: dict[int, str] = {}  # by the call's id()
        self._last: dict[str, float] = {}  # when the newest call of each began
        self._first: dict[str, LogicalCall] = {}
        digests: dict[str, str] = {}
        for call in self._ordered:
            asked = call.asked
            name = self._goes_on(asked.continues) or digests.get(asked.request_digest or "")
            name = self._names[id(call)] = name or asked.id
            if asked.request_digest:
                digests.setdefault(asked.request_digest, name)
            self._last[name] = _started(call)
            self._first.setdefault(name, call)

    def _goes_on(self, continues: str | None) -> str | None:
        owner = None if continues is None else self._owners.get(continues)
        return continues if owner is None else self._names.get(id(owner), continues)

    def name(self, call: LogicalCall) -> str:
        """Return the name of a call's conversation."""
        return self._names[id(call)]

    def is_followed(self, call: LogicalCall) -> bool:
        """Return True if a later call goes on with a call's conversation, or repeats it."""
        return self._last[self.name(call)] > _started(call)

    def is_known(self, call: LogicalCall) -> bool:
        """Return True if each later request would be known as this one's, if it were."""
        if self.is_followed(call):
            return True
        asked = call.asked
        if asked.continues is None and asked.begun_elsewhere is None:
            return False
        return all(later.asked.request_digest for later in self._since(call))

    def _since(self, call: LogicalCall) -> list[LogicalCall]:
        end = ended_at(call.last)
        return [each for each in self._ordered if _started(each) >= end]

    def are_independent(self, main: Sequence[LogicalCall]) -> bool:
        """Return True if no request goes on with an answered one.

        What came before the first failure was compared with none, so that it may be unknown.
        """
        if any(self._continues_an_answer(call) for call in self._ordered):
            return False
        first = min((call for call in main if call.failures), key=lambda call: ended_at(call.last))
        if any(
            each.asked.begun_elsewhere is None and each.asked.continues is None
            for each in self._since(first)
        ):
            return False
        return len(self._answered(main)) >= _MANY

    def _continues_an_answer(self, call: LogicalCall) -> bool:
        continues = call.asked.continues
        if continues is None:
            return False
        owner = self._owners.get(continues)
        return owner is None or owner.state is CallState.ANSWERED

    def _answered(self, calls: Iterable[LogicalCall]) -> set[str]:
        return {self.name(call) for call in calls if call.state is CallState.ANSWERED}

    def may_end(self, call: LogicalCall, main: Sequence[LogicalCall]) -> bool:
        """Return True unless the requests are one conversation, written anew into a longer prompt.

        Then each is longer than the one before, a failed one apart.
        """
        ordered = sorted(main, key=_started)
        return not all(
            a.asked.request_bytes < b.asked.request_bytes + bool(a.failures)
            for a, b in pairwise(ordered)
        )

    def is_over(self, call: LogicalCall, main: Sequence[LogicalCall]) -> bool:
        """Return True if nothing that began after a call can be its conversation in other words.

        Where no tools are offered and conversations begin and end all the time, one more is no
        such thing.
        """
        answered, own = self._answered(main), self.name(call)
        end, began = ended_at(call.last), _started(call)
        others = {name: first for name, first in self._first.items() if name != own}
        after = [
            name
            for name, first in others.items()
            if _started(first) >= end and (first.asked.has_tools or not call.asked.has_tools)
        ]
        if not after:
            return bool(call.asked.has_tools) or call.asked.continues is not None
        before = [name for name in answered if name in others and _started(others[name]) < began]
        many = len(before) >= _SOME and len(answered.intersection(after)) >= _SOME
        return many and not offers_tools(main)


def _started(call: LogicalCall) -> float:
    return call.asked.timing.started_at
