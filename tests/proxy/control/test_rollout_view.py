"""The data of a rollout's page: marked calls, listed ones in full, and bounded reading."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from classifier.records import Ending, Timing
from proxy.control.queries import Service as ControlService
from proxy.control.rollout_view import ITEMS, CallFilter, call_detail, rollout_detail
from proxy.routing.errors import Refusal
from proxy.store.database import Database
from proxy.store.tables import CommitBatch
from tests.proxy.api.test_routes import Service
from tests.proxy.control.test_batches import DEAD, play
from tests.proxy.store.records import FULL

WHOLE = replace(
    FULL, rollout_id="long", ending=Ending.COMPLETE, status=200, cause=None, injected=False,
    output_seen=True, content_seen=True, pending=None, written_call=None, answered_model=None,
    key_source=None, model_ambiguous=False,
)  # fmt: skip


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both()


def fill(service: Service, count: int) -> None:
    calls = [
        replace(WHOLE, id=f"c{n:05d}", timing=Timing(started_at=float(n), duration_s=1.0))
        for n in range(count - 1)
    ]
    failed = replace(WHOLE, status=429, cause=FULL.cause, output_seen=False)
    calls.append(replace(failed, id="z", timing=Timing(started_at=float(count))))
    with closing(Database(service.database)) as database:
        database.calls.write(CommitBatch(recorded=calls), worker="gone")


async def test_evidence_is_marked_and_only_what_is_listed_is_read_in_full(
    service: Service,
    control: ControlService,
) -> None:
    fill(service, 1000)
    read: list[int] = []

    def counted(*executed: object) -> None:
        read.append(1)

    event.listen(Engine, "after_cursor_execute", counted)
    try:
        page = await rollout_detail(control, "long")
    finally:
        event.remove(Engine, "after_cursor_execute", counted)
    assert (len(page.calls), page.total, set(page.marked)) == (1000, 1000, {"z"})
    assert list(page.details) == ["z"]
    assert len(read) < 40, "statements, whatever the number of calls"
    everything = await rollout_detail(control, "long", show=CallFilter.ALL, at=500)
    assert len(everything.details) == len(everything.listed.lines) == ITEMS
    assert everything.details["c00499"]["provider_request_id"] == "req_1"


async def test_a_finding_that_is_only_worth_knowing_marks_nothing(
    service: Service, control: ControlService
) -> None:
    play(service, "fine")
    page = await rollout_detail(control, "fine")
    assert [found["level"] for found in page.verdict["validity"]] in ([], ["info"])
    assert set(page.marked) == set(page.verdict["evidence"])


async def test_sums_say_what_they_stand_on(service: Service, control: ControlService) -> None:
    play(service, "dead", DEAD)
    page = await rollout_detail(control, "dead")
    assert page.known == {"calls": 0, "tokens_known_calls": 0, "cost_known_calls": 0}
    assert page.outcome is not None


async def test_one_call_is_found_by_its_id_and_no_other_rollouts(
    service: Service, control: ControlService
) -> None:
    fill(service, 3)
    assert (await call_detail(control, "long", "z"))["error_code"] == "insufficient_quota"
    for rollout, call in (("long", "nothing"), ("nobody", "z")):
        with pytest.raises(Refusal, match="no call"):
            await call_detail(control, rollout, call)
    with pytest.raises(Refusal, match="does not exist"):
        await rollout_detail(control, "nobody")
