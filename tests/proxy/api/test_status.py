"""`GET /status`: who gets which form, as JSON and as a page, and its word on other pages."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from proxy.web.format import clock
from tests.proxy.api.test_routes import Service, problem
from tests.proxy.control.test_batches import DOWN, play
from tests.proxy.web.test_pages import words
from truezero.models import StatusReport

PAGE = {"accept": "text/html"}
ADMIN = {"authorization": "Bearer t0k3n"}


def failing(service: Service, rollouts: int = 6) -> None:
    for n in range(rollouts):
        play(service, f"dead-{n}", DOWN)


def test_each_lane_has_a_word_with_its_evidence(services: Callable[..., Service]) -> None:
    service = services()
    assert service.get("/status") | {"at": 0} == {
        "word": "unknown", "at": 0, "lanes": 0, "items": [],
    }  # fmt: skip
    failing(service)
    service.app.control_plane().service.statuses.clear()  # type: ignore[union-attr]
    report = StatusReport.model_validate(service.get("/status"))
    (lane,) = report.items
    assert (report.word, lane.word, lane.cause) == ("down", "down", "provider_error")
    assert (lane.upstream, lane.model, lane.failed) == (
        "openai", "gpt-5", {"provider_error": lane.calls},
    )  # fmt: skip
    assert lane.since is not None
    assert lane.failed_share_low is not None and lane.failed_share_low > 0.5


@pytest.mark.parametrize("public", [True, False])
def test_everybody_gets_the_short_form_only_where_it_is_public(
    services: Callable[..., Service], public: bool
) -> None:
    service = services(ADMIN_TOKEN="t0k3n", STATUS_PUBLIC=str(public).lower())
    full = service.http.get("/status", headers=ADMIN)
    assert full.json().keys() == {"word", "at", "lanes", "items"}
    short = service.http.get("/status?public=1", headers=ADMIN)
    assert short.json().keys() == {"at", "items"}
    anybody = service.http.get("/status")
    if not public:
        problem(anybody, 401, "unauthorized")
        return
    assert anybody.json().keys() == {"at", "items"}
    page = service.http.get("/status", headers=PAGE).text
    assert "Status" in page
    assert '<nav aria-label="Pages">' not in page, "which leads to the sign-in"
    problem(service.http.get("/upstreams"), 401, "unauthorized")
    problem(service.http.post("/status"), 405, "method_not_allowed")


def test_the_page_for_everybody_says_how_models_are(services: Callable[..., Service]) -> None:
    service = services()
    failing(service)
    service.app.control_plane().service.statuses.clear()  # type: ignore[union-attr]
    page = service.http.get("/status?public=1", headers=PAGE).text.partition("<main")[2]
    assert "1 of 1 model is not healthy." in page
    assert ">openai · gpt-5</span></th>" in page
    assert '<span class="pill bad">down</span>' in page
    assert "provider error" in page
    for what in ("/ui/", "key-", "Evidence"):
        assert what not in page, what


def test_pages_say_the_word(services: Callable[..., Service]) -> None:
    service = services()
    failing(service)
    service.app.control_plane().service.statuses.clear()  # type: ignore[union-attr]
    for path in ("/status", "/ui/status"):
        moved = service.http.get(path, headers=PAGE)
        assert (moved.status_code, moved.headers["location"]) == (303, "/ui/upstreams")
    upstreams = service.http.get("/ui/upstreams").text
    assert '<span class="pill bad">down</span>' in upstreams
    assert "UTC UTC" not in upstreams
    assert "Calls of 6 of 6 rollouts failed then" in service.http.get("/ui/batches/b").text


def test_pages_say_why_a_lane_is_unknown(services: Callable[..., Service]) -> None:
    """Three failures, one fewer than a lane needs to be down."""
    service = services()
    failing(service, rollouts=3)
    few = "too few calls in the last hour to tell"
    (lane,) = service.get("/status")["items"]
    assert lane["reason"] == few
    shown = opened(service)
    assert '<span class="pill warn">failed</span>' in shown, "what its last call came to"
    assert "3 of 3 calls failed." in shown
    assert f"weighed from {clock(lane['weighed_from'])} on" in words(shown)
    assert f"{few.capitalize()}." in shown


def opened(service: Service) -> str:
    """The page of upstreams with the row open of the one lane that there is."""
    (lane,) = service.get("/status")["items"]
    name = " · ".join(filter(None, (lane["upstream"], lane["model"], lane["key"])))
    return service.http.get("/ui/upstreams", params={"lane": name}).text
