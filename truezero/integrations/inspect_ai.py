"""Inspect: each attempt of a sample is a rollout, and is not scored if no model was reached.

Asked for (``measured``, ``install``, or a model whose base URL is the service's) it fails closed:
a task or a sample without a service is an error, before its first call. Merely present it leaves
an eval as it is, and says so once.
"""

from __future__ import annotations

import importlib
import inspect
import math
import os
import shlex
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial, update_wrapper, wraps
from typing import Any

import anyio
import anyio.to_thread

from truezero import AsyncClient, models
from truezero.integrations.attempts import (
    AWAY,
    NO_CALL,
    check_service,
    finite,
    no_measurement,
    unmeasured_line,
)
from truezero.printable import plural, visible
from truezero.sdk.addresses import DEFAULT_URL
from truezero.sdk.arguments import OutcomeFacts
from truezero.sdk.current import is_service, key_header
from truezero.sdk.errors import NotMeasured, ServiceError
from truezero.sdk.outcomes import is_away, outcomes_left, patience_s

Scorer = Callable[[Any, Any], Awaitable[Any]]

_JUDGE = "judge"
_OFF = frozenset({"0", "off", "false", "no"})
_POLL_S = 0.5

# inspect_ai/scorer/_metric.py: CORRECT, INCORRECT, PARTIAL, NOANSWER.
_LETTERS: Mapping[str, float] = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}

# inspect_ai/log/_log.py: EvalSampleLimit.type; other limits stop an agent for other reasons.
_TIME_LIMITS = frozenset({"time", "working"})
_STEP_LIMITS = frozenset({"message", "turn", "token", "cost"})

# Errors of HTTP clients that never reached the service.
_NOT_CONNECTED = frozenset({"ConnectError", "ConnectTimeout", "ClientConnectorError"})
_NO_CALL = "no call"  # a cause that the last line names


@dataclass(slots=True)
class _Eval:
    """One task of a run, while it runs, and what its last line says."""

    id: str
    task: str
    epochs: int | None
    asked: bool
    scores_errors: bool = False  # Inspect's score_on_error
    refused: str | None = None  # why none of its samples can be measured
    samples: int = 0
    requests: int = 0
    causes: Counter[str] = field(default_factory=Counter)
    scored: int = 0  # samples that are not measured, and have a score that counts
    log: str | None = None  # its place
    away: str | None = None  # the first sentence about a service that was


@dataclass(slots=True)
class _Attempt:
    """One attempt of one sample, while it runs."""

    hooks: SampleHooks
    of: _Eval
    facts: Mapping[str, Any]  # of its registration
    registered: models.RolloutRegistered | None = None
    refused: str | None = None  # why it is no measurement, whatever its solver makes of it
    verdict: models.Verdict | None = None  # before it is scored
    scoring: bool = False
    judged: bool = False  # by a model, through the service
    cached_tokens: int = 0  # of answers from Inspect's own cache, which the proxy does not see
    registering: anyio.Lock = field(default_factory=anyio.Lock)


# Inspect awaits the hooks of an attempt in the context in which its solver and scorers run.
_attempt: ContextVar[_Attempt | None] = ContextVar("truezero_attempt", default=None)
_installed = threading.Event()  # Inspect keeps one hook of a name: the last
_asked = threading.Event()  # `measured` or `install` was called in this process
_told = threading.Event()  # that an eval is not measured


def plug() -> None:
    """Install the hook for the service at ``TRUEZERO_URL``, unless ``install`` was called.

    It imports nothing and changes nothing unless ``TRUEZERO_URL`` is set.
    ``TRUEZERO_INSPECT=off`` turns it off.
    """
    url, switch = os.environ.get("TRUEZERO_URL"), os.environ.get("TRUEZERO_INSPECT", "")
    if url and switch.lower() not in _OFF and not _installed.is_set():
        try:
            _add_hooks(None, None)
        except (ImportError, AttributeError, TypeError) as error:  # of a release not known here
            _say(f"evals of this Inspect are not measured: {error}")


