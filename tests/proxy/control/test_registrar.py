"""Registrations at once: each is answered, and one that is refused keeps no other back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from proxy.control import rollouts
from proxy.control.queries import Service as ControlService
from proxy.routing.errors import Refusal
from tests.proxy.api.test_routes import Service
from truezero.models import RolloutRegistered, RolloutRequest

URL = "http://proxy"


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both()


async def test_each_of_many_is_answered_as_it_would_be_alone(
    service: Service, control: ControlService
) -> None:
    requests = [
        RolloutRequest(id="a", batch="b", roles=["judge"]),
        RolloutRequest(id="b", upstream="nowhere"),
        RolloutRequest(id="a", batch="c"),
        RolloutRequest(id="unattributed"),
        RolloutRequest(model=["m", "n"]),
    ]
    done = await rollouts.register_all(control, requests, public_url=URL)
    alone = [service.http.post("/rollouts", json=each.model_dump()) for each in requests[:4]]
    assert [each.status for each in done if isinstance(each, Refusal)] == [422, 409, 422]
    assert [answer.status_code for answer in alone] == [201, 422, 409, 422]
    for each, answer in zip(done, alone, strict=False):
        if isinstance(each, Refusal):
            assert (each.code, each.detail) == (answer.json()["code"], answer.json()["detail"])
        else:
            assert (each.id, each.key) == (answer.json()["id"], answer.json()["key"])
            assert each.base_urls["openai"] == f"{URL}/r/a/openai/v1"
            assert set(each.roles) == {"judge"}
    assert isinstance(done[-1], RolloutRegistered)
    assert done[-1].id not in ("a", "b")


async def test_a_single_one_that_is_refused_raises(control: ControlService) -> None:
    with pytest.raises(Refusal, match="nowhere"):
        await rollouts.register(control, RolloutRequest(upstream="nowhere"), public_url=URL)
