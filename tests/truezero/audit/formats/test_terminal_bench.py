"""terminal-bench 0.x: trials, the file that sums them up, and sessions of installed agents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.truezero.audit.harnesses import dump
from truezero.audit.formats import format_of
from truezero.audit.report import audit

PROMPT = "\x1b[?2004hroot@0c1f:/app# "
TYPED = "; tmux wait -S done\r\n\x1b[?2004l\r"
BEGUN = f"{PROMPT}clear\r\n{PROMPT}source /installed-agent/setup-env.sh{TYPED}"
INSTALL = f"{PROMPT}source /installed-agent/install-agent.sh && echo 'INSTALL_SUCCESS'{TYPED}"
INSTALL_0218 = INSTALL.replace("&& echo 'INSTALL_SUCCESS'", "|| echo 'INSTALL_FAIL_STATUS'")
INSTALLED = f"{BEGUN}{INSTALL}0% [Working]\r80% [Working]\rDone\r\nINSTALL_SUCCESS\r\n"
# A shell wraps a long command, and shows the lines of a pasted one.
COMMAND = f"{PROMPT}helper --task 'Mend \r\x1bMthe parser\r\n> and test it'{TYPED}"
EXIT = f"{PROMPT}\r\nexit\r\nasciinema: recording finished\r\n{PROMPT}"
TESTS = f"{PROMPT}bash /tests/run-tests.sh{TYPED}bash: pytest: command not found\r\n"
LIMIT = (
    "12:00:01 - helper:INFO: a.py:1 - step\r\n12:00:02 - helper:ERROR: b.py:2 - "
    "litellm.RateLimitError: RateLimitError: too many requests\r\n<html>\r\n</html>\r\n"
)
STARTED = {"agent_started_at": "2026-05-01T10:00:00+00:00"}


def trial(name: str, *, resolved: bool | None = False, mode: str = "unset", **more: Any) -> Any:
    return {
        "id": f"00000000-0000-0000-0000-{abs(hash(name)) % 10**12:012d}",
        "trial_name": f"{name}.1-of-1.run1",
        "task_id": name,
        "instruction": "Mend the parser",
        "is_resolved": resolved,
        "failure_mode": mode,
        "parser_results": {"test_a": "failed"},
        "recording_path": f"run1/{name}/{name}.1-of-1.run1/sessions/agent.cast",
        "total_input_tokens": 0,
        "total_output_tokens": 0,
        "trial_started_at": "2026-05-01T10:00:00+00:00",
        **STARTED,
        **more,
    }


def keep(run: Path, record: Any, session: str | None = None) -> Any:
    folder = run / record["task_id"] / record["trial_name"]
    dump(folder / "results.json", record)
    if session is not None:
        (folder / "sessions").mkdir()
        (folder / "sessions" / "agent.log").write_bytes(session.encode())
    return record


# (session, failure mode, health, rule)
SESSIONS = (
    (f"{INSTALLED}{COMMAND}bash: helper: command not found\r\n{EXIT}", "unset",
     "not_judged", "agent_never_began"),
    (f"{INSTALLED}{COMMAND}bash: helper: command not found\r\n{TESTS}{EXIT}", "parse_error",
     "not_judged", "agent_never_began"),
    (f"{BEGUN}{INSTALL}bash: uv: Permission denied\r\n{EXIT}", "agent_installation_failed",
     "not_judged", "agent_never_began"),
    (f"{BEGUN}{INSTALL}0% [Connecting to deb.example]\r", "parse_error",
     "not_judged", "agent_never_began"),
    (f"{INSTALLED}{COMMAND}{LIMIT}{EXIT}", "agent_timeout", "api_error", "all_failed"),
    (f"{INSTALLED}{COMMAND}step 1\r\nstep 2\r\nDone\r\n{TESTS}{EXIT}", "unset",
     "undecided", "not_recorded"),
    # A harness that says only of a failure that it failed, as from 0.2.18 on.
    (f"{BEGUN}{INSTALL_0218}curl: (56) x\r\nINSTALL_FAIL_STATUS\r\n{EXIT}", "unset",
     "not_judged", "agent_never_began"),
    (f"{BEGUN}{INSTALL_0218}Done\r\n{COMMAND}bash: helper: command not found\r\n{EXIT}", "unset",
     "not_judged", "agent_never_began"),
    # An agent of two commands, of which the first worked, and one whose log is cut.
    (f"{INSTALLED}{COMMAND}step 1\r\n{COMMAND}bash: sum: command not found\r\n{EXIT}", "unset",
     "undecided", "not_recorded"),
    (f"{INSTALLED[:-20]}{'x' * 5_000_000}\r\nstep 9\r\n{EXIT}", "unset",
     "undecided", "not_recorded"),
    (f"{PROMPT}hepler\r\nbash: hepler: command not found\r\n", "unset",  # an agent's own keys
     "undecided", "not_recorded"),
    ("", "agent_timeout", "undecided", "not_recorded"),
    (None, "unset", "undecided", "not_recorded"),
)  # fmt: skip


@pytest.mark.parametrize(("session", "mode", "health", "rule"), SESSIONS)
def test_the_session_of_an_installed_agent_shows_if_it_began(
    tmp_path: Path, session: str | None, mode: str, health: str, rule: str
) -> None:
    keep(tmp_path, trial("mend", mode=mode), session)
    [run] = audit(tmp_path).runs
    assert (run.verdict.health.value, run.verdict.rule) == (health, rule)
    assert run.false_zero == (health in ("not_judged", "api_error"))
    assert ("errors" in run.unknown) == (session is None)


def test_what_the_harness_counts_is_taken_and_its_zeros_for_installed_agents_are_none(
    tmp_path: Path,
) -> None:
    keep(tmp_path, trial("a", resolved=True, total_input_tokens=900, total_output_tokens=50))
    keep(tmp_path, trial("b"))
    dump(tmp_path / "run_metadata.json", {"agent_name": "helper", "model_name": "lab/m-1"})
    first, second = audit(tmp_path).runs
    assert (first.id, first.task, first.reward) == ("a/a.1-of-1.run1", "a", 1.0)
    assert (first.verdict.health.value, first.verdict.total_tokens) == ("healthy", 950)
    assert (second.reward, second.verdict.total_tokens) == (0.0, None)
    assert {first.model, second.model} == {"lab/m-1"}


def test_a_file_that_sums_up_a_run_adds_the_trials_whose_folders_are_gone(tmp_path: Path) -> None:
    none = {"agent_started_at": None, "total_input_tokens": None, "total_output_tokens": None}
    kept = keep(tmp_path, trial("a", resolved=True))
    gone = trial("b", resolved=None, mode="unknown_agent_error", **none)
    dump(tmp_path / "results.json", {"id": "x", "results": [kept, gone], "accuracy": 0.5})
    assert format_of(tmp_path).name == "terminal-bench"
    first, second = audit(tmp_path).runs
    assert (first.reward, second.reward, second.id) == (1.0, 0.0, "results.json:b.1-of-1.run1")
    assert second.verdict.rule == "agent_never_began"
    shown = f"{INSTALLED}{COMMAND}step 1\r\n{EXIT}"
    keep(tmp_path / "x", {**gone, "trial_name": "c.1-of-1.run1", "id": "c"}, shown)
    [ran] = audit(tmp_path / "x").runs
    assert ran.verdict.rule == "not_recorded", "its session shows that it worked"
    [alone] = [run for run in audit(tmp_path / "results.json").runs if run.task == "b"]
    assert alone.false_zero


def test_a_copy_takes_the_score_in_the_trials_file_and_in_the_one_that_sums_up(
    tmp_path: Path,
) -> None:
    run = tmp_path / "run1"
    record = keep(run, trial("a"), f"{INSTALLED}{COMMAND}{LIMIT}{EXIT}")
    good = keep(run, trial("b", resolved=True))
    lost = keep(run, trial("c", mode="agent_installation_failed"))
    dump(run / "results.json", {"results": [record, good, lost], "accuracy": 0.5})
    written = audit(run, write=True)
    copy = tmp_path / "run1.audited"
    [own] = (copy / "a").rglob("results.json")
    summed = json.loads((copy / "results.json").read_text())["results"]
    assert json.loads(own.read_text())["is_resolved"] is None
    assert [each["is_resolved"] for each in summed] == [None, True, None]
    assert written.uncorrected == (("results.json: its accuracy and pass@k are as terminal-bench"
                                   " wrote them"),)  # fmt: skip
    again = [each.verdict.rule for each in audit(copy).runs]
    assert again == ["all_failed", "not_recorded", "agent_never_began"]