def install(
    url: str | None = None, token: str | None = None, *, score_key: str | None = None
) -> None:
    """Register every sample that Inspect runs as a rollout; call once, before ``eval``.

    Not needed where ``TRUEZERO_URL`` is set and the model's base URL is the service's: Inspect's
    entry points do it. The batch is the log's ``eval.eval_id``, the task a sample's id, ``repeat``
    its epoch from 0 and ``repeats`` the number of epochs. The model's base URL is the service's
    ``{url}/openai/v1`` (or another upstream's).

    Without the service no task runs, and a sample that it does not admit is an error.

    Arguments:
        url, token: as for ``truezero.Client``.
        score_key: of several scorers, the one whose value is a sample's score: its name, with
            ``/key`` if its value is a dict.

    Raises:
        ImportError: inspect-ai is not installed.
    """
    _add_hooks(url, token, score_key)
    _asked.set()


def _add_hooks(url: str | None, token: str | None, score_key: str | None = None) -> None:
    api = importlib.import_module("inspect_ai.hooks")
    limit = importlib.import_module("inspect_ai.util").LimitExceededError
    members = {
        "service": (url, token),
        "score_key": score_key,
        "refusal": staticmethod(refusals(limit)),
        "errored": staticmethod(_errored),
    }
    named = api.hooks(name="truezero", description="Each attempt of a sample is a rollout.")
    named(type("Truezero", (SampleHooks, api.Hooks), members))
    _watch(importlib.import_module("inspect_ai.model").Model)
    _installed.set()


def refusals(limit: type[Exception]) -> Callable[[str], Exception]:
    """Return what makes the exception with which a hook ends a task or a sample as an error.

    Inspect swallows what a hook raises, but for ``LimitExceededError``, and scores a sample that
    ended by a limit. This one raises the error when Inspect reads which limit it was.
    """

    class NotAdmitted(limit):  # type: ignore[misc, valid-type]
        def __init__(self, sentence: str) -> None:
            super().__init__("custom", value=1, limit=0, message=sentence)

        @property
        def type(self) -> str:
            raise NotMeasured(str(self)) from None

        @type.setter
        def type(self, kind: str) -> None:
            del kind  # the base class sets it

    return NotAdmitted


def _errored() -> bool:
    """Return True if the sample that is about to be scored has failed already."""
    events = importlib.import_module("inspect_ai.log").transcript().events
    return any(event.event == "error" for event in events)


