"""What Prometheus is told: right numbers, few labels, the sum over all processes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from classifier.records import Cause, Exchange, Kind, Timing, Usage
from classifier.rules import judge
from classifier.verdicts import Level, Subcategory, ValidityFinding
from proxy.control.pricing import PriceTable
from proxy.features.metrics.metrics import (
    _FRESH,
    AGENTS,
    CONTROL,
    MOST,
    OTHER,
    Metrics,
    RequestCounts,
)
from proxy.recording.backlog import FlushResult
from proxy.recording.recorder import Recorder
from proxy.routing.upstreams import allow_list
from proxy.store.errors import DatabaseUnavailable
from proxy.store.tables import StoreCounts
from tests import reference_pages
from tests.builders import calls, exchange, rollout
from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.proxy.api.test_routes import Service, problem
from tests.proxy.conftest import Services
from tests.proxy.control.test_batches import ABORTED, CHAT, DEAD, DOWN, play
from tests.waiting import eventually

ROOT = Path(__file__).parent.parent.parent.parent
NAMES = {
    "truezero_build", "truezero_verdicts", "truezero_breakers", "truezero_exchanges",
    "truezero_tokens", "truezero_exchange_duration_seconds", "truezero_first_token_seconds",
    "truezero_overhead_seconds", "truezero_recorder_turn_seconds", "truezero_gaps",
    "truezero_calls_in_flight", "truezero_recorder_waiting", "truezero_recorder_failing",
    "truezero_refusals", "truezero_unattributed_calls", "truezero_validity_findings",
    "truezero_model_calls", "truezero_model_tokens", "truezero_cost_usd", "truezero_cost_calls",
    "truezero_lanes", "truezero_unread_questions",
}  # fmt: skip

FOUND = replace(
    judge(rollout("200")),
    validity=(
        ValidityFinding(
            check="starved", level=Level.SUSPECT, calls=1, of=1, evidence=(), sentence="slow"
        ),
    ),
)

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@dataclass
class Quiet:
    """A recorder that says what it is told to."""

    failing: bool = False
    gaps_counted: int = 0
    in_flight: int = 0
    waiting: int = 0


PRICES = PriceTable(allow_list({}))


def metrics(recording: Quiet | Recorder | None = None, **more: Any) -> Metrics:
    known: dict[str, Any] = {
        "census": lambda: StoreCounts(verdicts={}),
        "version": "9.9",
        "prices": PRICES,
    }
    return Metrics(recording or Quiet(), **(known | more))


TIMED = Timing(started_at=1.0, first_token_s=0.1, duration_s=1.0)


def whole() -> Metrics:
    """Metrics in which each has been told of something."""
    counting = metrics(
        census=lambda: StoreCounts(
            verdicts={"healthy": 1},
            gauges={"truezero_breakers": {"open": 1}},
            lanes={("openai", "gpt-5", "down"): 1},
        ),
        requests=RequestCounts(refused={AGENTS: lambda: {"x": 1}}, unattributed=lambda: {"x": 1}),
    )
    counting.observe(
        FlushResult(
            ended=[
                exchange(streamed=True, timing=TIMED),
                exchange(kind=Kind.OTHER, api="unread /v1/answers"),
            ],
            waited_s=[1, 1],
            took_s=1,
        )
    )
    counting.judged(FOUND)
    return counting


def told(text: str | Metrics) -> Samples:
    if isinstance(text, Metrics):
        text = text.exposition()[0].decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples: Samples | str | Metrics, name: str, **labels: str) -> float | None:
    """The one sample whose labels include these; None where there is none."""
    samples = samples if isinstance(samples, dict) else told(samples)
    wanted = labels.items()
    found = [
        value for (named, its), value in samples.items() if named == name and wanted <= set(its)
    ]
    assert len(found) < 2, f"{len(found)} samples {name} {labels}"
    return found[0] if found else None


def after(*exchanges: Exchange) -> Samples:
    """What is told once these calls have ended."""
    counting = metrics()
    counting.observe(FlushResult(ended=exchanges, waited_s=[0.001] * len(exchanges), took_s=0.002))
    return told(counting)


def scraped(service: Service) -> Samples:
    answer = service.http.get("/metrics")
    assert answer.status_code == 200, answer.text
    return told(answer.text)


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both(BREAKER_THRESHOLD="2")


# --- calls ---------------------------------------------------------------------------------


def test_what_was_told_before_is_added_to_and_never_told_twice() -> None:
    counting = metrics()
    turn = FlushResult(ended=[exchange(took=3.0)], waited_s=[0.001], took_s=0.002)
    counting.observe(turn)
    counting.sample()
    assert value(counting, "truezero_exchanges_total") == 1
    counting.observe(turn)
    samples = told(counting)
    assert value(samples, "truezero_exchanges_total") == 2
    assert value(samples, "truezero_exchange_duration_seconds_sum") == 6.0
    assert value(samples, "truezero_overhead_seconds_count", part="commit") == 2
    assert value(samples, "truezero_recorder_turn_seconds_count") == 2


# --- the service itself ----------------------------------------------------------------------


def test_the_recorder_is_told_as_it_stands() -> None:
    recorder = Quiet(failing=True, gaps_counted=3, in_flight=7, waiting=11)
    counting = metrics(recorder)
    samples = told(counting)
    assert value(samples, "truezero_recorder_failing") == 1
    assert value(samples, "truezero_gaps_total") == 3
    assert value(samples, "truezero_calls_in_flight") == 7
    assert value(samples, "truezero_recorder_waiting") == 11
    recorder.failing, recorder.gaps_counted, recorder.in_flight = False, 5, 0
    samples = told(counting)
    assert value(samples, "truezero_recorder_failing") == 0
    assert value(samples, "truezero_gaps_total") == 5
    assert value(samples, "truezero_calls_in_flight") == 0


def test_overhead_is_told_by_its_parts() -> None:
    counting = metrics()
    counting.observe(FlushResult(ended=[], waited_s=[0.002, 0.004], took_s=0.001))
    counting.late(0.02)
    samples = told(counting)
    assert value(samples, "truezero_overhead_seconds_count", part="commit") == 2
    assert value(samples, "truezero_overhead_seconds_sum", part="commit") == pytest.approx(0.006)
    assert value(samples, "truezero_overhead_seconds_sum", part="loop") == 0.02
    assert value(samples, "truezero_recorder_turn_seconds_sum") == 0.001


def test_while_the_database_is_away_the_rest_is_told() -> None:
    def away() -> StoreCounts:
        raise DatabaseUnavailable("disk I/O error")

    samples = told(metrics(Quiet(in_flight=2), census=away))
    assert value(samples, "truezero_calls_in_flight") == 2
    assert value(samples, "truezero_breakers", phase="open") is None


# --- over HTTP -------------------------------------------------------------------------------


def test_calls_through_the_proxy_are_told(service: Service) -> None:
    before = scraped(service)

    def more(name: str, **labels: str) -> float:
        """By how much a counter grew; the service has counted for other tests."""
        return (value(scraped(service), name, **labels) or 0) - (value(before, name, **labels) or 0)

    for _ in range(3):
        service.call()
    service.provider.plays(answers.FAILURES[Api.CHAT][Fault.QUOTA])
    service.call()
    eventually(lambda: more("truezero_exchanges_total", subcategory="none"), 3)
    eventually(lambda: more("truezero_exchanges_total", subcategory="quota"), 1)
    assert more("truezero_tokens_total", kind="input") > 0
    assert more("truezero_cost_calls_total", cost="known") == 3
    assert more("truezero_cost_usd_total") > 0
    assert more("truezero_overhead_seconds_count", part="commit") == 4
    assert value(scraped(service), "truezero_calls_in_flight") == 0
    eventually(lambda: min(more("truezero_overhead_seconds_count", part="loop"), 1), 1)


def test_every_name_is_told_and_no_other(service: Service) -> None:
    text = service.http.get("/metrics").text
    families = {f.name for f in text_string_to_metric_families(text)}
    assert {name for name in families if name.startswith("truezero_")} == NAMES
    assert "process_cpu_seconds" in families


@pytest.mark.postgres_smoke
def test_verdicts_and_breakers_are_told_as_they_stand(service: Service) -> None:
    play(service, "fine")
    play(service, "down", DOWN)
    samples = scraped(service)
    assert value(samples, "truezero_verdicts", health="healthy") == 1
    assert value(samples, "truezero_breakers", phase="open") == 0
    for name in ("dead-1", "dead-2"):
        play(service, name, DEAD)
    samples = scraped(service)
    assert value(samples, "truezero_verdicts", health="api_error") == 3
    assert value(samples, "truezero_breakers", phase="open") == 1
    service.http.post("/batches/b/breaker/reset")
    samples = scraped(service)
    assert value(samples, "truezero_breakers", phase="open") == 0
    assert value(samples, "truezero_breakers", phase="half_open") == 1


@pytest.mark.postgres_smoke
def test_a_rollouts_findings_are_counted_once(service: Service) -> None:
    labels = {"check": "engine_aborted", "level": "invalid"}
    before = value(scraped(service), "truezero_validity_findings_total", **labels) or 0
    service.provider.plays(ABORTED)
    service.http.post(f"/r/cut/openai{CHAT}", json={"model": "gpt-5", "messages": []})
    assert service.get("/rollouts/cut/verdict")["validity"], "found before the outcome too"
    play(service, "cut", ABORTED)
    again = {"status": "success", "prompts_executed": 1, "rewards": 0.0}
    assert service.http.post("/rollouts/cut/outcome", json=again).status_code == 200
    service.get("/rollouts/cut/verdict")
    play(service, "fine")
    after = value(scraped(service), "truezero_validity_findings_total", **labels)
    assert after == before + 1


def test_a_drills_findings_are_not_counted() -> None:
    counting = metrics()
    counting.judged(replace(FOUND, warnings=("faults_injected",)))
    assert value(counting, "truezero_validity_findings_total") is None
    counting.judged(FOUND)
    assert value(counting, "truezero_validity_findings_total", check="starved") == 1


def test_the_numbers_are_the_operators(services: Services) -> None:
    service = services(ADMIN_TOKEN="t0ken")
    problem(service.http.get("/metrics"), 401, "unauthorized")
    agent = {"Authorization": "Bearer tz-abc"}
    problem(service.http.get("/metrics", headers=agent), 401, "unauthorized")
    operator = {"Authorization": "Bearer t0ken"}
    assert service.http.get("/metrics", headers=operator).status_code == 200


# --- several processes -------------------------------------------------------------------------


# Forks, as uvicorn does not: an interpreter for each would take a second.
COUNTS = """
import os, signal, sys
from pathlib import Path
from types import SimpleNamespace
from proxy.features.metrics.metrics import AGENTS, Metrics, RequestCounts
from proxy.features.metrics.multiprocess import SHARED
from proxy.recording.backlog import FlushResult
from proxy.store.errors import DatabaseUnavailable
from proxy.store.tables import StoreCounts
from tests import reference_pages
from tests.builders import exchange

