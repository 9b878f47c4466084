"""A batch is judged anew before something is made of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from proxy.control.batch_state import up_to_date
from proxy.control.services import ControlServices
from proxy.routing.errors import Refusal
from tests.proxy.api.test_routes import Service
from tests.proxy.control.test_batches import play


def services_of(service: Service) -> ControlServices:
    assert service.app is not None
    return service.app.control_plane().services


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both()


async def test_what_was_never_judged_is(service: Service) -> None:
    judge = services_of(service).judge
    service.http.post("/rollouts", json={"id": "new", "batch": "b"})
    first = await up_to_date(judge._queries, judge, "b")
    assert not first.waits
    assert await up_to_date(judge._queries, judge, "b") == first
    play(service, "won", reward=1.0)
    assert await up_to_date(judge._queries, judge, "b") != first


async def test_a_batch_that_does_not_exist_is_refused(service: Service) -> None:
    judge = services_of(service).judge
    with pytest.raises(Refusal, match="batch 'nobody' does not exist"):
        await up_to_date(judge._queries, judge, "nobody")