class SampleHooks:
    """Inspect's hooks; ``install`` adds the base class (inspect_ai/hooks/_hooks.py).

    A client is opened for each request: evals in one process have separate event loops.
    """

    service: tuple[str | None, str | None] = (None, None)  # URL and token, as for the client
    score_key: str | None = None  # of several scorers
    refusal: Callable[[str], Exception]
    errored: Callable[[], bool]

    def __init__(self) -> None:
        super().__init__()
        self._evals: dict[str, _Eval] = {}  # by id, until their run ends
        self._away_since: float | None = None

    def client(self) -> AsyncClient:
        """Return a client of the service, to be closed."""
        return AsyncClient(*self.service)

    @property
    def url(self) -> str:
        """The service's address."""
        return (self.service[0] or os.environ.get("TRUEZERO_URL") or DEFAULT_URL).rstrip("/")

    # --- tasks -----------------------------------------------------------------------------

    async def on_task_start(self, data: Any) -> None:
        """Find out whether a task is to be measured, and then whether the service answers.

        Raises:
            LimitExceededError: it does not; the task ends with this error.
        """
        spec = data.spec
        addresses = [address for address in addresses_of(spec) if address]
        asked = _asked.is_set() or any(is_service(one, service=self.url) for one in addresses)
        self._evals[data.eval_id] = of = _Eval(
            id=data.eval_id,
            task=spec.task,
            epochs=spec.config.epochs,
            asked=asked,
            scores_errors=bool(getattr(spec.config, "score_on_error", False)),
        )
        if not asked:
            self._say_once(f"this eval is not measured, and runs as it would without: {self._hint}")
            return
        try:
            await self._check(of)
        except NotMeasured as error:
            raise self.refusal(str(error)) from None

    async def on_task_end(self, data: Any) -> None:
        """Note where a task's log is."""
        if of := self._evals.get(data.eval_id):
            of.log = data.log.location

    async def on_run_end(self, data: Any) -> None:
        """Say of each task of the run how many samples were not measured, and why."""
        del data
        evals, self._evals = self._evals, {}
        lines = [line for each in evals.values() if (line := last_line(each, self._hint))]
        left = outcomes_left() if any(AWAY in each.causes for each in evals.values()) else None
        for line in (*lines, *([left] if left else [])):
            _say(line)

    @property
    def _hint(self) -> str:
        return f"is model_base_url the service's, {self.url}/openai/v1?"

    def _say_once(self, line: str) -> None:
        if not _told.is_set():
            _told.set()
            _say(line)

    async def _check(self, of: _Eval) -> None:
        """Check once for an eval that the service answers.

        Raises:
            NotMeasured: it does not, now or when it was asked before.
        """
        if of.refused is None:
            try:
                await anyio.to_thread.run_sync(check_service, *self.service)
            except ServiceError as error:
                of.refused = f"truezero: {error}"
        if of.refused is not None:
            raise NotMeasured(of.refused)

    # --- samples ---------------------------------------------------------------------------

    async def on_sample_attempt_start(self, data: Any) -> None:
        """Register an attempt of a task that is to be measured.

        Raises:
            LimitExceededError: the service does not admit it; the sample ends with this error.
        """
        of = self._evals.get(data.eval_id)
        if of is None:
            return
        facts = {
            "id": _rollout_id(data.sample_id, data.attempt),
            "batch": data.eval_id,
            "task": str(data.summary.id),
            "repeat": data.summary.epoch - 1,
            "repeats": of.epochs,
            "attempt": data.attempt - 1,
            "roles": [_JUDGE],
            "score_key": self.score_key,
        }
        attempt = _Attempt(self, of, facts)
        _attempt.set(attempt)
        if not of.asked:
            return
        try:
            await self._admit(attempt)
        except NotMeasured as error:
            raise self.refusal(str(error)) from None

    async def call(self, attempt: _Attempt, model: Any, ask: Callable[[], Awaitable[Any]]) -> Any:
        """Call a model; before the first call to the service the attempt is registered.

        Raises:
            NotMeasured: the service does not admit the attempt. It is not called.
        """
        if not is_service(address_of(model.api) or "", attempt.registered, service=self.url):
            return await ask()
        if attempt.registered is None and attempt.refused is None:
            try:
                await self._check(attempt.of)
            except NotMeasured as error:
                attempt.refused = str(error)
        await self._admit(attempt)
        _name_calls(type(model.api))
        try:
            return await ask()
        except Exception as error:
            if _never_connected(error):
                attempt.refused = f"truezero: a call did not reach the service at {self.url}"
            raise

    async def _admit(self, attempt: _Attempt) -> None:
        """Register an attempt, once.

        Raises:
            NotMeasured: a breaker is open, or the service is away; the message says which.
        """
        async with attempt.registering:
            if attempt.registered is None and attempt.refused is None:
                try:
                    async with self.client() as client:
                        registered = await client.register(**attempt.facts)
                except ServiceError as error:
                    attempt.refused = f"truezero: {error}"
                else:
                    if registered.admitted:
                        attempt.registered = registered
                    else:
                        attempt.refused = f"truezero: {registered.error or 'skipped'}"
        if attempt.registered is None:
            raise NotMeasured(attempt.refused)

    async def on_model_cache_usage(self, data: Any) -> None:
        """Count the tokens of an answer from Inspect's cache."""
        attempt = _attempt.get()
        if attempt is not None and not attempt.scoring:
            attempt.cached_tokens += data.usage.total_tokens

    async def on_sample_scoring(self, data: Any) -> None:
        """Mark further calls as those of a judge; do not let a sample be scored unseen.

        Raises:
            LimitExceededError: truezero itself kept calls from their model, or the service cannot
                tell; the sample ends with this error.
        """
        del data
        attempt = _attempt.get()
        if attempt is None:
            return
        attempt.scoring = True
        if self.errored() and not attempt.of.scores_errors:
            return
        if attempt.registered is not None and attempt.refused is None:
            try:
                attempt.verdict = await self.judged(attempt)
            except ServiceError as error:
                attempt.refused = f"truezero: {error}"
            else:
                attempt.refused = _lost(attempt.verdict)
        if attempt.refused is not None:
            raise self.refusal(attempt.refused)

    async def judged(self, attempt: _Attempt) -> models.Verdict:
        """Judge an attempt; wait for a service that is away as long as outcomes do.

        Raises:
            ServiceError: it was away for longer.
        """
        assert attempt.registered is not None
        while True:
            try:
                async with self.client() as client:
                    verdict = await client.verdict(attempt.registered.id, settled=True)
            except ServiceError as error:
                if not is_away(error) or self._out_of_patience():
                    raise
            else:
                if not _unsure(verdict) or self._out_of_patience():
                    self._away_since = None
                    return verdict
            await anyio.sleep(_POLL_S)

    def _out_of_patience(self) -> bool:
        """Return True if the service has been away for too long.

        The first call starts the wait. All samples wait until the same deadline.
        """
        now = time.monotonic()
        if self._away_since is None:
            self._away_since = now
        return now - self._away_since >= patience_s()

    async def on_sample_attempt_end(self, data: Any) -> None:
        """Report an attempt that Inspect repeats; the last one is reported with its sample."""
        attempt = _attempt.get()
        if data.will_retry and attempt is not None:
            await self._report(attempt, failed_attempt())

    async def on_sample_end(self, data: Any) -> None:
        """Report the outcome of the sample, and count it."""
        attempt = _attempt.get()
        if attempt is None or (attempt.registered is None and attempt.refused is None):
            return
        outcome = sample_outcome(data.sample, cached_tokens=attempt.cached_tokens)
        result = await self._report(attempt, outcome)
        attempt.of.samples += 1
        attempt.of.requests += _facts(result).get("total_requests", 0)
        if cause := cause_of(result, attempt.refused):
            attempt.of.causes[cause] += 1
            attempt.of.scored += counts(data.sample.scores or {})
        if cause == AWAY:
            attempt.of.away = attempt.of.away or attempt.refused

    async def _report(self, attempt: _Attempt, outcome: OutcomeFacts) -> models.Result | None:
        """Report an outcome; None if it could not be delivered, or the attempt never began."""
        if attempt.registered is None:
            return None
        try:
            async with self.client() as client:
                return await client.report(attempt.registered.id, **outcome)
        except ServiceError as error:
            attempt.refused = attempt.refused or f"truezero: {error}"
            return None


