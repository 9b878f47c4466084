"""The input of validity checks (one rollout's calls, roles and time), and the type of a check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from classifier.abandoned import AbandonedRequests, abandoned_requests
from classifier.evidence import Evidence
from classifier.logical_calls import CallState
from classifier.records import Ending, Exchange, Kind, RolloutRecord
from classifier.totals import TimeAccount
from classifier.verdicts import Coverage, Level, RoleVerdict, ValidityFinding


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The facts that the checks read.

    ``answers`` are all whole answers to inference calls by role agent, by their ends; ``main``
    those of the model under test; ``abandoned``: its requests that failed and never came again.
    """

    facts: Evidence
    answers: tuple[Exchange, ...]
    main: tuple[Exchange, ...]
    roles: Mapping[str, RoleVerdict] = field(default_factory=dict)
    time: TimeAccount = field(default_factory=TimeAccount)
    abandoned: AbandonedRequests = field(default_factory=AbandonedRequests)

    @classmethod
    def of(
        cls,
        facts: Evidence,
        *,
        roles: Mapping[str, RoleVerdict],
        time: TimeAccount,
    ) -> Measurement:
        """Gather what is known of a rollout."""
        complete = Ending.COMPLETE  # an answered call did not fail, and is no mere activity
        answers = tuple(
            [x for x in facts.answers if x.ending is complete and x.unreadable_reason is None]
        )
        main = answers
        if len(facts.main) < len(facts.calls):
            ids = {call.last.id for call in facts.main}
            main = tuple([x for x in answers if x.id in ids])
        return cls(
            facts=facts,
            answers=answers,
            main=main,
            roles=roles,
            time=time,
            abandoned=abandoned_requests(facts),
        )

    @property
    def rollout(self) -> RolloutRecord:
        """The rollout with all its exchanges, of other roles too."""
        return self.facts.rollout

    @property
    def ended_on(self) -> Exchange | None:
        """The main lane's last answer; None if it did not end in one."""
        calls = self.facts.main
        last = calls[-1] if calls else None
        if last is None or last.state is not CallState.ANSWERED or not is_whole(last.last):
            return None
        return last.last


def is_whole(exchange: Exchange) -> bool:
    """Return True if an answer came to its end and could be read."""
    return (
        exchange.ending is Ending.COMPLETE
        and exchange.cause is None
        and exchange.unreadable_reason is None
        and exchange.kind is not Kind.ACTIVITY
    )


def ids_of(exchanges: Sequence[Exchange], limit: int = 10) -> tuple[str, ...]:
    """Return the ids of exchanges that prove a finding, the last ``limit`` of them."""
    return tuple(x.id for x in exchanges[-limit:])


def tally(calls: Iterable[Exchange], *fields: str) -> Counter[Any]:
    """Count the calls by the values of one field, or of several as a tuple.

    Most checks end here on a healthy rollout: no line of Python runs for each call.
    """
    return Counter(map(attrgetter(*fields), calls))


# Engines that may leave cached tokens out of their counts without a word.
_FORGETFUL = frozenset(("ollama", "llamacpp"))


def may_hide_cache(call: Exchange) -> bool:
    """Return True if the input may leave out cached tokens without saying so.

    Ollama before 0.1.46 and in 0.30 (github.com/ollama/ollama/pull/5371, /16428), and llama.cpp's
    ``timings.prompt_n`` (tools/server/README.md).
    """
    if call.usage.cached_input_tokens is not None:
        return False
    return call.upstream in _FORGETFUL or call.api.partition(".")[0] in _FORGETFUL


# --- check ---


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The findings of a check and the number of calls that it could look at."""

    coverage: Coverage
    finding: ValidityFinding | None = None

    @classmethod
    def found(
        cls,
        coverage: Coverage,
        *,
        check: str,
        level: Level,
        calls: Sequence[Exchange],
        sentence: str,
        of: int | None = None,
        proof: Sequence[Exchange] | None = None,
        about: Mapping[str, object] | None = None,
    ) -> CheckResult:
        """Return a finding about some calls.

        Arguments:
            of: how many calls could show it; by default those that the check could look at.
            proof: its evidence, the last of them; by default the calls themselves.
        """
        finding = ValidityFinding(
            check=check,
            level=level,
            calls=len(calls),
            of=coverage.looked if of is None else of,
            evidence=ids_of(calls if proof is None else proof),
            sentence=sentence,
            about=dict(about or {}),
        )
        return cls(coverage=coverage, finding=finding)


@dataclass(frozen=True, slots=True)
class ValidityCheck:
    """One check.

    ``agent_can_cause``: an agent could bring the finding about by itself, so that it never
    changes ``scoreable`` where agents are untrusted. ``look`` returns None if the check is
    about nothing that this rollout did.
    """

    name: str
    look: Callable[[Measurement], CheckResult | None]
    agent_can_cause: bool = field(kw_only=True)
