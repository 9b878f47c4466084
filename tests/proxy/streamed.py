"""A batch's events, as whoever follows it receives them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from tests.proxy.api.test_routes import Service


def events_of(
    service: Service,
    batch: str,
    count: int,
    *,
    when_live: Callable[[], object] = lambda: None,
    **params: int,
) -> list[tuple[int, str, Any]]:
    """The next events of a batch; ``when_live`` is called at the first keep-alive."""
    received: list[tuple[int, str, Any]] = []
    fields: dict[str, str] = {}
    with service.http.stream("GET", f"/batches/{batch}/events", params=params) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        live, deadline = False, time.monotonic() + 60
        for line in answer.iter_lines():
            assert time.monotonic() < deadline, f"after 60 s only {received} came"
            if line == ": alive" and not live:
                live = True
                when_live()
            elif line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif "event" in fields:
                received.append((int(fields["id"]), fields["event"], json.loads(fields["data"])))
                fields = {}
                if len(received) == count:
                    return received
            else:
                fields = {}
    return received