def measured(scorer: Scorer, url: str | None = None, token: str | None = None) -> Scorer:
    """Wrap a scorer to return ``Score.unscored`` for a sample that reached no model.

    Inspect's metrics ignore such a score; its reason says what failed. The scorer keeps its
    name and its metrics. It installs the hook, as ``install`` does: without the service no task
    runs.

    Arguments:
        url, token: as for ``truezero.Client``.
    """
    if url is not None or token is not None or not _installed.is_set():
        install(url, token)
    _asked.set()

    async def score(state: Any, target: Any) -> Any:
        why = await _unmeasured()
        if why is None:
            scored = await scorer(state, target)
            why = await _misjudged()
        if why is None:
            return scored
        unscored = importlib.import_module("inspect_ai.scorer").Score.unscored
        return unscored(reason=why)

    update_wrapper(score, scorer)  # Inspect's registry entry is an attribute, and is copied too
    return score


async def _unmeasured() -> str | None:
    """Return why the current attempt is not a measurement; None if it is one."""
    attempt = _attempt.get()
    refused = attempt and attempt.refused
    if attempt is None or attempt.registered is None or refused is not None:
        raise NotMeasured(
            refused
            or "truezero: the sample is not registered: wrap the scorer, or call "
            "truezero.integrations.inspect_ai.install(), before eval()"
        )
    verdict = attempt.verdict or await attempt.hooks.judged(attempt)
    return why_unmeasured(verdict, cached_tokens=attempt.cached_tokens)


