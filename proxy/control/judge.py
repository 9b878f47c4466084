"""Verdicts and results of rollouts: judged on request, stored, and refreshed for lists."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from classifier import codec, results, rules, totals
from classifier.batches import reward_of, validity_names
from classifier.diagnostics import why_unscored
from classifier.fingerprints import Lane
from classifier.lane import Counted, tries
from classifier.later_rewards import with_rewards
from classifier.logical_calls import ended_at
from classifier.records import (
    Ending,
    Exchange,
    ExecutionStatus,
    Outcome,
    RolloutRecord,
)
from classifier.retries import with_advice
from classifier.sentences import with_sentence
from classifier.validity.serving import servings_text
from classifier.verdicts import SEED, UNTRUSTED, Policy, Verdict, is_unearned
from proxy.control.evidence_kinds import ASKED_S, stands_on, with_evidence
from proxy.control.pricing import PriceTable
from proxy.control.queries import REJUDGED_TOGETHER, Service, unknown_batch, unknown_rollout
from proxy.feature import modules
from proxy.routing.errors import Refusal
from proxy.store.batch_versions import BatchVersion, batch_version
from proxy.store.database import RESTART_GRACE_S
from proxy.store.errors import StoreError
from proxy.store.tables import VERDICT_COLUMNS, Row
from proxy.store.verdicts import EndOfCalls, Judged, final_parts

# --- a rollout with all that is recorded of it -------------------------------------------------


_CLOSED_WITHIN_S = 60.0  # after an outcome, whoever reported it
_CLOCKS_APART_S = 2.0  # of two hosts: calls are timed by one, closed by another


class LoadedRollout(NamedTuple):
    """A rollout as it counts, with ``storable`` if its verdict may be stored.

    ``row`` is as `proxy.store.rollouts.Rollouts.load_some` returns it, empty if the database has
    none. ``late_calls`` ended too late to count.
    """

    rollout: RolloutRecord
    storable: bool
    row: Row | Mapping[str, Any]
    late_calls: int = 0


def load(service: Service, rollout_id: str, end: EndOfCalls | None = None) -> LoadedRollout:
    """Load one rollout as `load_some` does."""
    (loaded,) = load_some(service, [rollout_id], end)
    return loaded


def load_some(
    service: Service, rollout_ids: Sequence[str], end: EndOfCalls | None = None
) -> list[LoadedRollout]:
    """Load rollouts as they stand, for judgement or export; blocking, so call it in a thread.

    Arguments:
        end: of their calls, which will be stored with their verdicts.

    Raises:
        Refusal: 404 for an unknown rollout.
        StoreError: the database is unavailable, and of one of the rollouts no unrecorded call is
            known.
    """
    database, recorder = service.database, service.recorder
    # Counted before and after: the backlog may be written while the database is read, and a
    # call that ends meanwhile may join it.
    missing = {name: recorder.missing(name) for name in rollout_ids}
    stored: Mapping[str, tuple[Row, RolloutRecord]] = {}
    try:
        stored = database.rollouts.load_some(rollout_ids)
        missing = {name: max(known, recorder.missing(name)) for name, known in missing.items()}
    except StoreError:
        missing = {name: max(known, recorder.missing(name)) for name, known in missing.items()}
        if not all(missing.values()):
            raise
        stored = {}  # enough is known: evidence is missing
    return [_loaded(service, name, stored.get(name), missing[name], end) for name in missing]


def _loaded(
    service: Service,
    rollout_id: str,
    stored: tuple[Row | Mapping[str, Any], RolloutRecord] | None,
    missing: int,
    end: EndOfCalls | None,
) -> LoadedRollout:
    if stored is None:
        if not missing:
            raise unknown_rollout(rollout_id)
        return LoadedRollout(RolloutRecord(id=rollout_id, gaps=missing), storable=False, row={})
    row, rollout = stored
    gaps = rollout.gaps
    if end is not None and row["closed_at"] is None:
        row, gaps = {**row, "closed_at": end.at}, gaps + end.gaps
    up_s = row["up_s"]
    # A restarted server may have lost its last commits; that doubt must not be stored.
    storable = not missing and (up_s is None or up_s >= 2 * RESTART_GRACE_S)
    just_started = up_s is not None and up_s < RESTART_GRACE_S
    record = as_it_counts(row, rollout, service.now())
    late = len(rollout.exchanges) - len(record.exchanges)
    record = replace(record, gaps=gaps + missing + just_started)
    kept = json.loads(row["stands_on"] or "{}") if row["final"] else None
    record = with_evidence(service, record, kept)
    return LoadedRollout(record, storable, row, late)


def as_it_counts(row: Row | Mapping[str, Any], rollout: RolloutRecord, now: float) -> RolloutRecord:
    """Return a rollout with its outcome, and without calls that came after it.

    Arguments:
        row: its columns.
        now: seconds since the epoch.
    """
    closed_at = _closed_at(row, now)
    outcome = _outcome(row, closed=closed_at is not None)
    if closed_at is None:
        return replace(rollout, outcome=outcome)
    return replace(rollout, outcome=outcome, exchanges=_counted(rollout.exchanges, row, closed_at))


def _closed_at(row: Row | Mapping[str, Any], now: float) -> float | None:
    """Return from when a rollout's calls had ended; None while they are being ended.

    Who reported its outcome may have died before it knew.
    """
    closed_at: float | None = row["closed_at"]
    if closed_at is None and row["outcome_at"] is not None:
        latest: float = row["outcome_at"] + _CLOSED_WITHIN_S
        return latest if latest < now else None
    return closed_at


def _counted(
    calls: Sequence[Exchange], row: Row | Mapping[str, Any], closed_at: float
) -> tuple[Exchange, ...]:
    """Return the calls of a closed rollout that count: none that came late.

    Those on record as it closed count, whatever clocks say. One that began before the outcome
    and has no end was in a process that died.
    """
    ended, known = sum(call.ending is not None for call in calls), row["closed_calls"]
    on_record = known is None or ended <= known
    return tuple(
        call if call.ending else replace(call, ending=Ending.LOST)
        for call in calls
        if (
            call.timing.started_at <= row["outcome_at"]
            if call.ending is None
            else on_record or ended_at(call) <= closed_at + _CLOCKS_APART_S
        )
    )


def as_judged(rollout: RolloutRecord, calls: int) -> RolloutRecord:
    """Return a rollout without the calls that ended after its final verdict was given.

    Arguments:
        calls: ended ones that the verdict saw.
    """
    ended = sorted((x for x in rollout.exchanges if x.ending), key=ended_at)
    late = {x.id for x in ended[calls:]}
    if not late:
        return rollout
    return replace(rollout, exchanges=tuple(x for x in rollout.exchanges if x.id not in late))


def _outcome(row: Row | Mapping[str, Any], *, closed: bool) -> Outcome | None:
    """Return the reported outcome; a rollout that was not admitted was never set up."""
    if row["outcome"] and not closed:
        return None
    if row["outcome"]:
        return codec.decode_outcome(json.loads(row["outcome"]))
    if row["skipped"]:
        status = ExecutionStatus.SETUP_FAILED
        return Outcome(status=status, prompts_executed=0, error=row["skipped"])
    return None


# --- judging -----------------------------------------------------------------------------------


_REFERENCES_S = 6.0  # how long the answer to an outcome waits for reference calls
_REFRESH = 1000  # rollouts judged again before a list is filtered by verdict
_SETTLE_POLL_S = 0.05


async def verdict(
    service: Service,
    rollout_id: str,
    *,
    policy: str | None = None,
    settled: bool = False,
    timeout_s: float = 10.0,
) -> dict[str, Any]:
    """Judge a rollout on everything recorded so far, and store the verdict.

    Arguments:
        policy: another policy than the default; its verdict is not stored.
        settled: wait up to ``timeout_s`` for calls in flight to end.

    Raises:
        Refusal: 404 for an unknown rollout.
    """
    if settled:
        await _settle(service, rollout_id, timeout_s)
    return await service.run(_verdict, service, rollout_id, policy)


async def result(service: Service, rollout_id: str) -> dict[str, Any]:
    """Return the record a runner stores.

    Raises:
        Refusal: 404 for an unknown rollout, 409 before its outcome is reported.
    """
    return await service.run(_result, service, rollout_id)


async def refresh(
    service: Service,
    batch: str | None = None,
    *,
    among: Sequence[str] | None = None,
    running: int | None = None,
) -> bool:
    """Judge rollouts without an up-to-date verdict: of a batch, among these, or of all.

    Arguments:
        running: at most so many that run, those first that were never judged; if ``among``
            does not name them, of the others fewer or none if it is asked for so often that
            all of them would be judged all the time. One of a hundred calls takes 10 ms.

    Returns:
        True if there was any.
    """
    outdated = await service.run(
        service.database.verdicts.unjudged,
        batch=batch,
        among=among,
        limit=_REFRESH,
        running=running,
    )
    ids = outdated.ids
    if running is not None and among is None:
        ids = ids[: len(ids) - outdated.again + _allowed(service, outdated.again)]
    for rollout_id in ids:
        await verdict(service, rollout_id)
    return bool(ids)


def _allowed(service: Service, running: int) -> int:
    """Return how many of so many may be judged again now, and count them."""
    left = int(service.rejudging.left)
    allowed = min(running, left) if left >= min(running, REJUDGED_TOGETHER) else 0
    service.rejudging.take(allowed)
    return allowed


async def _settle(service: Service, rollout_id: str, timeout_s: float) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    while (  # noqa: ASYNC110  no event of this process announces another's calls
        await service.run(service.database.calls.in_flight, rollout_id) > 0
        and loop.time() < deadline
    ):
        await asyncio.sleep(_SETTLE_POLL_S)


def is_measured(service: Service, rollout_id: str) -> bool:
    """Return True if a rollout is a measurement as it stands; blocking, so call it in a thread."""
    return bool(_verdict(service, rollout_id, None)["scoreable"] == "yes")


def _verdict(service: Service, rollout_id: str, policy: str | None) -> dict[str, Any]:
    if policy != SEED.name and (final := _final(service, rollout_id)) is not None:
        return codec.encode_verdict(_stored(final))
    loaded = load(service, rollout_id)
    if policy == SEED.name:
        return codec.encode_verdict(_judge(service, loaded, SEED))
    return codec.encode_verdict(_judge_and_store(service, loaded))


def _result(service: Service, rollout_id: str) -> dict[str, Any]:
    final = _final(service, rollout_id)
    if final is not None and final["result"] is not None:
        return {**_without_lost_rewards(final), "late_calls": final["late_calls"]}
    loaded = load(service, rollout_id)
    if loaded.rollout.outcome is None:
        raise Refusal(
            409,
            "no_outcome",
            f"rollout {rollout_id!r} has no outcome yet; "
            "report it with POST /rollouts/{id}/outcome",
        )
    verdict = _judge_and_store(service, loaded)
    return codec.encode_result(results.result(loaded.rollout, verdict))


def _judge_and_store(service: Service, loaded: LoadedRollout) -> Verdict:
    now = service.now()
    return _store(service, loaded, _judge(service, loaded, service.policy, now), now)


def _store(
    service: Service,
    loaded: LoadedRollout,
    verdict: Verdict,
    now: float,
    end: EndOfCalls | None = None,
) -> Verdict:
    """Store a verdict with the advice that follows from earlier attempts at the task.

    Arguments:
        end: of the rollout's calls, which is stored in any case.

    Returns:
        The verdict that stands now.
    """
    rollout, policy = loaded.rollout, service.policy
    stored = service.database.verdicts
    if rollout.task is not None and rollout.attempt:
        earlier = stored.earlier_causes(
            rollout.batch, rollout.task, rollout.attempt, repeat=rollout.repeat
        )
        counted = _tries(service, rollout, verdict, now)
        verdict = with_advice(verdict, rollout, policy, earlier, counted)
    doubted = service.recorder.failing or not loaded.storable
    if doubted or _is_being_asked(service, loaded, verdict, now):
        if end is not None:
            service.database.closings.closed(rollout.id, now=end.at, gaps=end.gaps)
        return with_sentence(replace(verdict, provisional=True, judged_at=None), rollout)
    row = _verdict_row(rollout, verdict, now, service.prices)
    parts = final_parts(Judged(service.database, verdict, policy, now, loaded.row))
    if stored.store(row, parts, known=loaded.row, end=end):
        service.on_final_verdict(verdict)
        if (rewarded := _rewarded_since(service, rollout)) is not None:
            add_rewards(service, rollout.id, rewarded)
    elif (final := _final(service, rollout.id)) is not None:  # another process was first
        return _stored(final)
    return verdict


def _rewarded_since(service: Service, rollout: RolloutRecord) -> str | None:
    """Return the outcome whose rewards were delivered while it was judged without any."""
    if rollout.outcome is None or rollout.outcome.rewards:
        return None
    row = service.database.rollouts.row(rollout.id)
    reported: str | None = None if row is None else row["outcome"]
    return reported if reported and json.loads(reported).get("rewards") else None


def add_rewards(service: Service, rollout_id: str, outcome: str) -> bool:
    """Let rewards count that were delivered after a rollout's final verdict.

    They change its result and its validity, and are stored with them; without such a verdict they
    are judged with the rest.

    Arguments:
        outcome: the one that stands, with its rewards (JSON text).

    Returns:
        Whether it stands now: others may have come first.
    """
    final = _final(service, rollout_id)
    if final is None:
        return True
    loaded = load(service, rollout_id)
    rollout = replace(loaded.rollout, outcome=codec.decode_outcome(json.loads(outcome)))
    stored = codec.decode_verdict(json.loads(final["verdict"]))
    rewarded_anew = _judge(service, loaded._replace(rollout=rollout), service.policy)
    verdict = with_rewards(stored, rewarded_anew, rollout)
    row = _verdict_row(rollout, verdict, 0.0, service.prices)
    changed = {"rollout_id": rollout_id, **{name: row[name] for name in _REWARDED}}
    return service.database.verdicts.add_rewards(changed, outcome)


_REWARDED = (
    "scoreable", "validity", "unearned", "stands_on", "reward", "verdict", "result",
)  # fmt: skip
"""Columns of a final verdict that later rewards change."""


def _tries(
    service: Service, rollout: RolloutRecord, verdict: Verdict, now: float
) -> Counted | None:
    """Return the tries at a task that count; None: all, since a retry is left in any case."""
    attempt = rollout.attempt or 0
    if not verdict.transient or verdict.lane is None or attempt < service.policy.max_retries:
        return None
    begins = service.database.rollouts.failing_attempts(
        rollout.batch, rollout.task, attempt, repeat=rollout.repeat
    )
    lane = Lane.read(verdict.lane)
    return tries(begins, partial(service.database.calls.spell, lane, now=now), now=now)


class EndedRollout(NamedTuple):
    """The record of an ended rollout; None if failed calls of it are to be asked about first."""

    record: dict[str, Any] | None
    failures: Sequence[Exchange] = ()


def judge_ended(service: Service, rollout_id: str, *, gaps: int) -> EndedRollout:
    """Judge a rollout whose calls have ended, and store that; blocking, so call it in a thread.

    Arguments:
        gaps: how many processes did not say that they have; what those saw may be missing.
    """
    now = service.now()
    end = EndOfCalls(now, gaps)
    loaded = load(service, rollout_id, end)
    if loaded.rollout.outcome is None or loaded.row["final"]:
        service.database.closings.closed(rollout_id, now=end.at, gaps=end.gaps)
        return EndedRollout(_result(service, rollout_id))
    verdict = _judge(service, loaded, service.policy, now)
    if failures := _to_ask_about(service, loaded, verdict, now):
        service.database.closings.closed(rollout_id, now=end.at, gaps=end.gaps)
        return EndedRollout(None, failures)
    verdict = _store(service, loaded, verdict, now, end)
    return EndedRollout(codec.encode_result(results.result(loaded.rollout, verdict)))


async def settled_result(service: Service, rollout_id: str, ended: EndedRollout) -> dict[str, Any]:
    """Return an ended rollout's record once the references that its verdict hangs on were asked.

    Until what ends later has ended, the verdict is provisional.
    """
    if ended.record is not None:
        return ended.record
    await service.ask_references(ended.failures, _REFERENCES_S)
    return await result(service, rollout_id)


def _to_ask_about(
    service: Service, loaded: LoadedRollout, verdict: Verdict, now: float
) -> list[Exchange]:
    """Return the failed calls on whose references a verdict hangs, or what is at stake with it."""
    if not service.asks_references:
        return []
    rollout, wanted = loaded.rollout, set[str]()
    staked = bool(verdict.evidence) and _is_at_stake(service, loaded, verdict, now)
    if staked or (rollout.agents or service.policy.agents) == UNTRUSTED:
        wanted = {call for call, series in rollout.references.items() if series.running}
    if staked:
        wanted |= set(verdict.evidence[-1:])
    return [each for each in rollout.exchanges if each.id in wanted]


def _is_being_asked(service: Service, loaded: LoadedRollout, verdict: Verdict, now: float) -> bool:
    """Return True if more hangs on a verdict whose last failure is being asked about.

    A series may begin while the answer to the outcome waits for it; one that runs is no answer
    until it ends. Meanwhile a page may want to show the verdict.
    """
    if not service.asks_references or verdict.provisional or verdict.batch is None:
        return False
    rollout = loaded.rollout
    if rollout.ended_at is None or not verdict.evidence:
        return False
    series = rollout.references.get(verdict.evidence[-1])
    if series is not None and not series.running:
        return False
    waits_s = _REFERENCES_S if series is None else ASKED_S
    if not rollout.ended_at <= now < rollout.ended_at + waits_s:
        return False
    return _is_at_stake(service, loaded, verdict, now)


def _is_at_stake(service: Service, loaded: LoadedRollout, verdict: Verdict, now: float) -> bool:
    """Return True if something of a feature's hangs on a verdict, beside the score."""
    judged = Judged(service.database, verdict, service.policy, now, loaded.row)
    return any(module.is_at(judged) for _, module in modules("stakes"))


