"""What `make agents` stands on, held without an agent and without a namespace."""

from __future__ import annotations

import json
import socket

import pytest

from tests.agents import __main__ as outside
from tests.agents import page
from tests.agents.measure import FAULTS, WELL, Measured
from tests.agents.programs import PROGRAMS, Program
from tests.truezero.sdk.test_client import VERDICT
from truezero import models
from truezero.runner import agents

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


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.name)
def test_each_measured_agent_is_one_that_truezero_knows(program: Program) -> None:
    assert agents.recognised(program.command)[0].name == program.name


def test_a_failure_that_an_agent_hides_stands_out() -> None:
    assert page.table([HIDDEN]).splitlines()[2] == "| auth | **hidden** (3) | api_error auth |"


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
