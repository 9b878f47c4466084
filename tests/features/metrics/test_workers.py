"""The numbers of several workers, in processes as users run them."""

from __future__ import annotations

import pytest

from tests.features.metrics.test_metrics import Samples, told, value
from tests.proxy.api.test_port_policy import (
    TOKEN,
    Ports,
    agent_of,
    ask,
    calls_at_once,
    counted_by,
    ports,
)
from tests.waiting import eventually

assert ports  # a fixture
pytestmark = pytest.mark.slow


def test_the_sum_of_all_workers_is_told_whichever_is_asked(ports: Ports) -> None:
    url, before = agent_of(ports, "counted"), len(ports.provider.requests)
    calls_at_once(url)
    for _ in range(125):  # the kernel shares connections out as it likes
        if ports.workers == 1 or len(counted_by(ports.service.home)) == ports.workers:
            break
        calls_at_once(url)
    else:
        raise AssertionError("one worker takes no call")
    made = len(ports.provider.requests)
    assert made % 8 == before % 8, "each call reached the provider once"

    def scraped() -> Samples:
        return told(ask(str(ports.control.base_url.join("/metrics")), headers=TOKEN).text)

    eventually(lambda: value(scraped(), "truezero_exchanges_total"), made)
    for _ in range(12):
        samples = scraped()
        assert value(samples, "truezero_exchanges_total", upstream="openai") == made
        assert value(samples, "truezero_overhead_seconds_count", part="commit") == made