def _final(service: Service, rollout_id: str) -> Row | None:
    """Return the final verdict, which stands; None if there is none, or none can be read."""
    try:
        return service.database.verdicts.final(rollout_id)
    except StoreError:  # what is missing here may still be known
        return None


def _stored(final: Row) -> Verdict:
    stored = codec.decode_verdict(json.loads(final["verdict"]))
    return replace(stored, late_calls=final["late_calls"])


def _judge(
    service: Service, loaded: LoadedRollout, policy: Policy, now: float | None = None
) -> Verdict:
    rollout = loaded.rollout
    verdict = rules.judge(rollout, policy=policy)
    return replace(
        verdict,
        cost_usd=service.prices.total(rollout.exchanges),
        cost_unknown_calls=totals.cost_unknown_calls(rollout.exchanges, service.prices.cost),
        late_calls=loaded.late_calls,
        judged_at=None if verdict.provisional else now,
    )


def _verdict_row(
    rollout: RolloutRecord, verdict: Verdict, now: float, prices: PriceTable
) -> dict[str, Any]:
    encoded, record = codec.encode_verdict(verdict), results.result(rollout, verdict)
    reported = rollout.outcome is not None
    return {
        **{name: encoded[name] for name in VERDICT_COLUMNS},
        "stands_on": stands_on(rollout),
        "validity": validity_names(verdict.validity),
        "unearned": is_unearned(verdict.validity) or None,
        "servings": servings_text(verdict.servings),
        "reward": reward_of(record, rollout.score_key),
        **_counts_behind_sums(rollout, prices),
        "lost_s": verdict.lost_s,
        "held_s": verdict.held_s,
        "price_table": None if verdict.cost_usd is None else prices.version,
        "given_at": now,
        "began_at": rollout.began_at,
        "calls": sum(exchange.ending is not None for exchange in rollout.exchanges),
        "verdict": _in_order(encoded),
        "result": _in_order(codec.encode_result(record)) if reported else None,
    }


