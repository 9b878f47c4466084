"""Checks of what surrounds the answers: identity, judges, time, and the runner's token counts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter

from classifier.evidence import Evidence
from classifier.logical_calls import CallState, filtered, output_tokens
from classifier.records import WRONG_SHAPE, Exchange, ExecutionStatus, Kind, RolloutRecord
from classifier.score_keys import reward_in
from classifier.totals import output_total
from classifier.validity.measurement import CheckResult, Measurement, may_hide_cache, tally
from classifier.verdicts import (
    UNEARNED,
    USUAL_OUTPUT,
    AttributedTo,
    Coverage,
    Health,
    Level,
    ProofSource,
    RoleVerdict,
    Subcategory,
    ValidityFinding,
    plural,
)

# --- duplicate identity ---
#
# Two runs wrote into one rollout: a first message was begun again from another address.
#
# Harnesses that give out an id twice, or run a task again under its old id, mix two runs into one
# verdict. Capture compares first messages by digest; a container with two addresses looks the same,
# so it is no proof.


DUPLICATE_IDENTITY = "duplicate_identity"


def duplicate_identity(measured: Measurement) -> CheckResult | None:
    """Find a conversation begun before from another address.

    Levels: `suspect`.

    Covered: the first message was seen.
    """
    main = measured.main
    if not main:
        return None
    seen = tally(main, "begun_elsewhere")
    coverage = Coverage(looked=len(main) - seen[None], of=len(main))
    if not seen[True]:
        return CheckResult(coverage=coverage)
    begun = [x for x in main if x.begun_elsewhere]
    return CheckResult.found(
        coverage,
        check=DUPLICATE_IDENTITY,
        level=Level.SUSPECT,
        calls=begun,
        sentence=f"{len(begun):,} of {plural(coverage.looked, 'call')} began with a message "
        "that another address had begun with before: two runs may share this rollout",
    )


# --- judge failed ---
#
# The calls of another role failed: the judge that scored the rollout, the user that was played.
#
# A harness that cannot reach its judge mostly scores 0. A role has a small verdict of its own, by
# the rules of ``docs/concepts/judging.md``, and its name says what it is for. Where a token is set
# only the runner can use a role; what a judge is given comes from the agent, though, so that a
# rejected request proves no failure; one that was filtered has not judged.


JUDGE_FAILED = "judge_failed"
# Roles on which the score stands by itself: who gives it, and whom the agent talked to.
_SCORING = re.compile(
    r"judge|grad(?:er|ing)|verif|scor(?:er|ing)|eval|critic|reward|rubric|user|customer|simulat"
)
_MOST_CALLS = 10
_NAMES = 5  # of models, in a sentence
# What an untrusted agent wrote may have made the judge's calls fail.
_DOUBTFUL = (AttributedTo.AGENT, AttributedTo.UNKNOWN)


def _level(role: str, verdict: RoleVerdict, *, stopped: bool) -> Level:
    rejected = verdict.subcategory is Subcategory.REJECTED_REQUEST
    rejected = rejected and not (verdict.cause or "").endswith(f":{WRONG_SHAPE}")
    if not stopped and (rejected or verdict.attributed_to in _DOUBTFUL):
        return Level.SUSPECT
    return Level.INVALID if _SCORING.search(role.casefold()) else Level.SUSPECT


def judge_failed(measured: Measurement) -> CheckResult | None:
    """Find that a role other than `agent` could not reach its model.

    Levels: `invalid`: a judge, grader, verifier, user and the like; `suspect`: other roles, and
    rejected requests.

    Covered: the role is decided.
    """
    roles = measured.roles
    if not roles:
        return None
    decided = {name: role for name, role in roles.items() if role.health is not Health.UNDECIDED}
    coverage = Coverage(looked=_calls(decided), of=_calls(roles))
    failed = {name: role for name, role in sorted(decided.items()) if role.health.unhealthy}
    if not failed:
        return CheckResult(coverage=coverage)
    filters = set[str]()  # of calls that a filter stopped; an untrusted agent can write for that
    if not measured.facts.untrusted:
        filters = {x.id for x in measured.rollout.exchanges if filtered(x)}
    levels = {
        _level(name, role, stopped=not filters.isdisjoint(role.evidence))
        for name, role in failed.items()
    }
    evidence = tuple(each for role in failed.values() for each in role.evidence)
    return CheckResult(
        coverage=coverage,
        finding=ValidityFinding(
            check=JUDGE_FAILED,
            level=Level.INVALID if Level.INVALID in levels else Level.SUSPECT,
            calls=sum(_lost(role) for role in failed.values()),
            of=coverage.looked,
            evidence=evidence[-_MOST_CALLS:],
            sentence="; ".join(_told(name, role) for name, role in failed.items()),
            about={"roles": {name: _why(role) for name, role in failed.items()}},
        ),
    )


def _calls(roles: Mapping[str, RoleVerdict]) -> int:
    return sum(role.total_requests for role in roles.values())


def _lost(role: RoleVerdict) -> int:
    """Count the calls that were no use: those that failed, or all where none was answered well."""
    return role.failed_requests or role.total_requests


def _why(role: RoleVerdict) -> str:
    return role.subcategory.value if role.subcategory else role.rule


def _told(name: str, role: RoleVerdict) -> str:
    lost = f"{_lost(role):,} of {plural(role.total_requests, 'call')}"
    return f"role {name} did not reach its model in {lost} ({_why(role)})"


# --- starved ---
#
# The task timed out while the agent waited for the provider.
#
# Agents spend most of their time waiting for a model, so that alone is worth knowing and no more.
# It is suspect where the time was lost to failures, or where so little came that the provider was
# slow whatever the model wrote: engines and APIs write tens to hundreds of tokens a second
# (artificialanalysis.ai/models, output speed). Where the proxy had calls wait for a tenth of the
# time, the time-out is not the model's, and the measurement is invalid.


STARVED = "starved"
_MOST = 0.5  # of the wall time
_HELD = 0.1  # of the wall time: the task had that much less of it, and the wait was ours
_SLOW = 5.0  # output tokens a second
_LONGEST_CALLS = 10


def starved(measured: Measurement) -> CheckResult | None:
    """Find that the task timed out, and over half of its time went into waiting for the provider.

    Levels: `info`; `suspect`: lost to failures, or fewer than 5 output tokens a second.

    Covered: registration, outcome and the calls' durations are known.
    """
    facts = measured.facts
    outcome = facts.outcome
    timed_out = outcome is not None and outcome.status is ExecutionStatus.TASK_TIMEOUT
    if not timed_out or not facts.calls:
        return None
    time = measured.time
    provider, lost, agent = time.provider_s, time.lost_s, time.agent_s
    of = len(facts.calls)
    if provider is None or lost is None or agent is None:
        return CheckResult(coverage=Coverage(looked=0, of=of))
    coverage = Coverage(looked=of, of=of)
    held = time.held_s or 0.0
    wall = provider + lost + held + agent
    if provider + lost + held <= wall * _MOST and held <= wall * _HELD:
        return CheckResult(coverage=coverage)
    made = _made(facts)
    slow = made is not None and made < provider * _SLOW
    level = Level.SUSPECT if slow or lost > wall * _MOST else Level.INFO
    about: dict[str, object] = {
        "provider_s": provider, "lost_s": lost, "agent_s": agent, "output_tokens": made,
    }  # fmt: skip
    return CheckResult.found(
        coverage,
        check=STARVED,
        level=Level.INVALID if held > wall * _HELD else level,
        calls=[call.last for call in facts.calls],
        proof=_longest(facts),
        sentence=_sentence(provider, lost, held, wall, made),
        about={**about, "held_s": held} if held else about,
    )


def _made(facts: Evidence) -> int | None:
    """Sum the output tokens; None if a call wrote some that were not counted."""
    if any(output_tokens(x) is None and _may_have_written(x) for x in facts.exchanges):
        return None
    return sum(output_tokens(x) or 0 for x in facts.exchanges)


def _may_have_written(call: Exchange) -> bool:
    return call.status is not None and call.cause is None and call.output_seen is not False


def _longest(facts: Evidence) -> list[Exchange]:
    """Return the calls that took longest, in their order."""
    longest = sorted(facts.exchanges, key=lambda x: -(x.timing.duration_s or 0.0))[:_LONGEST_CALLS]
    ids = {x.id for x in longest}
    return [x for x in facts.exchanges if x.id in ids]


def _sentence(provider: float, lost: float, held: float, wall: float, made: int | None) -> str:
    text = f"the task timed out after {wall:,.0f} s, of which the provider took {provider:,.0f} s"
    if lost:
        text += f" and its failures {lost:,.0f} s"
    if held:
        text += f", after calls had waited {held:,.0f} s at the proxy"
    return text if made is None else f"{text} for {plural(made, 'token')} of output"


# --- usage mismatch ---
#
# The runner reports other tokens than its calls had.
#
# Harnesses count what they see of an answer: some leave out cached input, side calls or reasoning,
# some count the last call only. A number that fits none of these readings is from elsewhere: calls
# that passed the proxy by, another run's file, a counter that never ran.


USAGE_MISMATCH = "usage_mismatch"
_FACTOR = 2  # of a reading; tokenizers of runners differ from the provider's
_CACHE_PRICE = 0.1  # of an input token's: runners that weigh tokens by price


def usage_mismatch(measured: Measurement) -> CheckResult | None:
    """Find that the runner's `total_tokens` fits no way of counting the calls.

    Levels: `suspect`.

    Covered: both counts are known, and include what was cached.
    """
    facts = measured.facts
    reported = facts.outcome.total_tokens if facts.outcome else None
    agents = [x for x in facts.exchanges if _spends(x)] if reported else []
    if not reported or not agents or facts.exempt:
        return None
    spent = [x for x in measured.rollout.exchanges if _spends(x)]
    unknown = [x for x in agents if not _known(x)]
    coverage = Coverage(looked=len(agents) - len(unknown), of=len(agents))
    if not all(map(_known, spent)) or measured.rollout.gaps:
        return CheckResult(coverage=coverage)
    main = {attempt.id for call in facts.main for attempt in call.attempts}
    groups = (agents, [x for x in agents if x.id in main], spent)
    readings = [reading for group in groups for reading in _readings(group)]
    longest = max(_input(x) + _output(x) for x in agents)  # the conversation, each token once
    readings += [longest, _input(agents[-1]) + _output(agents[-1])]
    read, written = sum(map(_input, agents)), sum(map(_output, agents))
    if any(x.usage.cached_input_tokens is None for x in agents) and reported > longest:
        readings.append(min(reported, read + written))  # less what somebody else knows as cached
    if any(reading <= reported * _FACTOR and reported <= reading * _FACTOR for reading in readings):
        return CheckResult(coverage=coverage)
    return CheckResult.found(
        coverage,
        check=USAGE_MISMATCH,
        level=Level.SUSPECT,
        calls=agents,
        sentence=f"the runner reports {plural(reported, 'token')}; its calls had "
        f"{read + written:,} ({read:,} of input, {written:,} of output)",
        about={"reported": reported, "input": read, "output": written},
    )


def _spends(exchange: Exchange) -> bool:
    """Return True if a call may have cost tokens; an HTTP error costs none."""
    if exchange.kind in (Kind.PROBE, Kind.OTHER) or exchange.pending:
        return False
    return exchange.cause is None or (exchange.status is not None and exchange.status < 400)


def _known(exchange: Exchange) -> bool:
    if exchange.usage.input_total is None or may_hide_cache(exchange):
        return False
    return exchange.kind is Kind.EMBEDDING or output_tokens(exchange) is not None


def _input(exchange: Exchange) -> int:
    return exchange.usage.input_total or 0


def _output(exchange: Exchange) -> int:
    return output_tokens(exchange) or 0


def _readings(calls: Sequence[Exchange]) -> Iterator[float]:
    """Yield the tokens of some calls, counted in each way that a runner may."""
    read, written = sum(map(_input, calls)), sum(map(_output, calls))
    cached = sum(x.usage.cached_input_tokens or 0 for x in calls)
    created = sum(x.usage.cache_write_tokens or 0 for x in calls)
    reasoning = sum(x.usage.reasoning_tokens or 0 for x in calls)
    inputs = {read, read - cached, read - cached - created, read - cached * (1 - _CACHE_PRICE), 0}
    inputs |= {read + cached, read + cached + created}  # counted twice
    for one in inputs:
        for other in {written, written - reasoning, written + reasoning, 0}:
            if one + other > 0:
                yield one + other


# --- unearned ---
#
# A score that no model earned: a reward above the least, and no answer of the model under test.
#
# It comes of a verifier that passes what was there before, of an agent that knows the solution, or
# of calls that passed the proxy by. A pass with next to no output beside the task's others is worth
# knowing too: a model answered it, and perhaps something else solved it.


_FEW = 20  # times fewer output tokens than the task's other passes have


def rewarded(rollout: RolloutRecord) -> dict[str, float]:
    """Return what was reported above the least reward, by name; the runner's evaluation included.

    Without a registered range the least is 0.
    """
    outcome = rollout.outcome
    if outcome is None:
        return {}
    reported = dict(outcome.rewards or {})
    score = reward_in(reported, outcome.eval, rollout.score_key)
    if score is None:  # whatever is the score, an evaluation says that it passed
        score = reward_in(None, outcome.eval)
    if score is not None and score not in reported.values():
        reported["eval"] = score
    least = least_reward(rollout)
    return {name: value for name, value in reported.items() if value > least}


def least_reward(rollout: RolloutRecord) -> float:
    """Return the least reward that a runner may report of a rollout."""
    return 0.0 if rollout.reward_range is None else rollout.reward_range[0]


def unearned(measured: Measurement) -> CheckResult | None:
    """Find a reward above the least of `reward_range` (else above 0), and no answered call on main.

    Or one with fewer output tokens than a twentieth of the task's other passes.

    Levels: `invalid` without an answered call, `info` where agents are `untrusted`; `info`: few
    tokens.

    Covered: it ended, and no call of the rollout is missing.

    None where there is no reward, or an answer may have come without a call that is seen: of a
    subscription of the agent's own or a cache, in calls without a rollout, or as the runner counts.
    """
    facts, rollout = measured.facts, measured.rollout
    rewards = rewarded(rollout)
    if not rewards or facts.exempt or rollout.client_cache or rollout.unattributed_calls:
        return None
    if facts.proof is not None and facts.proof.source is ProofSource.REPORTED:
        return None
    calls = len(facts.main)
    coverage = Coverage(looked=calls, of=calls)
    if facts.model_answered:
        usual, few = rollout.passes_tokens, output_total(facts.exchanges)
        if usual is None or few is None or few * _FEW >= usual:
            return CheckResult(coverage=coverage)
        why = (
            f"with {plural(few, 'token')} of output, less than a twentieth of the {usual:,.0f} of "
            "the task's other passes"
        )
        return _unearned(
            measured, rewards, Level.INFO, why, {USUAL_OUTPUT: usual, "output_tokens": few}
        )
    if rollout.gaps or facts.any(CallState.PENDING, CallState.LOST):
        return CheckResult(coverage=Coverage(looked=0, of=calls))
    none = "no call to the model under test was seen"
    if calls == 1:
        none = "the only call to the model under test was not answered"
    elif calls:
        none = f"none of {plural(calls, 'call')} to the model under test was answered"
    level = Level.INFO if facts.untrusted else Level.INVALID
    return _unearned(measured, rewards, level, f"without an answer: {none}", {})


def _unearned(
    measured: Measurement,
    rewards: Mapping[str, float],
    level: Level,
    why: str,
    about: Mapping[str, object],
) -> CheckResult:
    main = measured.facts.main
    told = ", ".join(f"{name} {value:g}" for name, value in rewards.items())
    return CheckResult.found(
        Coverage(looked=len(main), of=len(main)),
        check=UNEARNED,
        level=level,
        calls=[call.last for call in main],
        sentence=f"{told} {why}",
        about={"rewards": dict(rewards), **about},
    )


# --- other models ---
#
# Most of the work was done by models outside the registered ones.
#
# A harness calls small models for titles and summaries; healthy agents of two come near half.


OTHER_MODELS = "other_models"
_TOOLS = attrgetter("tool_calls")


def other_models(measured: Measurement) -> CheckResult | None:
    """Find that other models wrote three quarters of the output, or half and most tool calls.

    Tool calls alone do not tell: a small model may act while the registered one plans.

    Levels: `suspect`.

    Covered: it was answered, and registration names the model.

    None if registration binds nothing, or all answers came from inside.
    """
    answers = len(measured.answers)
    if not measured.facts.bound or len(measured.main) == answers:
        return None
    main = {x.id for x in measured.main}
    outside = [x for x in measured.answers if x.id not in main]
    coverage = Coverage(looked=answers, of=answers)
    tools, of_tools = _summed(outside, _TOOLS), _summed(measured.answers, _TOOLS)
    tokens, of_tokens = _summed(outside, output_tokens), _summed(measured.answers, output_tokens)
    wrote = 4 * tokens > 3 * of_tokens
    acted = 4 * tools > 3 * of_tools and 2 * tokens > of_tokens
    if not (wrote or acted):
        return CheckResult(coverage=coverage)
    names = sorted({x.answered_model or x.model or x.upstream for x in outside})
    return CheckResult.found(
        coverage,
        check=OTHER_MODELS,
        level=Level.SUSPECT,
        calls=outside,
        sentence=f"{tools:,} of {plural(of_tools, 'tool call')} and {tokens:,} of "
        f"{plural(of_tokens, 'token')} of output came from outside what is registered: "
        f"{', '.join(names[:_NAMES])}",
        about={"models": names[:_NAMES], "tool_calls": tools, "output_tokens": tokens},
    )


def _summed(answers: Sequence[Exchange], count: Callable[[Exchange], int | None]) -> int:
    return sum(count(x) or 0 for x in answers)


# --- requests abandoned ---
#
# Requests failed and never came again, while others were answered (``abandoned``).
#
# Whoever asks many things at once counts what failed as a wrong answer: an evaluator lost 3 of 7
# documents so. Where requests are independent, 2 % of them move a score as much as models differ.


REQUESTS_ABANDONED = "requests_abandoned"
_ONE_IN = 50  # independent requests


def requests_abandoned(measured: Measurement) -> CheckResult | None:
    """Find requests on main that failed and never came again, while others were answered.

    Not those that the rollout ended with, nor those that the request or the agent made fail.

    Levels: `suspect`; `invalid`: from 2 % of the requests, where none goes on with another.

    Covered: it failed, its conversation is known, and so is that of every request after it.
    """
    found = measured.abandoned
    if not found.candidates:
        return None
    coverage = Coverage(looked=found.known, of=found.candidates)
    lost = [call.last for call in found.calls]
    if not lost:
        return CheckResult(coverage=coverage)
    many = found.independent and len(lost) * _ONE_IN >= found.requests
    return CheckResult.found(
        coverage,
        check=REQUESTS_ABANDONED,
        level=Level.INVALID if many else Level.SUSPECT,
        calls=lost,
        of=found.requests,
        sentence=f"{len(lost):,} of {plural(found.requests, 'request')} failed and never came "
        "again, while others were answered",
        about={"independent": found.independent},
    )
