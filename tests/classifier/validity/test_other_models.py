"""Models outside the registered ones that did most of the work."""

from __future__ import annotations

from typing import Any

from classifier import judge
from tests.builders import rollout
from tests.classifier.validity.judged import call, found, level, record

BOUND: dict[str, Any] = {"model": "gpt-5", "upstream": "openai"}
CHECK = "other_models"


def test_eight_calls_with_tools_to_another_model_beside_one_to_the_registered() -> None:
    calls = [call(), *[call("200+tool@o3") for _ in range(8)]]
    finding = found(CHECK, record(calls, **BOUND))
    assert finding is not None
    assert (finding.level, finding.calls, finding.of) == ("suspect", 8, 9)
    assert finding.about["models"] == ["o3"]
    assert level(CHECK, record(calls, model=["gpt-5", "o3"][0], fallbacks=("o3",))) is None
    assert level(CHECK, record(calls)) is None  # nothing is registered


def test_most_of_the_output_is_enough() -> None:
    written = [call(output=10), call("200@o3", output=31, tool_calls=0)]
    assert level(CHECK, record(written, **BOUND)) == "suspect"
    less = [call(output=10), call("200@o3", output=30, tool_calls=0)]
    assert level(CHECK, record(less, **BOUND)) is None


def test_a_small_model_acts_on_what_the_registered_one_plans() -> None:
    acts = [call("200+tool@o3", output=10) for _ in range(8)]
    assert level(CHECK, record([call(output=80), *acts], **BOUND)) is None
    assert level(CHECK, record([call(output=79), *acts], **BOUND)) == "suspect"


def test_a_small_model_beside_the_registered_one_is_covered_and_not_found() -> None:
    seen = rollout("200+tool*3 200+side", **BOUND)
    verdict = judge(seen)
    assert CHECK not in {each.check for each in verdict.validity}
    assert verdict.validity_coverage[CHECK].looked == 4
    assert CHECK not in judge(rollout("200+tool*3", **BOUND)).validity_coverage


def test_an_untrusted_agent_loses_no_score_by_it() -> None:
    calls = [call(), *[call("200+tool@o3") for _ in range(8)]]
    verdict = judge(record(calls, agents="untrusted", validity="suspect", **BOUND))
    assert verdict.scoreable == "yes"
    assert judge(record(calls, validity="suspect", **BOUND)).scoreable == "no"
