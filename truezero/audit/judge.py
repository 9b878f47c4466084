"""Judge a finished run by the service's own rules, on what its harness wrote down."""

from __future__ import annotations

from dataclasses import dataclass, replace

from classifier.diagnostics import why_unscored
from classifier.fingerprints import NETWORK, UNKNOWN
from classifier.logical_calls import CUT_SHORT, bare_reason, canonical
from classifier.records import (
    Cause,
    Ending,
    Exchange,
    ExecutionStatus,
    Outcome,
    RolloutRecord,
    Timing,
    Usage,
    UsageSource,
)
from classifier.rules import judge
from classifier.score_keys import reward_in
from classifier.sentences import with_sentence
from classifier.verdicts import (
    CALLS_UNATTRIBUTED,
    EVIDENCE,
    Health,
    Layer,
    Policy,
    Proof,
    ProofSource,
    Subcategory,
    Verdict,
)
from truezero.audit.errors import bare_refusal, broken_connection, failed_call, unsent
from truezero.audit.runs import FinishedRun, RecordedCall, RunPlace, Settings, Subject

_UNNAMED = "unknown"  # upstream of a model without a provider's prefix
_ERRED = "recorded by the harness"  # in place of its text, which may quote a prompt
# What they say of a proxy does not hold where there was none.
_OF_A_PROXY = frozenset(
    ("calls_bypass_the_proxy", "calls_unrecorded", "usage_missing", CALLS_UNATTRIBUTED)
)
UNMEASURED = "not_recorded"  # the rule's name where the files do not say enough
UNSENT = "its model's client is not configured, and sent no request"
NEVER_BEGAN = "agent_never_began"  # and where installer, sandbox or launcher failed before a call
PASSED = 1.0  # the score of a run that did all that was asked
# Rejections that no answer comes before: whoever gets one gets it for the first request.
_AT_ONCE = frozenset(("wrong_endpoint", "unsupported", "wrong_shape"))
# Suspicions that do not show that nothing was measured.
_UNPROVEN = frozenset(("unexplained_rejections", "unread_answers"))

# --- what cannot be known ---

NOTHING = "neither calls, tokens, output nor an error of a provider are recorded"
BEFORE = "it ended on a rejected request, and nothing shows if answers came before"
TOO_LONG = "its first prompt was too long for the model, by whosever doing"
HOLLOW = "answers without text or a tool call, and no word of what else was in them"
BROKEN = "it ended on a broken connection, and nothing says if that was the model's"
CUT_OFF = "how it ended is not recorded, and it left no result"

# --- a judged run ---

_ENVIRONMENT = "the environment failed, by the harness's own record"
_WORDLESS = "points for answers without a text or a tool call"


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """One judged run; ``reward`` is the score that its harness counts.

    What stands in `FinishedRun` means the same here. ``calls``: whether the files hold its calls,
    so that the verdict's counts are counts. ``silent``: nothing in them shows if answers came.
    ``environment``: the harness says that the environment failed, and not the agent. ``wordless``:
    all its answers are known to be without a text and a tool call. ``missing``: why it is
    undecided.
    """

    id: str
    task: str
    origin: str | None = None
    evaluation: str = ""
    settings: Settings = ()
    repeat: int
    attempt: int
    model: str | None
    reward: float | None
    verdict: Verdict
    calls: bool
    filled: bool = False
    unread: str | None = None
    silent: bool = False
    environment: bool = False
    wordless: bool = False
    missing: str | None = None
    unknown: tuple[str, ...] = ()
    place: RunPlace | None = None

    @property
    def spoiled(self) -> bool:
        """True if its health or an invalid finding speaks against it."""
        verdict = self.verdict
        invalid = verdict.health is Health.HEALTHY and verdict.scoreable == "no"
        return verdict.health.unhealthy or (invalid and bool(verdict.validity))

    @property
    def passed_before(self) -> bool:
        """True if failures ended it after it had done all that was asked: a measurement.

        Where nothing shows if answers came, the score does.
        """
        unseen = self.silent and self.verdict.health is Health.API_ERROR
        ended = unseen or self.verdict.rule == "interrupted"
        return ended and (self.reward or 0.0) >= PASSED

    @property
    def unearned(self) -> bool:
        """True if it got points for answers without a text or a tool call."""
        return self.wordless and (self.reward or 0.0) > 0

    @property
    def no_measurement(self) -> bool:
        """True if it is proven that the run measured no model."""
        if self.passed_before or self.verdict.rule in _UNPROVEN:
            return False
        if self.spoiled or self.unearned or self.verdict.health is Health.NOT_JUDGED:
            return True
        return self.environment and (self.reward or 0.0) < PASSED

    @property
    def left_out(self) -> bool:
        """True if its reward is not in the corrected score: no measurement, or by its policy."""
        excluded = self.verdict.health is Health.HEALTHY and self.verdict.scoreable == "no"
        return self.no_measurement or excluded

    @property
    def never_began(self) -> bool:
        """True if installer, sandbox or launcher failed before the agent's first call."""
        return self.verdict.rule == NEVER_BEGAN

    @property
    def why(self) -> str:
        """The reason in one sentence."""
        if self.unearned and not self.spoiled:
            return _WORDLESS
        if self.environment and not self.spoiled:
            return _ENVIRONMENT
        verdict = self.verdict
        return self.missing or why_unscored(verdict) or verdict.sentence or verdict.rule

    @property
    def false_zero(self) -> bool:
        """True if it is no measurement and counts as 0, or by a score that cannot be read."""
        zero = self.unread is not None if self.reward is None else self.reward == 0
        return zero and self.no_measurement

    @property
    def false_points(self) -> bool:
        """True if it got points and is no measurement."""
        return bool(self.reward) and self.no_measurement

    @property
    def score(self) -> float | None:
        """The reward, unless it is left out."""
        return None if self.left_out else self.reward


