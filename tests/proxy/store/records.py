"""Two exchanges, one with every field set and one with the least, and what tests read of rows."""

from __future__ import annotations

from sqlalchemy import Connection

from classifier.records import (
    AnswerState,
    Attribution,
    Cause,
    Ending,
    Exchange,
    KeySource,
    Kind,
    RolloutRecord,
    Timing,
    Usage,
    UsageSource,
)
from classifier.verdicts import Subcategory
from proxy.store.batch_counts import SummedBatch, sum_up
from proxy.store.batch_versions import changing
from proxy.store.database import Database
from proxy.store.rollouts import announce_skipped, note_skipped
from proxy.store.tables import CommitBatch, Registration, Row

FULL = Exchange(
    id="x1", rollout_id="r1", upstream="openai", api="openai.chat",
    timing=Timing(started_at=1000.5, first_byte_s=0.1, first_token_s=0.2, duration_s=1.5),
    kind=Kind.INFERENCE, method="POST", role="agent", model="gpt-5", answered_model="gpt-5-x",
    status=429, ending=Ending.COMPLETE, streamed=True,
    usage=Usage(
        input_tokens=0, output_tokens=2, cached_input_tokens=3, cache_write_tokens=4,
        reasoning_tokens=5, total_tokens=6, input_total=7, output_total=8,
        source=UsageSource.PROVIDER, cost_usd=0.25,
    ),
    finish_reason="stop", tool_calls=0, output_seen=False, content_seen=False,
    has_tools=True,
    cause=Cause(
        subcategory=Subcategory.QUOTA, transient=False, rule="openai.quota", reason="plan",
        code="insufficient_quota", retry_after_s=2.5,
    ),
    provider_request_id="req_1", request_bytes=10, response_bytes=20, request_digest="ab",
    sdk_retry=1, response_digest="cd", pending=True, attribution=Attribution.HEADER,
    key_digest="key-00000000", injected=True, unreadable_reason="line too long",
    selector_digest="ef", key_source=KeySource.OVERRIDE, model_ambiguous=True, held=True,
    output_limit=4096, prompt_words=700, continues="x0", begun_elsewhere=False, written_call=True,
    fallback=False, served_by="DeepInfra", system_fingerprint="fp_1", weight_version="41,42",
    answer_state=AnswerState.READ, inferred=True, output_digest="01",
    output_reads_as=Subcategory.QUOTA, held_s=1.25, billed_as="priority+tools",
)  # fmt: skip
BARE = Exchange(
    id="x2", rollout_id="r1", upstream="u", api="opaque", timing=Timing(started_at=1001.0)
)


def loaded(database: Database, rollout_id: str = "r1") -> tuple[Row, RolloutRecord]:
    found = database.rollouts.load(rollout_id)
    assert found is not None
    return found


def row_of(database: Database, rollout_id: str = "r1") -> Row:
    row = database.rollouts.row(rollout_id)
    assert row is not None
    return row


def exchanges_of(database: Database, rollout_id: str = "r1") -> tuple[Exchange, ...]:
    return loaded(database, rollout_id)[1].exchanges


def summed_up(database: Database, batch: str = "b") -> SummedBatch:
    found = database.read(sum_up, batch)
    assert found is not None
    return found


def write(database: Database, *calls: Exchange, late: bool = False) -> None:
    database.calls.write(CommitBatch(recorded=calls, late=late), worker="w")


def skip(database: Database, registration: Registration, *, now: float = 1.0) -> None:
    """Have a registered rollout skipped, as its registration does if a feature says so."""

    def skipped(connection: Connection) -> None:
        with changing(connection, [registration.id], into=[registration.batch]):
            note_skipped(connection, registration.id, "skipped: the breaker is open")
            announce_skipped(connection, registration, now)

    database.change(skipped)