async def _misjudged() -> str | None:
    """Return why the score of a judge that called through the service is none; None if it is."""
    attempt = _attempt.get()
    if attempt is None or not attempt.judged:
        return None
    return (await attempt.hooks.judged(attempt)).spoilt


# --- models --------------------------------------------------------------------------------


def _watch(model: Any) -> None:
    """Have a class of models (inspect_ai/model/_model.py: Model) call through the hooks.

    A hook is not told which address a call goes to, and what it adds to a call's configuration
    is part of the key in Inspect's cache and of the log.
    """
    original = model.generate
    if hasattr(original, "truezero"):
        return

    @wraps(original)
    async def generate(self: Any, *args: Any, **kwargs: Any) -> Any:
        attempt, ask = _attempt.get(), partial(original, self, *args, **kwargs)
        if attempt is None:
            return await ask()
        return await attempt.hooks.call(attempt, self, ask)

    generate.truezero = True  # type: ignore[attr-defined]
    model.generate = generate


def _name_calls(api: Any) -> None:
    """Have a class of providers name the rollout in its calls to the service."""
    original = api.generate
    if hasattr(original, "truezero"):
        return
    signature = inspect.signature(original)

    @wraps(original)
    async def generate(self: Any, *args: Any, **kwargs: Any) -> Any:
        attempt, bound = _attempt.get(), signature.bind(self, *args, **kwargs)
        config = bound.arguments.get("config")
        if attempt is not None and attempt.registered is not None and config is not None:
            of = attempt.registered
            who = of.roles[_JUDGE] if attempt.scoring else of
            asked = address_of(self) or ""
            if named := key_header(asked, who, service=attempt.hooks.url):
                attempt.judged |= attempt.scoring
                headers = {**(config.extra_headers or {}), **named}
                bound.arguments["config"] = config.model_copy(update={"extra_headers": headers})
        return await original(*bound.args, **bound.kwargs)

    generate.truezero = True  # type: ignore[attr-defined]
    api.generate = generate


def address_of(api: Any) -> str | None:
    """Return where a provider of Inspect's calls; None if it does not say.

    Its client knows best: what is unset there came from the provider's own variables.
    """
    for holder in (getattr(api, "client", None), api):
        if address := getattr(holder, "base_url", None):
            return str(address)
    return None


def addresses_of(spec: Any) -> Iterator[str | None]:
    """Yield where the models of a task are called: the one under test, and those of its roles."""
    get_model = importlib.import_module("inspect_ai.model").get_model
    yield spec.model_base_url
    yield address_of(get_model().api)
    for given in (spec.model_roles or {}).values():
        for config in given if isinstance(given, list) else [given]:
            yield config.base_url


# --- pure ----------------------------------------------------------------------------------


def why_unmeasured(verdict: models.Verdict, *, cached_tokens: int) -> str | None:
    """Return why there is nothing to score before the outcome is reported; None if there is.

    Without an outcome the service does not suspect a rollout without calls; a sample that is
    being scored has run, so the missing call is known to be a failure here.
    """
    no_call = verdict.total_requests == 0 and cached_tokens == 0
    return no_measurement(verdict) or (NO_CALL if no_call else None)


def _unsure(verdict: models.Verdict) -> bool:
    """Return True if the service has just been started again and will soon know more."""
    return verdict.health == "undecided" and "calls_unrecorded" in verdict.warnings


def _lost(verdict: models.Verdict) -> str | None:
    """Return that the service lost calls of a rollout, or may have; None if it did not."""
    if verdict.health != "undecided":
        return None
    if not {"calls_lost", "calls_unrecorded"}.intersection(verdict.warnings):
        return None
    return "truezero: the service was stopped while a call ran: its answer is not known"


