"""`GET /metrics` passes the `Accept` header on and answers in the type it got."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from proxy.features.metrics.start import shared_folder
from tests.proxy.api.test_routes import PATIENCE_S, Service, serving
from tests.proxy.api.test_status import failing
from tests.proxy.conftest import Services
from tests.proxy.test_app import held

assert held  # a fixture


def test_prometheus_and_openmetrics_are_both_served(services: Services) -> None:
    service: Service = services()
    plain = service.http.get("/metrics", headers={"accept": "text/plain"})
    open_metrics = {"accept": "application/openmetrics-text; version=1.0.0"}
    other = service.http.get("/metrics", headers=open_metrics)
    assert plain.headers["content-type"].startswith("text/plain")
    assert other.headers["content-type"].startswith("application/openmetrics-text")
    assert other.text.endswith("# EOF\n")


def test_lanes_are_told_by_the_word_of_their_status(services: Services) -> None:
    service: Service = services()
    failing(service)
    text = service.http.get("/metrics").text
    assert 'truezero_lanes{model="gpt-5",upstream="openai",word="down"} 1.0' in text


def test_whoever_asks_too_early_waits(tmp_path: Path, held: threading.Event) -> None:
    with serving(tmp_path) as service, ThreadPoolExecutor(1) as threads:
        asked = threads.submit(service.http.get, "/metrics")
        assert service.call().status_code == 200
        assert not asked.done()
        held.set()
        assert asked.result(PATIENCE_S).status_code == 200


def test_they_are_shared_only_in_the_folder_of_the_environment() -> None:
    assert shared_folder({}) is None
    assert shared_folder({"PROMETHEUS_MULTIPROC_DIR": "/x"}) == Path("/x")