def _without_lost_rewards(final: Row) -> dict[str, Any]:
    """Return the stored result, in which a verdict that is not scoreable has taken the rewards.

    Earlier versions left them if the model was reached.
    """
    record: dict[str, Any] = json.loads(final["result"])
    if record.get("scoreable") != "no" or record["rewards"] is None:
        return record
    stored = codec.decode_verdict(json.loads(final["verdict"]))
    return record | {"rewards": None, "error": record["error"] or why_unscored(stored)}


def _counts_behind_sums(rollout: RolloutRecord, prices: PriceTable) -> dict[str, int]:
    """Count the calls behind a verdict's sums: all that used tokens, and those in the sums."""
    calls = totals.using_tokens(rollout.exchanges)
    return {
        "summed_calls": len(calls),
        "tokens_known_calls": sum(map(totals.tokens_known, calls)),
        "cost_known_calls": sum(prices.cost(x) is not None for x in calls),
    }


def _in_order(record: Mapping[str, Any]) -> str:
    """Return JSON text with the record's keys in its order: it is answered as it was stored."""
    return json.dumps(record, separators=(",", ":"))


# --- verdicts of a whole batch -----------------------------------------------------------------


_RUNNING = 2  # rollouts that run and are judged each time, so that it costs the same always


async def current_version(service: Service, batch: str) -> BatchVersion:
    """Judge a batch's rollouts anew if they changed; return the version that it then has.

    Of those that still run, a part: while hundreds of calls end each second, the provisional
    verdicts of others are some seconds old. No score hangs on them.

    Raises:
        Refusal: 404 for a batch without rollouts.
    """
    version = await service.read(batch_version, batch)
    if version is None:
        raise await unknown_batch(service, batch)
    if not version.waits:
        return version
    await refresh(service, batch, running=_RUNNING)
    return await service.read(batch_version, batch) or version