def _never_connected(error: BaseException | None) -> bool:
    """Return True if an error, or one that it came from, means that no connection was made."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, ConnectionRefusedError) or type(error).__name__ in _NOT_CONNECTED:
            return True
        error = error.__cause__ or error.__context__
    return False


def cause_of(result: models.Result | None, refused: str | None) -> str | None:
    """Return in a word why a sample is no measurement; None if it is one."""
    if refused is not None:
        _, skipped, breaker = refused.partition("skipped: ")
        return skipped + breaker.partition(" after ")[0] if skipped else AWAY
    facts = _facts(result)
    if facts.get("scoreable") == "yes":
        return None
    if facts.get("total_requests") == 0:
        return _NO_CALL
    return str(facts.get("fingerprint") or facts.get("health"))


def _facts(result: models.Result | None) -> Mapping[str, Any]:
    """Return what a result takes from the verdict."""
    return (result and result.model_extra) or {}


def last_line(of: _Eval, hint: str) -> str | None:
    """Return what the end of a run says of a task; None of one that was left alone."""
    if not of.samples:
        return of.refused and f"{of.task}: no sample was run: {_short(of.refused)}"
    remark, misled = "", of.causes[_NO_CALL] and not of.requests
    if misled:
        remark += f": no call came through truezero ({hint})"
    if of.away is not None:
        remark += f": {_short(of.away)}"
    if of.scored:
        remark += f"; {of.scored} of them in the score"
    if of.scored and not misled:
        correct = shlex.join(("truezero", "audit", "--write", of.log or "LOG"))
        remark += f": wrap each scorer with `measured`, or correct this log with `{correct}`"
    line = unmeasured_line(of.causes, plural(of.samples, "sample"), of.id, remark=remark)
    return f"{of.task}: {line}"


def _short(refused: str) -> str:
    """Return a sentence without its beginning that names truezero, and what to do about it."""
    return refused.removeprefix("truezero: ").partition("; it ")[0]


def _say(line: str) -> None:
    """Print a line; Inspect's displays show it when they have ended."""
    sys.stderr.write(f"truezero: {visible(line)}\n")


def sample_outcome(sample: Any, *, cached_tokens: int = 0) -> OutcomeFacts:
    """Return what to report of a sample (inspect_ai.log.EvalSample), without error messages."""
    limit = sample.limit.type if sample.limit is not None else None
    outcome: OutcomeFacts = {"rewards": rewards_of(sample.scores or {})}
    if cached_tokens:
        outcome["total_tokens"] = cached_tokens
    if sample.error is not None:
        return {**outcome, **failed_attempt()}
    if limit in _TIME_LIMITS:
        return {**outcome, "status": "task_timeout"}
    return {**outcome, "status": "success", "termination_reason": _reason(limit)}


def failed_attempt() -> OutcomeFacts:
    """Return what to report of an attempt that failed; Inspect gives only the error's text."""
    return {"status": "unknown_execution_error", "error": "inspect: the sample failed"}


def rewards_of(scores: Mapping[str, Any]) -> dict[str, float] | None:
    """Return Inspect's scores as numbers, a dict's as ``scorer/key``, or None if there is none.

    Text that is no grade, and missing scores, are left out.
    """
    named = {
        name: _LETTERS.get(value) if isinstance(value, str) else value
        for scorer, score in scores.items()
        for name, value in _values(scorer, score.value)
    }
    return finite(named)


def counts(scores: Mapping[str, Any]) -> bool:
    """Return True if Inspect's metrics count a score of a sample; they leave NaN out."""
    values = (value for name, score in scores.items() for _, value in _values(name, score.value))
    return any(not (isinstance(value, float) and math.isnan(value)) for value in values)


def _values(scorer: str, value: object) -> list[tuple[str, object]]:
    if isinstance(value, Mapping):
        return [(f"{scorer}/{key}", part) for key, part in value.items()]
    return [(scorer, value)]


def _reason(limit: str | None) -> models.TerminationReason:
    if limit is None:
        return "agent_stop"
    return "max_steps" if limit in _STEP_LIMITS else "unknown"


def _rollout_id(sample_id: str, attempt: int) -> str:
    return sample_id if attempt == 1 else f"{sample_id}.{attempt}"