def counting(in_flight):
    counting = Metrics(
        SimpleNamespace(failing=False, gaps_counted=0, in_flight=in_flight, waiting=0),
        census=lambda: StoreCounts(verdicts={}), version="1",
        prices=SimpleNamespace(model_name=lambda *_: "gpt-5", cost=lambda _: 0.25),
        requests=RequestCounts(refused={AGENTS: lambda: {"bad_path": 2}}),
        shared=Path(os.environ[SHARED]),
    )
    counting.observe(FlushResult(ended=[exchange()] * 10, waited_s=[], took_s=0.1))
    counting.sample()
    return counting

def forked(work):
    child = os.fork()
    if not child:
        work()
        sys.stdout.flush()
        os._exit(0)
    return child

def lives():
    kept = counting(5)
    os.write(says, b".")
    signal.pause()

def tells():
    told = counting(1)
    print(told.exposition()[0].decode() + f"refused_in_all {told.refused_calls()['bad_path']}")

hears, says = os.pipe()
other = forked(lives)
os.read(hears, 1)
os.waitpid(forked(tells), 0)
os.kill(other, signal.SIGKILL)
os.waitpid(other, 0)
print("---", flush=True)
os.waitpid(forked(tells), 0)
"""


@pytest.mark.slow
def test_what_a_dead_worker_counted_stays_and_what_it_had_in_flight_goes(tmp_path: Path) -> None:
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    command = [sys.executable, "-c", COUNTS]
    said = subprocess.check_output(command, env=environment, cwd=ROOT, text=True)
    beside, alone = said.split("---")
    assert value(beside, "truezero_exchanges_total") == 20
    assert value(beside, "truezero_cost_usd_total", model="gpt-5") == 5.0
    assert value(beside, "truezero_calls_in_flight") == 6
    assert (value(beside, "refused_in_all"), value(alone, "refused_in_all")) == (4, 6)
    assert value(alone, "truezero_exchanges_total") == 30
    assert value(alone, "truezero_calls_in_flight") == 1


# --- what reads them -----------------------------------------------------------------------------

METRIC = re.compile(r"\btruezero_[a-z_]+")
SUFFIXES = re.compile(r"_(total|bucket|count|sum)$")


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "deploy/grafana/truezero.json").read_text("utf-8"))
    return found


def queries() -> list[str]:
    return [
        target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", [])
    ]


def test_every_query_of_the_dashboard_asks_for_what_is_told() -> None:
    assert len(queries()) > 10
    for query in queries():
        names = {SUFFIXES.sub("", name) for name in METRIC.findall(query)}
        assert names, query
        assert names <= NAMES, query
    shown = {SUFFIXES.sub("", name) for query in queries() for name in METRIC.findall(query)}
    assert NAMES - shown == {"truezero_build"}


def test_the_documentation_lists_every_metric_and_its_labels() -> None:
    text = (ROOT / "docs/operations/observability.md").read_text("utf-8")
    listed = reference_pages.metrics(whole().exposition()[0].decode())
    assert reference_pages.part(text, "metrics") == listed, "run python -m tests.test_docs"
    assert {SUFFIXES.sub("", name) for name in METRIC.findall(listed)} >= NAMES


def test_panels_have_names_sources_and_places_of_their_own() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        assert panel["title"]
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
        if panel["type"] != "row":
            assert panel["datasource"] == {"type": "prometheus", "uid": "prometheus"}
            assert panel["description"]


@pytest.mark.slow
def test_the_dashboard_links_to_pages_that_the_service_has(services: Services) -> None:
    found = dashboard()
    links = [
        *found["links"],
        *(link for panel in found["panels"] for link in panel.get("links", ())),
    ]
    assert len(links) > 10
    (base,) = (each for each in found["templating"]["list"] if each["name"] == "truezero")
    assert base["query"] == "http://127.0.0.1:8383", "where compose serves it"
    service = services()
    for path in {link["url"].removeprefix("${truezero}") for link in links}:
        assert path.startswith("/"), path
        assert service.http.get(path).status_code == 200, path
    assert service.http.get("/ui/rollouts?by=nothing").status_code == 422, "a filter is checked"


def test_causes_have_the_colours_they_have_on_the_pages() -> None:
    css = (ROOT / "proxy/web/static/page.css").read_text("utf-8")
    pages = {
        name: re.search(rf"--{name.replace('_', '-')}: light-dark\((#\w+),", css)
        for name in Subcategory
    }
    (panel,) = (p for p in dashboard()["panels"] if p["title"] == "Failures by cause")
    shown = {
        override["matcher"]["options"]: override["properties"][0]["value"]["fixedColor"].lower()
        for override in panel["fieldConfig"]["overrides"]
    }
    assert shown == {name.value: found[1] for name, found in pages.items() if found}


def read(name: str) -> Mapping[str, Any]:
    found = yaml.safe_load((ROOT / name).read_text("utf-8"))
    assert isinstance(found, dict)
    return found


MONITORING = "deploy/compose/monitoring.yml"


def test_prometheus_asks_the_service_with_its_token() -> None:
    (job,) = read("deploy/prometheus.yml")["scrape_configs"]
    services = read(MONITORING)["services"]
    prometheus = services["prometheus"]
    assert job["metrics_path"] == "/metrics"
    assert job["static_configs"][0]["targets"] == ["truezero:8383"]
    assert job["authorization"]["credentials_file"] == "/token/prometheus"
    assert "token:/token:ro" in prometheus["volumes"]
    assert prometheus["depends_on"] == {"token": {"condition": "service_completed_successfully"}}
    (script,) = services["token"]["command"]
    assert "| keep prometheus 65534\n" in script, "nobody, whom its image runs as"


@pytest.mark.parametrize("name", ["prometheus", "grafana"])
def test_monitoring_is_pinned_and_heard_on_this_machine_only(name: str) -> None:
    service = read(MONITORING)["services"][name]
    assert re.fullmatch(r"[\w/-]+:v?\d+\.\d+\.\d+", service["image"])
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])


def test_every_file_that_monitoring_mounts_is_there() -> None:
    files = [read(name) for name in ("docker-compose.yml", MONITORING)]
    mounts = [
        mount.split(":")[0]
        for compose in files
        for service in compose["services"].values()
        for mount in service["volumes"]
    ]
    named = {name for compose in files for name in compose["volumes"]}
    assert len(mounts) > len(named)
    for mount in mounts:
        assert mount in named or (ROOT / mount).exists(), mount


def test_grafana_finds_its_source_and_its_dashboard() -> None:
    (source,) = read("deploy/grafana/provisioning/datasources/prometheus.yml")["datasources"]
    assert (source["type"], source["uid"]) == ("prometheus", "prometheus")
    assert source["url"] == "http://prometheus:9090"
    (provider,) = read("deploy/grafana/provisioning/dashboards/truezero.yml")["providers"]
    mounts = read(MONITORING)["services"]["grafana"]["volumes"]
    assert (
        f"./deploy/grafana/truezero.json:{provider['options']['path']}/truezero.json:ro" in mounts
    )


def test_refusals_and_calls_without_a_name_are_counted_once() -> None:
    refused, nameless = {"bad_path": 2}, {"openai": 1}
    requests = RequestCounts(
        refused={AGENTS: lambda: refused, CONTROL: lambda: {"invalid": 7}},
        unattributed=lambda: nameless,
    )
    counting = metrics(requests=requests)
    assert counting.refused_calls() == {"bad_path": 2}
    refused["bad_path"], refused["no_rollout"], nameless["openai"] = 5, 1, 4
    counting.sample()
    samples = told(counting)
    assert value(samples, "truezero_refusals_total", plane="agents", code="bad_path") == 5
    assert value(samples, "truezero_refusals_total", plane="control", code="invalid") == 7
    assert value(samples, "truezero_unattributed_calls_total", upstream="openai") == 4
    assert counting.refused_calls() == {"bad_path": 5, "no_rollout": 1}


# --- Counters of calls: right numbers under few labels --------------------------------------------


def test_a_call_is_counted_by_upstream_kind_status_class_cause_and_ending() -> None:
    played = calls("200", "200", "429", "401%anthropic", "net", "left", "200+embed")
    samples = after(*played, exchange(42), exchange(503, injected=True))  # a drill's: no provider's

    def count(**labels: str) -> float | None:
        return value(samples, "truezero_exchanges_total", **labels)

    assert count(upstream="openai", status_class="2xx", kind="inference", ending="complete") == 2
    assert count(upstream="openai", status_class="4xx", subcategory="rate_limit") == 1
    assert count(upstream="anthropic", subcategory="auth") == 1
    assert count(status_class="none", subcategory="provider_error", ending="never_connected") == 1
    assert count(status_class="none", subcategory="none", ending="left_by_agent") == 1
    assert count(kind="embedding") == 1
    assert (count(status_class="other"), count(status_class="5xx")) == (1, None)


def test_a_question_at_a_path_that_is_not_read_is_counted() -> None:
    asked, other = calls("404+other", "200+other")
    samples = after(replace(asked, api="unread /v1/answers"), other, exchange())
    assert value(samples, "truezero_unread_questions_total", upstream="openai") == 1


def test_tokens_are_counted_by_kind() -> None:
    usage = Usage(
        input_total=100, output_total=50, cached_input_tokens=60, cache_write_tokens=5,
        reasoning_tokens=30,
    )  # fmt: skip
    samples = after(exchange(usage=usage), exchange(usage=usage, at=1.0), exchange(usage=Usage()))
    kinds = {"input": 200, "output": 100, "cache_read": 120, "cache_write": 10, "reasoning": 60}
    assert kinds == {kind: value(samples, "truezero_tokens_total", kind=kind) for kind in kinds}
    assert value(after(exchange(usage=Usage())), "truezero_tokens_total", kind="input") is None


def test_only_answered_inference_calls_are_timed() -> None:
    timing = replace(TIMED, first_token_s=0.3)
    samples = after(
        *(exchange(took=took, at=took) for took in (5.0, 2.5, 5.1, 1000.0)),
        *(exchange(timing=timing, streamed=streamed) for streamed in (True, False)),
        exchange(429, took=0.1), exchange(kind=Kind.PROBE, took=0.1),
    )  # fmt: skip
    name = "truezero_exchange_duration_seconds"
    assert value(samples, f"{name}_count", upstream="openai") == 6
    assert value(samples, f"{name}_sum", upstream="openai") == pytest.approx(1014.6)
    within = {le: value(samples, f"{name}_bucket", le=le) for le in ("1.0", "2.5", "5.0", "+Inf")}
    assert within == {"1.0": 2, "2.5": 3, "5.0": 4, "+Inf": 6}, "a time on a bound is within it"
    assert value(samples, "truezero_first_token_seconds_count") == 1, "of a stream only"
    assert value(samples, "truezero_first_token_seconds_sum") == 0.3


def test_no_label_names_a_rollout_a_callers_model_a_role_or_a_key() -> None:
    text = str(
        after(
            exchange(
                rollout_id="the-rollout", model="the-model", answered_model="the-answerer",
                role="the-role", key_digest="the-key", api="the-api", id="the-id",
                finish_reason="the-reason", provider_request_id="the-request",
            )
        )
    )  # fmt: skip
    assert "the-" not in text


# --------------------------------------------------------------------------------------------------
# Calls, tokens and cost by model: names of the price table only, and unknown is never zero

CALLS, TOKENS = "truezero_model_calls_total", "truezero_model_tokens_total"
COST, COSTED = "truezero_cost_usd_total", "truezero_cost_calls_total"
USED = Usage(input_total=1_000_000, output_total=1000)
BUSY = Cause(subcategory=Subcategory.RATE_LIMIT, transient=True, rule="r")


def test_calls_are_counted_by_the_model_that_answered() -> None:
    samples = after(
        exchange(model="alias", answered_model="gpt-5-2025-08-07"),
        exchange(429, model="gpt-5"),
        exchange(kind=Kind.PROBE, model="gpt-5"),
        exchange(model="gpt-5", injected=True),
    )
    assert value(samples, CALLS, upstream="openai", model="gpt-5", subcategory="none") == 1
    assert value(samples, CALLS, model="gpt-5", subcategory="rate_limit") == 1
    assert value(samples, TOKENS, model="gpt-5", kind="output") == 20


def test_what_has_no_price_is_counted_and_adds_no_zero() -> None:
    samples = after(
        exchange(usage=USED),
        exchange(usage=Usage()),  # it answered, and nobody says how many tokens
        exchange(model="our-own-7b", usage=USED),
        exchange(429, usage=Usage()),
        exchange(cause=BUSY, usage=USED),  # failed inside a 200: it may have used tokens
    )
    assert value(samples, COSTED, model="gpt-5", cost="known") == 2
    assert value(samples, COSTED, model="gpt-5", cost="unknown") == 1
    assert value(samples, COSTED, model=OTHER, cost="unknown") == 1
    one = PRICES.cost(exchange(usage=USED))
    assert one is not None
    assert value(samples, COST, model="gpt-5") == pytest.approx(2 * one)
    assert value(samples, COST, model=OTHER) is None
    stated = exchange(model="our-own-7b", usage=replace(USED, cost_usd=0.5))
    assert value(after(stated, stated), COST, model=OTHER) == 1.0, "which the provider states"
    odd = exchange(usage=Usage(input_total=1, output_total=0, cached_input_tokens=10**6))
    assert (PRICES.cost(odd) or 0) < 0
    samples = after(odd)
    assert value(samples, COSTED, model="gpt-5", cost="unknown") == 1
    assert value(samples, COST) is None, "no negative cost"


@pytest.mark.parametrize(
    "written", ["sk-proj-4f4f4f4f4f4f4f4f4f4f", "gpt-5 say hello", "tz-9a8b7c6d5e4f", "x" * 200]
)
def test_what_a_caller_wrote_is_no_label(written: str) -> None:
    samples = after(exchange(model=written), exchange(model="gpt-5", answered_model=written))
    assert value(samples, CALLS, model=OTHER) == 2
    assert written not in str(samples)


class Everything:
    """A table that knows every model, as none does."""

    def __init__(self) -> None:
        self.asked: list[str | None] = []

    def model_name(self, _upstream: str, model: str | None) -> str | None:
        self.asked.append(model)
        return model

    def cost(self, _exchange: Exchange) -> float | None:
        return 1.0


def test_an_agent_that_invents_names_makes_no_more_labels() -> None:
    counting, step = metrics(prices=Everything()), _FRESH // 2
    calls = [exchange(model=f"m-{n}") for n in range(3 * MOST)]
    for n in range(0, len(calls), step):
        counting.observe(FlushResult(ended=calls[n : n + step], waited_s=[], took_s=0.0))
        counting.sample()
    samples = told(counting)
    counts = {dict(of)["model"]: count for (name, of), count in samples.items() if name == CALLS}
    assert len(counts) == MOST + 1
    assert counts[OTHER] == 2 * MOST
    assert value(samples, COST, model=OTHER) == 2 * MOST, "its cost is known all the same"


def test_an_agent_that_invents_names_makes_no_more_look_ups() -> None:
    prices = Everything()
    counting = metrics(prices=prices)
    calls = [exchange(model=f"m-{n}") for n in range(5 * _FRESH)]
    counting.observe(FlushResult(ended=calls, waited_s=[], took_s=0.0))
    assert value(counting, CALLS, model=OTHER) == 4 * _FRESH
    assert len(prices.asked) == _FRESH + 1
