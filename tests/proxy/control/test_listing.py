"""Lists over several pages: cursors of any order and of the first release, fresh verdicts."""

from __future__ import annotations

import base64
import json
from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import Connection, update

from proxy.control import listing
from proxy.control.listing import (
    EACH,
    SearchMatch,
    cursor_of,
    position_of,
    query_of,
    rollout_page,
    search,
    search_rank,
)
from proxy.control.queries import Service as ControlService
from proxy.routing.errors import Refusal
from proxy.store.database import Database
from proxy.store.listing import FLAGS, Position, RolloutQuery
from proxy.store.tables import verdicts
from tests.fakes import answers
from tests.proxy.api.test_routes import Service
from tests.proxy.control.test_batches import CHAT, DEAD, play
from tests.proxy.web.test_pages import page, words
from truezero import Client
from truezero.models import ListParameters

DRIFTED: dict[str, Any] = {
    "check": "lane_drifted", "level": "info", "calls": 1, "of": 1, "evidence": [],
    "sentence": "1 of 1 answer came while openai · gpt-5 drifted", "about": {},
}  # fmt: skip


def asked(**parameters: Any) -> ListParameters:
    return ListParameters.model_validate(parameters)


def cursor(*parts: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()


def test_a_cursor_leads_back_to_the_rollout_it_was_made_of() -> None:
    row: dict[str, Any] = {"created_at": 5.25, "id": "é/1", "task": "t", "reward": 0.5}
    row |= {"cost_usd": None, "total_tokens": 7, "registered": True, "repeat": 0, "health": "h"}
    for sort in row:
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
        cursor(1, "r", "task", 10**400), cursor(1, "r", "task", True),
        base64.urlsafe_b64encode(b"7").decode(),
    ):  # fmt: skip
        with pytest.raises(Refusal) as refused:
            position_of(wrong, RolloutQuery(sort="task"))
        assert (refused.value.status, refused.value.detail[:6]) == (422, "after:"), wrong
    for value in (1, "x"):
        with pytest.raises(Refusal, match="not a cursor of a list by registered"):
            position_of(cursor(1, "r", "registered", value), RolloutQuery(sort="registered"))
    with pytest.raises(Refusal, match="not a cursor of a list by cost_usd"):
        position_of(cursor(1, "r", "reward", 0.5), RolloutQuery(sort="cost_usd"))


def test_what_is_asked_is_put_to_the_store_as_it_is_stored() -> None:
    query = query_of(asked(batch=["-", "a", "a"], upstream=["OpenAI"], order="desc", since=3))
    assert query == RolloutQuery(
        filters={"batch": [None, "a"], "upstream": ["openai"]}, since=3.0, descending=True
    )
    times = {"since", "until", "failed_since", "failed_until"}
    flags = {"unearned": True, "superseded": False}
    assert query_of(asked(**flags)) == RolloutQuery(flags=flags)
    others = {"text", *FLAGS, *times, "sort", "order", "after", "limit"}
    assert ListParameters.model_fields.keys() - others == set(listing._FILTERS)  # noqa: SLF001  each filter has its parameter


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


@pytest.mark.slow
@pytest.mark.postgres_smoke
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


@pytest.mark.postgres_smoke
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


def test_a_check_of_an_earlier_release_is_read_listed_and_shown_as_text(service: Service) -> None:
    kept = play(service, "old") | {"validity": [DRIFTED]}
    play(service, "new")
    row = {"verdict": service.get("/rollouts/old/verdict") | kept, "result": kept}

    def store(connection: Connection) -> None:
        of = verdicts.c.rollout_id == "old"
        texts = {name: json.dumps(each) for name, each in row.items()}
        found = {"validity": " info lane_drifted "}
        connection.execute(update(verdicts).where(of).values(**texts, **found))

    with closing(Database(service.database)) as database:
        database.change(store)
    (item,) = service.get("/rollouts", validity="lane_drifted")["items"]
    assert (item["id"], item["validity"]) == ("old", ["info", "lane_drifted"])
    with Client(str(service.http.base_url)) as client:
        (verdict, result) = client.verdict("old"), client.result("old")
    assert [each.check for each in (*verdict.validity, *result.validity)] == ["lane_drifted"] * 2
    assert DRIFTED["sentence"] in words(page(service, "/ui/rollouts/old"))
    assert "old" in words(page(service, "/ui/rollouts", validity="lane_drifted"))


# --- What a text may mean: an exact id first, then batches, causes and rollouts -------------------


async def test_an_exact_id_comes_first_and_each_kind_is_bounded(
    service: Service, control: ControlService
) -> None:
    names = [f"auth-{n}" for n in range(EACH + 3)]
    made = [{"id": name, "batch": "auth", "model": "gpt-5"} for name in names]
    service.http.post("/rollouts/bulk", json={"rollouts": made}).raise_for_status()
    play(service, "auth-4", DEAD, batch="auth", upstream=None)
    found = [each[:2] for each in await search(control, "auth")]
    assert found[:2] == [("batch", "auth"), ("cause", "auth:401")]
    assert found[2:] == [("rollout", f"auth-{n}") for n in range(EACH + 2, 2, -1)]
    assert (await search(control, "auth-1"))[0][:2] == ("rollout", "auth-1")
    assert [each.name for each in await search(control, "AUTH-4")] == ["auth-4"]
    assert await search(control, "") == await search(control, "nothing of that name") == []


async def test_a_task_of_exactly_that_name_comes_first_and_words_in_any_order(
    service: Service, control: ControlService
) -> None:
    for task in ("task-1234", "task-123", "another task-123"):
        play(service, f"of {task}", batch="nightly", task=task)
    found = await search(control, "Task-123")
    assert found[0] == SearchMatch("task", "task-123", "nightly")
    assert [each.name for each in found[:3]] == ["task-123", "task-1234", "another task-123"]
    (first, *_) = await search(control, "nightly 1234")
    assert first == SearchMatch("task", "task-1234", "nightly")
    assert {each.kind for each in await search(control, "nightly")} == {"batch"}


def test_what_is_found_has_one_order() -> None:
    kinds = ("search", "help", "page", "rollout", "cause", "task", "batch")
    found = [(kind, "a-b") for kind in kinds] + [(kind, "A") for kind in kinds] + [("rollout", "a")]
    found.sort(key=lambda each: search_rank(each[0], each[1], "a"))
    assert found == [
        ("rollout", "a"), ("batch", "A"), ("task", "A"), ("cause", "A"), ("rollout", "A"),
        ("batch", "a-b"), ("task", "a-b"), ("cause", "a-b"), ("rollout", "a-b"),
        ("page", "a-b"), ("page", "A"), ("help", "a-b"), ("help", "A"),
        ("search", "a-b"), ("search", "A"),
    ]  # fmt: skip