def audited(subject: Subject, policy: Policy = EVIDENCE) -> Audited:
    """Judge one run; a rollout of our own export is judged as the service does.

    Arguments:
        policy: as of the service; what a rollout of our own export says of its batch's stands.
    """
    if isinstance(subject, RolloutRecord):
        return _own(subject, policy)
    verdict, missing = _verdict(subject, policy)
    return Audited(
        id=subject.id,
        task=subject.task,
        origin=subject.origin,
        evaluation=subject.evaluation,
        settings=subject.settings,
        repeat=subject.repeat,
        attempt=subject.attempt,
        model=subject.model,
        reward=subject.reward,
        verdict=verdict,
        calls=subject.calls is not None,
        filled=subject.filled,
        unread=subject.unread,
        silent=_silent(subject),
        environment=subject.status is ExecutionStatus.ENVIRONMENT_ERROR,
        wordless=_wordless(subject),
        missing=missing,
        unknown=subject.unknown,
        place=_place(subject),
    )


def _place(run: FinishedRun) -> RunPlace | None:
    """Return where a run is recorded, with the words of its last error unless others are better."""
    errors = [call.error for call in run.calls or () if call.error is not None]
    last = run.error or (errors[-1] if errors else None)
    if run.place is None or run.place.words or last is None:
        return run.place
    return replace(run.place, words=last.text or last.type)


def _own(rollout: RolloutRecord, policy: Policy) -> Audited:
    outcome = rollout.outcome
    return Audited(
        id=rollout.id,
        task=rollout.task or rollout.id,
        evaluation=rollout.batch or "",
        repeat=rollout.repeat or 0,
        attempt=rollout.attempt or 0,
        model=rollout.model,
        reward=None
        if outcome is None
        else reward_in(outcome.rewards, outcome.eval, rollout.score_key),
        verdict=judge(rollout, policy=policy),
        calls=True,
    )


