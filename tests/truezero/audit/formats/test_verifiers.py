from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.truezero.audit.copies import check_copy
from tests.truezero.audit.harnesses import dump_lines, verifiers_episode
from tests.truezero.audit.scenarios import Scenario
from truezero.audit.report import audit

RUN = Scenario(kind="k", number=1, calls=("ok",), reward=0.0, failed=False)


def row(**fields: Any) -> dict[str, Any]:
    return {"example_id": 3, "prompt": [], "completion": [], "reward": 0.0, "error": None, **fields}


def test_a_copys_rewards_are_null_and_its_errors_say_why(tmp_path: Path) -> None:
    copy = check_copy("verifiers", tmp_path)
    episodes = [json.loads(line) for line in (copy / "traces.jsonl").read_text().splitlines()]
    traces = [trace for episode in episodes for trace in episode["traces"] if "truezero" in trace]
    assert traces
    for trace in traces:
        assert set(trace["rewards"].values()) == {None}
        assert not trace["ok"]
        assert trace["errors"][-1]["type"] == "ProviderError"
    rows = [json.loads(line) for line in (copy / "results.jsonl").read_text().splitlines()]
    marked = [each for each in rows if "truezero" in each]
    assert {each["reward"] for each in marked} == {None}


def test_weighted_rewards_are_added(tmp_path: Path) -> None:
    episode = verifiers_episode(RUN)
    episode["traces"][0]["rewards"] = {
        "a": {"score": 0.5, "weight": 2.0},
        "b": {"score": 1.0},
        "c": None,
    }
    dump_lines(tmp_path / "traces.jsonl", [episode])
    assert audit(tmp_path).runs[0].reward == 2.0


def test_cached_input_is_counted_beside_the_new(tmp_path: Path) -> None:
    episode = verifiers_episode(RUN)
    episode["traces"][0]["calls"][0]["usage"]["cached_input_tokens"] = 30
    dump_lines(tmp_path / "traces.jsonl", [episode])
    assert audit(tmp_path).runs[0].verdict.input_tokens == 130


def test_an_error_of_an_earlier_attempt_that_went_well_is_none(tmp_path: Path) -> None:
    episode = verifiers_episode(RUN)
    episode["traces"][0] |= {
        "errors": [{"type": "AuthenticationError", "message": "x"}],
        "ok": True,
    }
    dump_lines(tmp_path / "traces.jsonl", [episode])
    assert audit(tmp_path).runs[0].verdict.health.value == "healthy"


def test_rollouts_of_one_example_are_repeats(tmp_path: Path) -> None:
    dump_lines(tmp_path / "results.jsonl", [row(), row()])
    assert [(run.task, run.repeat) for run in audit(tmp_path).runs] == [("3", 0), ("3", 1)]


# (fields, health)
ROWS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"completion": [{"role": "assistant", "content": "x"}]}, "healthy"),
    ({"completion": "x"}, "healthy"),
    (
        {"completion": "", "token_usage": {"input_tokens": 9.0, "output_tokens": 0.0}},
        "suspected_api_error",
    ),
    (
        {"completion": [], "token_usage": {"input_tokens": 0, "output_tokens": 0}},
        "suspected_api_error",
    ),
    ({"completion": []}, "undecided"),
    ({"completion": None}, "undecided"),
    ({"error": "litellm.AuthenticationError: bad key"}, "api_error"),
    (
        {"error": {"error": "agent_error", "error_chain_str": 'API Error: 402 {"error": {}}'}},
        "api_error",
    ),
)


def test_a_row_says_what_its_completion_usage_and_error_say(tmp_path: Path) -> None:
    dump_lines(tmp_path / "results.jsonl", [row(**fields) for fields, _ in ROWS])
    found = [run.verdict.health.value for run in audit(tmp_path).runs]
    assert found == [health for _, health in ROWS]
