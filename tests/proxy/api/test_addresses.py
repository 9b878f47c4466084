"""Whatever an address says, its answer is what it names, 404 or 422; never an error of ours."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from urllib.parse import quote

import pytest
from fastapi.routing import APIRoute

from proxy.control_plane import _ROUTES
from proxy.plane import planes
from tests.pairs import PAIRINGS, Pairing, all_pairs
from tests.proxy.api.test_routes import Service

_GETS = {
    each.path: each
    for each in (*_ROUTES, *(one for plane in planes() for one in plane.routes))
    if isinstance(each, APIRoute) and "GET" in (each.methods or ())
}
GETS = sorted(_GETS)
NAMED = {"rollout_id": "r1", "batch": "b", "a": "b", "b": "b", "key": "k", "call": "x"}
TIMES = ("1e300", "-1e300", "1e18", "-1", "inf", "nan", "9" * 400, "9999-12-31T23:59:59",
         "0001-01-01T00:00:00+14:00", "99999-01-01")  # fmt: skip
BOUNDS = ("since", "until", "failed_since", "failed_until")
FORGED = (
    "[" * 40_000, "[" * 9_000, '[1, "\\ud800"]', '[1, "a", "task", "\\ud800"]', '[1, "a\\u0000"]',
    '[NaN, "a"]', '[1e999, "a"]', f'[1{"0" * 400}, "a"]', '[1, 1, true, 1, "\\ud800"]',
    '[1, 1, false, "\\udc00", 1]', '[1, 1, false, "a", 1e300]', '[1e300, 1, true, 1, "a"]',
    '[1, NaN, true, NaN, "a"]', '["a", ["a"]]', "{}", "null", "1",
)  # fmt: skip


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    filled = on_both()
    filled.http.post("/rollouts", json={"id": "r1", "batch": "b", "task": "t"})
    filled.call()
    return filled


def address(path: str, **named: str) -> str:
    """A route's path with names in its places."""
    given = {**NAMED, **named}
    return re.sub(r"{(\w+)(?::\w+)?}", lambda place: quote(given.get(place[1], "x"), safe=""), path)


def reads(path: str, *names: str) -> bool:
    """Return True if a route may read one of these query parameters; a page may read any."""
    waiting, read = [_GETS[path].dependant], set[str]()
    while waiting:
        dependant = waiting.pop()
        waiting += dependant.dependencies
        for each in dependant.query_params:
            fields = getattr(each.field_info.annotation, "model_fields", {each.alias: None})
            read |= fields.keys()
    return path.startswith("/ui/") or not read.isdisjoint(names)


def status(service: Service, url: str) -> int:
    """The status of an answer, of which no more is read: some never end."""
    with service.http.stream("GET", url, headers={"accept": "*/*"}) as answer:
        return answer.status_code


def test_a_nul_in_a_path_names_nothing(service: Service) -> None:
    asked: Iterator[str] = (
        address(path, **{place: "a\0b"}) for path in GETS for place in re.findall(r"{(\w+)", path)
    )
    found = {url: status(service, url) for url in asked}
    assert len(found) >= 15
    assert set(found.values()) == {404}, found


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_a_nul_in_a_query_is_an_invalid_parameter(service: Service, pairing: Pairing) -> None:
    names = ("after", "batch", "a", "task", "text", "lane", "key", "q", "model", "next", *BOUNDS)
    for path, name in pairing(GETS, names):
        assert status(service, f"{address(path)}?{name}=a%00b") == 422, (path, name)


def cursor(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_a_forged_cursor_is_none(service: Service, pairing: Pairing) -> None:
    listed = ("/rollouts", "/rollouts/export", "/batches", "/ui/rollouts", "/ui/batches/b")
    for text, path in pairing(FORGED, listed):
        found = status(service, f"{path}?after={cursor(text)}")
        assert found in (404, 422), (path, text[:40])


@pytest.mark.slow
def test_a_forged_cursor_breaks_nothing_that_reads_one(service: Service) -> None:
    asked = all_pairs(FORGED, [path for path in GETS if reads(path, "after")])
    for text, path in (*asked, *all_pairs(FORGED[:1], GETS)):
        assert status(service, f"{address(path)}?after={cursor(text)}") < 500, (path, text[:40])


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_a_time_beyond_the_calendar_is_an_invalid_parameter_of_lists(
    service: Service, pairing: Pairing
) -> None:
    bounds = [f"{path}?{name}" for path in ("/rollouts", "/rollouts/export") for name in BOUNDS]
    for asked, at in pairing([*bounds, "/upstreams?since"], TIMES):
        assert status(service, f"{asked}={quote(at)}") == 422, asked


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_a_time_beyond_the_calendar_breaks_no_page_and_no_list(
    service: Service, pairing: Pairing
) -> None:
    bounds = (BOUNDS[:2], BOUNDS[2:], BOUNDS[:1], BOUNDS[1:2])
    read = [path for path in GETS if reads(path, *BOUNDS)]
    for path, at, names in pairing(read, TIMES, bounds):
        query = "&".join(f"{name}={quote(at)}" for name in names)
        assert status(service, f"{address(path)}?{query}") < 500, (path, query)