def _verdict(run: FinishedRun, policy: Policy) -> tuple[Verdict, str | None]:
    """Judge a run; an undecided one also has the reason."""
    if run.error is not None and unsent(run.error) and not (run.calls or _active(run)):
        run = replace(run, calls=None, error=None, prompted=False, never_began=UNSENT)
    exchanges = _exchanges(run)
    named = {canonical(x.model) for x in exchanges if x.model}
    rollout = RolloutRecord(
        id=run.id,
        task=run.task,
        repeat=run.repeat,
        attempt=run.attempt,
        model=run.model if run.model and canonical(run.model) in named else None,
        exchanges=exchanges,
        gaps=int(not exchanges and _uncounted(run)),
        outcome=Outcome(
            status=run.status,
            termination_reason=run.termination_reason,
            prompts_executed=None if run.prompted is None else int(run.prompted),
            tool_calls=run.tool_calls,
            total_tokens=run.tokens,
            rewards=None if run.reward is None else {"reward": run.reward},
            error=None if run.error is None else _ERRED,
        ),
    )
    verdict = judge(rollout, policy=policy)
    missing = _missing(run, verdict, exchanges)
    if missing is not None:
        exchanges = ()
        verdict = judge(replace(rollout, exchanges=(), gaps=1), policy=policy)
    verdict = _without_status(verdict, exchanges)
    return with_sentence(_of_records(run, verdict, exchanges)), missing


def _missing(run: FinishedRun, verdict: Verdict, exchanges: tuple[Exchange, ...]) -> str | None:
    """Return why a verdict would hang on what the files do not say; None if it does not."""
    if verdict.health is Health.UNDECIDED and not exchanges:
        return NOTHING
    if verdict.subcategory is Subcategory.REJECTED_REQUEST:
        causes = (x.cause for x in reversed(exchanges) if x.role == "agent")
        return _rejected(run, next(filter(None, causes), None))
    if verdict.rule == "empty_answers":
        answers = [x for x in exchanges if x.role == "agent" and not x.failed]
        return HOLLOW if any(x.usage.output_tokens != 0 for x in answers) else None
    if verdict.health is not Health.HEALTHY:
        return None
    if run.calls is None and run.error is not None and broken_connection(run.error):
        return BROKEN
    return CUT_OFF if run.cut_off else None


def _rejected(run: FinishedRun, cause: Cause | None) -> str | None:
    """Return why nobody can say whose rejection it was that left a run without an answer."""
    if cause is None or cause.reason in _AT_ONCE:
        return None
    if _silent(run):
        return BEFORE
    return TOO_LONG if cause.reason == "context_length" else None


def _wordless(run: FinishedRun) -> bool:
    """Return True if answers of the agent's model came, and none with a text or a tool call."""
    calls = [each for each in run.calls or () if each.role == "agent" and each.error is None]
    return bool(calls) and all(each.content is False for each in calls)


def _without_status(verdict: Verdict, exchanges: tuple[Exchange, ...]) -> Verdict:
    """Return the verdict without the claim that no answer came, where the provider's words did."""
    silent = any(x.failed and x.ending is not Ending.COMPLETE for x in exchanges)
    spoken = verdict.subcategory not in (None, Subcategory.PROVIDER_ERROR) and not silent
    if verdict.subcategory is None or not spoken or verdict.dominant_status is not None:
        return verdict
    return replace(
        verdict,
        fingerprint=f"{verdict.subcategory.value}:{UNKNOWN}",
        cause=(verdict.cause or "").replace(f":{NETWORK}:", f":{UNKNOWN}:"),
        error=(verdict.error or "").replace("no answer", "an error without a status"),
        status_counts={name: n for name, n in verdict.status_counts.items() if name != NETWORK},
    )


def _silent(run: FinishedRun) -> bool:
    """Return True if nothing shows if a model answered."""
    return _uncounted(run) and run.output is None


def _uncounted(run: FinishedRun) -> bool:
    """Return True if nothing that was counted shows if a model was called or not."""
    if run.prompted is False or run.status is ExecutionStatus.SETUP_FAILED:
        return False
    if run.calls is not None or run.tokens is not None:
        return False
    return not run.tool_calls


def _of_records(run: FinishedRun, verdict: Verdict, exchanges: tuple[Exchange, ...]) -> Verdict:
    """Return the verdict in words that hold for records, with no count that they do not hold."""
    verdict = replace(
        verdict,
        layer=Layer.AUDIT,
        provisional=False,
        evidence=(),
        proof=None if verdict.proof is None else Proof(ProofSource.REPORTED),
        lane=verdict.lane if run.calls is not None else run.model,
        warnings=tuple(each for each in verdict.warnings if each not in _OF_A_PROXY),
    )
    if run.calls is None:
        verdict = replace(
            verdict,
            input_tokens=None,
            output_tokens=None,
            total_tokens=run.tokens,
            tool_calls=run.tool_calls,
        )
    if verdict.health is Health.NOT_JUDGED and (why := _never_began(run)):
        return replace(verdict, rule=NEVER_BEGAN, error=why)
    if verdict.health is Health.UNDECIDED and not exchanges:
        return replace(verdict, rule=UNMEASURED)
    if run.calls is not None or verdict.health is not Health.API_ERROR:
        return verdict
    return replace(
        verdict,
        error=_sentence(verdict),
        total_requests=0,
        failed_requests=0,
        status_counts={},
        lost_s=None,
    )


