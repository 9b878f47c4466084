"""The seed policy against what benchflow publishes: statuses and two counts, nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from enum import Enum
from types import UnionType
from typing import Any, NamedTuple, get_args, get_type_hints

from hypothesis import given
from hypothesis import strategies as st

from classifier import (
    SEED,
    Ending,
    Exchange,
    Health,
    RolloutRecord,
    Subcategory,
    Verdict,
    judge,
)
from classifier.codec import decode_exchange, decode_outcome, decode_rollout, encode_verdict
from classifier.declarations import record
from tests import golden
from tests.builders import cause, exchange, rollout


def _answer(status: int | None, at: int) -> Exchange:
    if status is None:
        lost = cause(Subcategory.PROVIDER_ERROR, reason="network")
        ending = Ending.NEVER_CONNECTED
        return replace(exchange(503, at=float(at)), status=None, ending=ending, cause=lost)
    return exchange(status, at=float(at))


STATUS = st.sampled_from([None, 200, 204, 302, 400, 401, 402, 403, 404, 408, 422, 429, 500, 529])


@given(st.lists(STATUS, max_size=8), st.integers(0, 2), st.integers(0, 2))
def test_any_rollout_is_judged_by_the_published_rule(
    statuses: list[int | None], tokens: int, tools: int
) -> None:
    exchanges = tuple(_answer(status, at) for at, status in enumerate(statuses))
    seen = rollout(exchanges=exchanges, total_tokens=tokens, tool_calls=tools)
    counted = [status for status in statuses if status is not None]
    failed = [status for status in counted if status >= 400]
    verdict = judge(seen, policy=SEED)
    assert (verdict.total_requests, verdict.failed_requests) == (len(counted), len(failed))
    if tokens or tools:
        assert verdict.health is Health.HEALTHY
    elif failed and failed == counted:
        assert verdict.health is Health.API_ERROR
        by_weight = max(failed, key=lambda status: (failed.count(status), status == failed[-1]))
        assert verdict.dominant_status == by_weight
    else:
        assert verdict.health is Health.SUSPECTED_API_ERROR


# --- the first release -----------------------------------------------------------------------
#
# The file was written once, by release 0.1.0's code over its truth table. It holds the rollouts
# as that release exported them, so that neither today's table nor today's builders change them.


class FirstRelease(NamedTuple):
    """One rollout of 0.1.0's truth table, as exported then, and the verdict it got."""

    row: str
    rollout: RolloutRecord
    verdict: Mapping[str, object]


def first_release() -> list[FirstRelease]:
    lines = (golden.FOLDER / "seed_0_1_0.jsonl").read_text("utf-8").splitlines()
    base, *rows = map(json.loads, lines)
    return [_restored(base, row) for row in rows]


def _restored(base: Mapping[str, Any], row: Mapping[str, Any]) -> FirstRelease:
    exchanges, before = [], base["exchange"]
    for changed in row["exchanges"]:
        before = before | changed
        exchanges.append(decode_exchange(before))
    ended = row["outcome"] is not None
    record = replace(
        decode_rollout(base["rollout"] | row["rollout"]),
        exchanges=tuple(exchanges),
        outcome=decode_outcome(base["outcome"] | row["outcome"]) if ended else None,
    )
    return FirstRelease(row["row"], record, base["verdict"] | row["verdict"])


def as_first_released(verdict: Verdict, first: FirstRelease) -> dict[str, object]:
    """Return today's verdict in JSON with the fields that the first release had."""
    today = json.loads(json.dumps(encode_verdict(verdict)))
    return {name: today.get(name, "is gone") for name in first.verdict}


def test_each_verdict_is_the_first_releases_in_every_field() -> None:
    rows = first_release()
    assert len(rows) == 261
    differing = {
        first.row: {"first": first.verdict, "today": today}
        for first in rows
        if (today := as_first_released(judge(first.rollout, policy=SEED), first)) != first.verdict
    }
    assert differing == {}


_FIRST_FIELDS = """
    id rollout_id upstream api timing kind method role model answered_model status ending streamed
    usage finish_reason tool_calls output_seen has_tools cause provider_request_id request_bytes
    response_bytes request_digest sdk_retry attribution key_digest injected unreadable_reason
    traceparent
"""
FIRST_FIELDS = frozenset(_FIRST_FIELDS.split())


@record
class LaterExchange(Exchange):
    """An exchange of a release to come, with fields that nobody reads yet."""

    sequence: int | None = None
    recap: bool | None = None


_READ = {"inferred"}
_HINTS = get_type_hints(LaterExchange)


def with_later_fields(exchange: Exchange) -> Exchange:
    """Return the exchange with a value in each field that the first release did not have.

    But for ``inferred``, which says that the first release knew no such call.
    """
    known = {name: getattr(exchange, name) for name in FIRST_FIELDS}
    return LaterExchange(
        **known | {name: _some(_HINTS[name]) for name in _HINTS.keys() - known - _READ}
    )


def _some(hint: Any) -> object:
    """Return a value of an annotated type that is no field's default."""
    kind = get_args(hint)[0] if isinstance(hint, UnionType) else hint
    if isinstance(kind, type) and issubclass(kind, Enum):
        return list(kind)[-1]
    return {bool: True, int: 7, float: 7.0, str: "later"}[kind]


def test_fields_that_the_first_release_did_not_have_change_no_verdict() -> None:
    assert {f.name for f in fields(Exchange)} >= FIRST_FIELDS
    for first in first_release():
        later = tuple(with_later_fields(each) for each in first.rollout.exchanges)
        verdict = judge(replace(first.rollout, exchanges=later), policy=SEED)
        assert as_first_released(verdict, first) == first.verdict, first.row
