"""`truezero demo`: zeros that are measurements and zeros that are not, told apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.truezero.cli.test_cli import truezero


@pytest.mark.slow
def test_the_demo_tells_every_zero_apart(tmp_path: Path) -> None:
    said = truezero("demo", "--json", folder=tmp_path)
    assert said.returncode == 0, said.stderr
    runs = {run["scene"]: run for run in json.loads(said.stdout)}
    found = {
        name: (run["verdict"]["health"], run["verdict"]["subcategory"])
        for name, run in runs.items()
    }
    assert found == {
        "solved": ("healthy", None),
        "honest-zero": ("healthy", None),
        "dead-key": ("api_error", "auth"),
        "empty-account": ("api_error", "quota"),
        "unknown-model": ("api_error", "model_not_found"),
        "rate-limited": ("healthy", None),
        "paced": ("healthy", None),
        "outage": ("api_error", "provider_error"),
        "silent": ("suspected_api_error", None),
        "own-timeout": ("healthy", None),
        "its-outage": ("api_error", "provider_error"),
    }
    decided = {
        name: [(each["result"], run["verdict"]["attributed_to"], run["result"]["rewards"])
               for each in run["verdict"]["references"]]
        for name, run in runs.items()
    }  # fmt: skip
    assert decided.pop("own-timeout")[-1] == ("answered", "agent", {"reward": 0.0})
    assert decided.pop("its-outage")[-1] == ("failed_alike", "provider", None)
    assert not any(decided.values()), "trusted agents' failures ask nothing"
    assert runs["honest-zero"]["result"]["rewards"] == {"reward": 0.0}
    assert runs["dead-key"]["reported_reward"] == 0.0
    assert runs["dead-key"]["result"]["rewards"] is None
    assert runs["rate-limited"]["verdict"]["recovered_requests"] == 1
    assert runs["paced"]["reported_reward"] == 1.0
    assert runs["paced"]["verdict"]["failed_requests"] == 0
    assert runs["paced"]["verdict"]["held_s"] > 0
    assert runs["outage"]["verdict"]["retry"]["eligible"] is True
    assert not list(tmp_path.iterdir()), "the demo leaves nothing behind"


@pytest.mark.slow
def test_the_demos_table_is_for_people(tmp_path: Path) -> None:
    said = truezero("demo", "--keep", "kept.db", folder=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "6 of 8 zeros were not measurements" in said.stdout
    assert "the proxy's own question" in " ".join(said.stdout.split())
    assert "its calls waited" in said.stdout
    assert "the key was refused (auth, 401" in " ".join(said.stdout.split())
    assert (tmp_path / "kept.db").is_file()
