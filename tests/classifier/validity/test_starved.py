"""Tasks that timed out while the provider was waited for."""

from __future__ import annotations

from classifier import EVIDENCE
from classifier.evidence import Evidence
from classifier.totals import TimeAccount
from classifier.validity.measurement import CheckResult, Measurement
from classifier.validity.surroundings import starved
from classifier.verdicts import Coverage
from tests.builders import rollout

Seconds = tuple[float | None, float | None, float | None]  # provider, lost, agent


def examined(
    seconds: Seconds, calls: str = "200+tool*4", status: str = "task_timeout"
) -> CheckResult | None:
    provider_s, lost_s, agent_s = seconds
    facts = Evidence.of(rollout(calls, status=status), EVIDENCE)
    time = TimeAccount(provider_s=provider_s, lost_s=lost_s, agent_s=agent_s)
    return starved(Measurement.of(facts, roles={}, time=time))


def level(seconds: Seconds, calls: str = "200+tool*4") -> str | None:
    looked = examined(seconds, calls)
    assert looked is not None
    return None if looked.finding is None else looked.finding.level.value


def test_a_timeout_is_the_providers_where_little_came_for_most_of_the_time() -> None:
    for seconds, calls, expected in (
        ((300, 0, 700), "200+tool*4", None),  # 80 tokens in 300 s, but the agent took longer
        ((500, 0, 500), "200+tool*4", None),
        ((501, 0, 499), "200+tool*4", "suspect"),
        ((15, 0, 5), "200+tool*4", "info"),  # 80 tokens in 15 s: a model at work
        ((5, 600, 395), "503*3 200+tool*4", "suspect"),  # lost to failures
        ((10, 10, 5), "503 200+tool*4", "info"),
        ((900, 0, 100), "left", "suspect"),  # nothing came at all
        ((900, 0, 100), "200+tool 200+tool+nousage", "info"),  # nobody counted what came
        ((900, 0, 100), "200+tool left+text", "suspect"),
    ):
        assert level(seconds, calls) == expected, (seconds, calls)


def test_the_finding_tells_where_the_time_went() -> None:
    looked = examined((1800, 200, 400), "503 200+tool*2 200[5-900]")
    assert looked is not None
    finding = looked.finding
    assert finding is not None
    assert finding.sentence == (
        "the task timed out after 2,400 s, of which the provider took 1,800 s and its failures "
        "200 s for 60 tokens of output"
    )
    assert finding.about == {
        "provider_s": 1800, "lost_s": 200, "agent_s": 400, "output_tokens": 60,
    }  # fmt: skip
    assert set(finding.evidence) == {"x0", "x1", "x2", "x3"}
    looked = examined((900, 0, 100), "200+tool*20 200+tool+nousage[30-800]")
    assert looked is not None
    assert looked.finding is not None
    assert looked.finding.sentence == (
        "the task timed out after 1,000 s, of which the provider took 900 s"
    )
    assert len(looked.finding.evidence) == 10
    assert "x20" in looked.finding.evidence


def test_only_timeouts_whose_time_is_known_are_looked_at() -> None:
    assert examined((900, 0, 100), status="success") is None
    assert examined((900, 0, 100), calls="") is None
    unknown: list[Seconds] = [(None, 0, 100), (900, None, 100), (900, 0, None)]
    for seconds in unknown:
        looked = examined(seconds)
        assert looked == CheckResult(coverage=Coverage(looked=0, of=4)), seconds
