"""What a text may mean: an exact id first, then batches, causes and rollouts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from proxy.control.listing import EACH, Finder
from tests.proxy.api.test_routes import Service
from tests.proxy.control.test_batches import DEAD, play


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both()


async def test_an_exact_id_comes_first_and_each_kind_is_bounded(service: Service) -> None:
    for n in range(EACH + 3):
        play(service, f"auth-{n}", DEAD if n == 4 else None, batch="auth")
    assert service.app is not None
    finder: Finder = service.app.control_plane().services.pages.finder
    found = [tuple(each) for each in await finder.find("auth")]
    assert found[:2] == [("batch", "auth"), ("cause", "auth:401")]
    assert found[2:] == [("rollout", f"auth-{n}") for n in range(EACH + 2, 2, -1)]
    assert (await finder.find("auth-1"))[0] == ("rollout", "auth-1")
    assert [each.name for each in await finder.find("AUTH-4")] == ["auth-4"]
    assert await finder.find("") == await finder.find("nothing of that name") == []
