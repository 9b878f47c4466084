"""What a text may mean: an exact id first, then batches, causes and rollouts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from proxy.control.listing import EACH, search
from proxy.control.queries import Service as ControlService
from tests.proxy.api.test_routes import Service
from tests.proxy.control.test_batches import DEAD, play


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both()


async def test_an_exact_id_comes_first_and_each_kind_is_bounded(
    service: Service, control: ControlService
) -> None:
    for n in range(EACH + 3):
        play(service, f"auth-{n}", DEAD if n == 4 else None, batch="auth")
    found = [tuple(each) for each in await search(control, "auth")]
    assert found[:2] == [("batch", "auth"), ("cause", "auth:401")]
    assert found[2:] == [("rollout", f"auth-{n}") for n in range(EACH + 2, 2, -1)]
    assert (await search(control, "auth-1"))[0] == ("rollout", "auth-1")
    assert [each.name for each in await search(control, "AUTH-4")] == ["auth-4"]
    assert await search(control, "") == await search(control, "nothing of that name") == []
