"""Rollouts as the rows of ``judged.jsonl`` and ``validity/found.jsonl`` write them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from classifier import Policy
from classifier.codec import (
    decode_exchange,
    decode_outcome,
    decode_rollout,
    encode_exchange,
    encode_outcome,
    encode_rollout,
)
from classifier.records import Exchange, RolloutRecord
from classifier.references import NotRun
from tests.builders import asked, rollout

Row = dict[str, Any]


def rollout_of(row: Row) -> RolloutRecord:
    """Build a row's rollout.

    ``calls`` are words of ``tests.builders``, in one text or a list; where a call differs from its
    words, it is a list of them and its fields by the contract's names. ``said`` is what
    ``tests.builders.rollout`` takes; ``rollout`` and ``outcome`` are fields by the contract's
    names, ``asked`` the answers to the questions that an untrusted agent's failures want.
    """
    calls = [row["calls"]] if isinstance(row["calls"], str) else row["calls"]
    words = [call if isinstance(call, str) else call[0] for call in calls]
    said = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in row.get("said", {}).items()
    }
    seen = rollout(*words, running=row.get("running", False), **said)
    if not isinstance(row["calls"], str):
        pairs = zip(seen.exchanges, calls, strict=True)
        seen = replace(seen, exchanges=tuple(_told(call, fields) for call, fields in pairs))
    if "rollout" in row:
        about = decode_rollout({**encode_rollout(seen), **row["rollout"]})
        seen = replace(about, exchanges=seen.exchanges, outcome=seen.outcome)
    if "outcome" in row and seen.outcome is not None:
        seen = replace(seen, outcome=decode_outcome(encode_outcome(seen.outcome) | row["outcome"]))
    if questions := dict(row.get("asked", {})):
        not_run = questions.pop("not_run", None)
        seen = asked(seen, **questions, not_run=NotRun(not_run) if not_run else None)
    return seen


def _told(call: Exchange, fields: str | list[Any]) -> Exchange:
    if isinstance(fields, str):
        return call
    told: Mapping[str, Any] = fields[1]
    return decode_exchange({**encode_exchange(call), **told})


def policy_of(row: Row) -> Policy:
    return Policy(**row.get("policy", {}))
