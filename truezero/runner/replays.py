"""The calls of an earlier rollout, as a drill plays them: what a provider did, not what it said.

Read from the rollout's exchanges alone, which hold no prompt and no answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from truezero import Client, models

_LONGEST_S: Final = 3600.0
_BY_STATUS: Final = "status."  # the rules of errors that said nothing of their cause


class NotReplayable(Exception):
    """The rollout is unknown, or its agent made no call; the message says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedRollout:
    """An earlier rollout: its verdict, the model and the upstream under test, and its calls."""

    verdict: models.Verdict
    model: str | None
    upstream: str | None
    calls: tuple[models.ReplayedCall, ...]

    def fault(self) -> models.Fault:
        """Return the fault that plays these calls."""
        return models.Fault(kind="replay", calls=list(self.calls))


def replayed(
    client: Client, rollout_id: str, *, live: bool = False, wait_at_most_s: float | None = None
) -> ReplayedRollout:
    """Read what the providers did in a rollout.

    Arguments:
        live: calls that were answered well go to the provider.
        wait_at_most_s: longest wait that is played, seconds.

    Raises:
        NotReplayable: there is nothing to play.
        ServiceError: the service is unreachable or does not know the rollout.
    """
    verdict = client.verdict(rollout_id)
    calls = [call.model_dump() for call in client.exchanges(rollout_id) if is_inference(call)]
    ended = [call for call in calls if call["ending"] is not None]
    if not ended:
        raise NotReplayable(f"{rollout_id}: its agent made no call that has ended")
    listed = (each for each in client.iter_rollouts(text=rollout_id) if each.id == rollout_id)
    item = next(listed, None)
    return ReplayedRollout(
        verdict=verdict,
        model=item.model if item else None,
        upstream=item.upstream if item else None,
        calls=tuple(
            replayed_call(call, live=live, wait_at_most_s=wait_at_most_s)
            for call in ended[: models.MOST_REPLAYED]
        ),
    )


def replayed_call(
    call: Mapping[str, Any], *, live: bool = False, wait_at_most_s: float | None = None
) -> models.ReplayedCall:
    """Return what is played of a call, as REST shows it."""

    def wait(name: str) -> float | None:
        seconds: float | None = call[name]
        return None if seconds is None else min(max(seconds, 0.0), wait_at_most_s or _LONGEST_S)

    answered, asked = call.get("answered_model"), call["model"]
    status: int | None = call["status"]
    good = call["subcategory"] is None and call["ending"] == "complete"
    return models.ReplayedCall(
        status=None if status is None or status < 200 else status,
        ending=call["ending"],
        first_byte_s=wait("first_byte_s"),
        duration_s=wait("duration_s"),
        subcategory=call["subcategory"],
        reason=call.get("reason"),
        error_code=call["error_code"],
        worded=not _by_status(call["rule"], status),
        retry_after_s=_stated(call["retry_after_s"]),
        finish=_finish(call["finish_reason"]),
        answered_model=None if answered == asked else answered,
        spoke=_spoke(call),
        request_bytes=call["request_bytes"],
        input_tokens=call["input_total"],
        output_tokens=call["output_total"],
        passed_on=live and good,
    )


def _stated(wait_s: float | None) -> float | None:
    """Return the wait that a provider asked for, as long as a fault may state one."""
    return None if wait_s is None else min(max(wait_s, 0.0), models.LONGEST_STATED_S)


def is_inference(call: models.Exchange) -> bool:
    """Return True if an agent's model was to answer the call."""
    return call.role == "agent" and (call.model_extra or {}).get("kind") == "inference"


def _by_status(rule: str | None, status: int | None) -> bool:
    """Return True if the error said nothing of its cause, and no other status than it had."""
    named = (rule or "").removeprefix(_BY_STATUS)
    return named != rule and not (named.isdigit() and named != str(status))


def _finish(reason: str | None) -> Literal["stop", "length", "abort", "content_filter"]:
    from classifier.logical_calls import (  # noqa: PLC0415  with the service only
        CUT_SHORT,
        REFUSALS,
        bare_reason,
        is_abort,
    )

    word = bare_reason(reason)
    if word in CUT_SHORT:
        return "length"
    if word in REFUSALS:
        return "content_filter"
    return "abort" if is_abort(reason) else "stop"


def _spoke(call: Mapping[str, Any]) -> bool:
    """Return False if it is known that no text and no tool call came."""
    if call.get("tool_calls"):
        return True
    seen = call.get("content_seen")
    return bool(call.get("output_seen") if seen is None else seen)
