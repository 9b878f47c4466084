"""Lists over several pages: cursors of any order and of the first release, fresh verdicts."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from proxy.control import listing
from proxy.control.listing import cursor_of, position_of, query_of, rollout_page
from proxy.control.queries import Service as ControlService
from proxy.routing.errors import Refusal
from proxy.store.listing import Position, RolloutQuery
from tests.fakes import answers
from tests.proxy.api.test_routes import Service
from tests.proxy.control.test_batches import CHAT, DEAD, play
from truezero.models import ListParameters


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both()


def asked(**parameters: Any) -> ListParameters:
    return ListParameters.model_validate(parameters)


def cursor(*parts: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()


def test_a_cursor_leads_back_to_the_rollout_it_was_made_of() -> None:
    row: dict[str, Any] = {"created_at": 5.25, "id": "é/1", "task": "t", "reward": 0.5}
    row |= {"cost_usd": None, "total_tokens": 7}
    for sort in ("created_at", "task", "reward", "cost_usd", "total_tokens"):
        query = RolloutQuery(sort=sort)
        expected = Position(5.25, "é/1", None if sort == "created_at" else row[sort])
        assert position_of(cursor_of(query, row), query) == expected


def test_a_cursor_of_the_first_release_goes_on() -> None:
    assert position_of("WzUuMjUsICJyMSJd", RolloutQuery()) == Position(5.25, "r1")


def test_what_is_no_cursor_of_this_list_is_refused() -> None:
    for wrong in (
        "junk", "", "é", cursor(), cursor(1), cursor("x", "r"), cursor(None, "r"), cursor(1, 2),
        cursor(1, "\x00"), cursor(10**400, "r"), cursor(1, "r", "reward"),
        cursor(1, "r", "reward", 1), cursor(1, "r", "task", 5), cursor(1, "r", "task", [1]),
        cursor(1, "r", "task", 10**400), base64.urlsafe_b64encode(b"7").decode(),
    ):  # fmt: skip
        with pytest.raises(Refusal) as refused:
            position_of(wrong, RolloutQuery(sort="task"))
        assert (refused.value.status, refused.value.detail[:6]) == (422, "after:"), wrong
    with pytest.raises(Refusal, match="not a cursor of a list by cost_usd"):
        position_of(cursor(1, "r", "reward", 0.5), RolloutQuery(sort="cost_usd"))


def test_what_is_asked_is_put_to_the_store_as_it_is_stored() -> None:
    query = query_of(asked(batch=["-", "a", "a"], upstream=["OpenAI"], order="desc", since=3))
    assert query == RolloutQuery(
        filters={"batch": [None, "a"], "upstream": ["openai"]}, since=3.0, descending=True
    )
    times = {"since", "until", "failed_since", "failed_until"}
    others = {"text", *times, "sort", "order", "after", "limit"}
    assert ListParameters.model_fields.keys() - others == set(listing._FILTERS)


async def test_a_list_by_verdict_judges_what_it_may_have_to_hold(
    service: Service, control: ControlService
) -> None:
    for name, answer in (("ok", answers.chat()), ("dead", DEAD)):
        service.http.post("/rollouts", json={"id": name, "batch": "b"})
        service.provider.plays(answer)
        service.call(name)
    for parameters in (
        {"health": ["api_error"]},
        {"text": "401"},
        {"batch": ["b"], "text": "auth"},
    ):
        page = await rollout_page(control, asked(**parameters))
        assert [item["id"] for item in page["items"]] == ["dead"], parameters
    page = await rollout_page(control, asked(sort="reward", batch=["b", "c"]))
    assert [item["health"] for item in page["items"]] == ["healthy", "api_error"]


async def test_all_rows_come_some_at_a_time(
    service: Service, control: ControlService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "PAGE", 2)
    for number in range(5):
        play(service, f"r{number}", task=f"t{number % 2}")

    async def parts(**parameters: Any) -> list[list[str]]:
        rows = listing.all_rollouts(control, asked(**parameters))
        return [[row["id"] for row in part] async for part in rows]

    assert await parts() == [["r0", "r1"], ["r2", "r3"], ["r4"]]
    assert await parts(limit=3, order="desc") == [["r4", "r3"], ["r2"]]
    assert await parts(sort="task") == [["r0", "r2"], ["r4", "r1"], ["r3"]]
    assert await parts(batch=["none"]) == []
    first = await rollout_page(control, asked(limit=2, sort="task"))
    assert await parts(sort="task", after=first["next"]) == [["r4", "r1"], ["r3"]]


async def test_a_rollout_has_its_neighbours_in_every_order(
    service: Service, control: ControlService
) -> None:
    for n, reward in enumerate((0.5, 0.25, None, 0.75)):
        play(service, f"r{n}", reward=reward or 0.0) if reward else play(service, f"r{n}", DEAD)
    for parameters in ({}, {"order": "desc"}, {"sort": "reward"}, {"health": ["healthy"]}):
        rows, _ = await listing.rollout_rows(control, asked(**parameters))
        names = [row["id"] for row in rows]
        for place, name in enumerate(names):
            before, after = await listing.beside(control, asked(**parameters), name)
            assert after == next(iter(names[place + 1 :]), None), (parameters, name)
            first_unknown = parameters == {"sort": "reward"} and name == "r2"
            assert before == (names[place - 1] if place and not first_unknown else None), name
    assert await listing.beside(control, asked(), "nobody") == (None, None)


async def test_a_list_is_counted_by_group_with_fresh_verdicts(
    service: Service, control: ControlService
) -> None:
    for n, answer in enumerate((answers.chat(), DEAD, DEAD)):
        service.http.post("/rollouts", json={"id": f"r{n}", "batch": "b"})
        service.provider.plays(answer)
        service.call(f"r{n}")
    groups = await listing.rollout_groups(control, asked(batch=["b"]), "fingerprint", limit=9)
    assert {row["value"]: row["rollouts"] for row in groups} == {"auth:401": 2, None: 1}


def test_of_what_runs_a_part_is_judged_for_a_page_and_all_for_a_file(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_RUNNING", 2)
    for number in range(5):
        service.http.post("/rollouts", json={"id": f"r{number}", "batch": "b"})

    def judged() -> int:
        items = service.get("/rollouts?batch=b")["items"]
        return sum(item["health"] is not None for item in items)

    assert [judged() for _ in range(4)] == [2, 4, 5, 5]
    for number in range(5):
        service.provider.plays(answers.chat())
        service.http.post(f"/r/r{number}/openai{CHAT}", json={"model": "gpt-5"})
    play(service, "won", reward=1.0)

    def healthy(accept: str) -> int:
        text = service.http.get("/rollouts?batch=b", headers={"accept": accept}).text
        return text.count('"healthy"')

    assert [healthy("application/json") for _ in range(2)] == [3, 5], "what ended is always judged"
    assert healthy("application/x-ndjson") == 6
