"""What `make agents` stands on, held without an agent and without a namespace."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from typing import Any

import pytest

from tests.agents import __main__ as outside
from tests.agents import page
from tests.agents.measure import ANSWERED, FAULTS, WELL, Measured
from tests.agents.programs import PROGRAMS, Program
from tests.agents.provider import obliging
from tests.fakes import answers
from tests.fakes.provider import Request
from tests.truezero.sdk.test_client import VERDICT
from truezero import models
from truezero.runner import agents
from truezero.runner.drills import DRILLS

PINNED: dict[str, str] = json.loads((outside.HERE / "package.json").read_text())["dependencies"]
HIDDEN = Measured(
    agent="Some agent",
    version="1.2.3",
    fault="auth",
    conduct="hid the failure",
    exit_code=0,
    calls=3,
    retries=2,
    seconds=4.25,
    hidden=True,
    verdict=models.Verdict.model_validate(
        {**VERDICT, "health": "api_error", "subcategory": "auth", "transient": False}
    ),
)


def _asked(verb: str, **config: Any) -> Request:
    body = json.dumps({"contents": [], "generationConfig": config}).encode()
    target = f"/v1beta/models/gemini-flash-lite:{verb}"
    return Request(method="POST", target=target, headers=(), body=body)


def test_a_question_for_json_is_answered_in_its_schema() -> None:
    schema = {
        "type": "OBJECT",
        "properties": {
            "reasoning": {"type": "string"},
            "model_choice": {"type": "string", "enum": ["flash", "pro"]},
            "score": {"type": "integer"},
        },
        "required": ["reasoning", "model_choice"],
    }
    config = {"responseMimeType": "application/json", "responseJsonSchema": schema}
    told = json.loads(obliging(_asked("generateContent", **config)).content)
    (part,) = told["candidates"][0]["content"]["parts"]
    assert json.loads(part["text"]) == {"reasoning": "zero", "model_choice": "flash"}


def test_any_other_question_is_answered_in_words_and_its_whole_prompt_is_counted() -> None:
    asked = _asked("streamGenerateContent", stopSequences=["x" * 4_000])
    answer = obliging(asked)
    assert answer.status == 200
    events = [json.loads(line[6:]) for line in answer.content.splitlines() if line[:1] == b"d"]
    parts = [event["candidates"][0]["content"]["parts"] for event in events]
    assert "".join(part["text"] for each in parts for part in each) == "".join(answers.TEXT)
    assert {event["modelVersion"] for event in events} == {"gemini-flash-lite"}
    assert events[-1]["usageMetadata"]["promptTokenCount"] == len(asked.body) // 4


def test_what_is_no_question_is_not_found() -> None:
    asked = Request(method="POST", target="/v1/telemetry", headers=(), body=b"{}")
    assert obliging(asked) == answers.healthy(asked)
    assert obliging(asked).status == 404


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.name)
def test_each_measured_agent_is_one_that_truezero_knows(program: Program) -> None:
    assert agents.recognised(program.command)[0].name == program.name


def test_every_fault_that_can_be_drilled_is_measured() -> None:
    assert set(FAULTS) == set(DRILLS)
    assert set(ANSWERED) < set(FAULTS)


def test_a_hidden_failure_stands_out_and_the_verdict_is_beside_it() -> None:
    head, _, line = page.table([HIDDEN]).splitlines()
    assert head == "| fault | Some agent 1.2.3 | verdict |"
    assert line == "| auth | **hidden** (3) | api_error auth |"


def test_a_line_says_what_was_found_of_a_spoilt_answer() -> None:
    finding = models.ValidityFinding(
        check="engine_aborted", level="invalid", calls=1, of=1, evidence=["x"], sentence="aborted"
    )
    verdict = models.Verdict.model_validate({**VERDICT, "validity": [finding]})
    (line,) = page.table([replace(HIDDEN, fault="abort", verdict=verdict)]).splitlines()[2:]
    assert line.endswith("| healthy · engine_aborted (invalid) |")


def test_a_failure_that_was_reported_does_not_stand_out() -> None:
    told = replace(HIDDEN, conduct="reported it", calls=1, hidden=False)
    assert "| reported (1) |" in page.table([told])


def test_each_agent_has_a_column_and_verdicts_that_differ_are_all_named() -> None:
    other = models.Verdict.model_validate({**VERDICT, "health": "healthy"})
    rows = [
        HIDDEN,
        replace(HIDDEN, agent="Other", conduct="answered", hidden=False, verdict=other),
        replace(HIDDEN, fault="quota"),
    ]
    assert page.table(rows).splitlines() == [
        "| fault | Some agent 1.2.3 | Other 1.2.3 | verdict |",
        "|---|---|---|---|",
        "| auth | **hidden** (3) | answered (3) | api_error auth · healthy |",
        "| quota | **hidden** (3) | – | api_error auth |",
    ]


def test_only_the_table_is_written_anew() -> None:
    before = "above\n<!-- measured -->\nold \\1\n<!-- /measured -->\nbelow\n"
    after = page.rewritten(before, "Measured today.", [HIDDEN])
    assert after.startswith("above\n<!-- measured -->\nMeasured today.\n\n| fault |")
    assert after.endswith("|\n<!-- /measured -->\nbelow\n")
    assert "old" not in after


def test_a_page_without_a_place_for_the_table_is_left_alone() -> None:
    with pytest.raises(ValueError, match="no place"):
        page.rewritten("above\n", "Measured today.", [HIDDEN])


def test_the_page_holds_every_run_of_the_pinned_versions() -> None:
    told = page.PAGE.read_text("utf-8")
    agents = (f"{program.name} {PINNED[program.package]}" for program in PROGRAMS)
    assert f"| fault | {' | '.join(agents)} | verdict |" in told, "run make agents"
    rows = {line.split(" ")[1]: line for line in told.splitlines() if line.startswith("| ")}
    missing = [fault for fault in (WELL, *FAULTS) if "| – |" in rows.get(fault, "| – |")]
    assert missing == [], "run make agents"


def test_no_agent_is_run_where_there_is_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "if_nameindex", lambda: [(1, "lo"), (2, "eth0")])
    with pytest.raises(outside.SkipError, match="other networks"):
        outside.seal()