def _never_began(run: FinishedRun) -> str | None:
    """Return that and why the agent never began; None if it may have."""
    why = run.never_began
    if why is None and run.status is ExecutionStatus.SETUP_FAILED:
        why = "its setup failed"
    return why and f"the agent never began: {why}"


def _sentence(verdict: Verdict) -> str:
    kind = "transient" if verdict.transient else "permanent"
    name = verdict.subcategory.value if verdict.subcategory else "unknown"
    status = verdict.dominant_status
    what = "" if status is None else f"HTTP {status}, "
    when = ", after the model had answered" if verdict.rule == "interrupted" else ""
    return f"api_error [{name}, {kind}]: {what}by the run's own error{when}"


def _exchanges(run: FinishedRun) -> tuple[Exchange, ...]:
    counted = (_activity(run),) if _active(run) else ()
    calls = counted if run.calls is None else run.calls
    made = [_exchange(run, call, place) for place, call in enumerate(calls)]
    ending = _run_error(run, made)
    return tuple(made if ending is None else [*made, ending])


def _active(run: FinishedRun) -> bool:
    """Return True if the run's own counts show that a model was called and answered."""
    return bool(run.tokens or run.tool_calls or run.output)


def _activity(run: FinishedRun) -> RecordedCall:
    """Stand for the calls of a run whose files only count what came of them."""
    empty = run.output is False and not run.tool_calls
    return RecordedCall(
        content=not empty,
        output_tokens=0 if empty else None,
        model=run.model,
    )


def _run_error(run: FinishedRun, made: list[Exchange]) -> Exchange | None:
    """Return the call that ended the run, where its error is one of a model's client.

    Where the harness kept the call itself as well, it is not counted twice. A bare status is one
    of a run that is known to have used no tokens.
    """
    if run.error is None or (made and made[-1].cause is not None):
        return None
    call = RecordedCall(error=run.error, model=run.model, role="agent")
    refused = run.tokens == 0 and bare_refusal(run.error)
    if failed_call(run.error, of_call=refused, upstream=_upstream(run.model)) is None:
        return None
    return _exchange(run, call, len(made), of_call=refused)


def _exchange(
    run: FinishedRun, call: RecordedCall, place: int, *, of_call: bool = True
) -> Exchange:
    named = call.model or run.model
    upstream = _upstream(named)
    failed = (
        None if call.error is None else failed_call(call.error, of_call=of_call, upstream=upstream)
    )
    seen = False if failed is not None else call.reasoning or call.content
    cut_short = bare_reason(call.finish_reason) in CUT_SHORT
    return Exchange(
        id=f"{run.id}#{place}",
        rollout_id=run.id,
        upstream=upstream,
        api="recorded",
        timing=Timing(started_at=float(place) if call.started_at is None else call.started_at),
        role=call.role,
        model=named and named.removeprefix(f"{upstream}/"),
        status=200 if failed is None else failed.status,
        ending=Ending.COMPLETE if failed is None else failed.ending,
        cause=None if failed is None else failed.cause,
        usage=_usage(call),
        finish_reason=call.finish_reason,
        tool_calls=call.tool_calls,
        output_seen=seen,
        content_seen=call.content if seen and cut_short else seen,
        has_tools=call.has_tools,
    )


def _usage(call: RecordedCall) -> Usage:
    if call.input_tokens is None and call.output_tokens is None:
        return Usage()
    return Usage(
        input_tokens=call.input_tokens,
        output_tokens=call.output_tokens,
        source=UsageSource.PROVIDER,
    )


def _upstream(model: str | None) -> str:
    """Return the provider that a model's name begins with (``openai/gpt-5``)."""
    return model.partition("/")[0] if model and "/" in model else _UNNAMED
