"""The command line as a person meets it: real processes, exit codes, one sentence for errors."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked
from tests.fakes.provider import closed_port


def environment(**more: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if "TRUEZERO" not in name}
    return clean | {"COLUMNS": "120", "PYTHONPATH": str(forked.ROOT)} | more


def truezero(*arguments: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return forked.run(*arguments, cwd=folder, env=environment(**more))


def test_a_command_that_is_forked_says_what_a_started_one_does(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text("{}\n")
    for words, more in (
        (["--version"], {}),
        (["serve", "--port", "0"], {"TRUEZERO_PROT": "1"}),
        (["classify", "bad.jsonl"], {}),
    ):
        started = subprocess.run(
            [sys.executable, "-m", "truezero", *words],
            cwd=tmp_path, env=environment(**more), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert told(truezero(*words, folder=tmp_path, **more)) == told(started), words


def told(done: subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
    return done.returncode, done.stdout, done.stderr


def test_help_names_every_command(tmp_path: Path) -> None:
    said = truezero("--help", folder=tmp_path)
    assert said.returncode == 0
    for command in (
        "serve",
        "run",
        "verdict",
        "batch",
        "check",
        "watch",
        "export",
        "import",
        "demo",
        "db",
    ):
        assert command in said.stdout


COMMANDS = [
    ["serve"], ["run"], ["verdict"], ["batch"], ["check"], ["watch"], ["export"], ["demo"],
    ["import"], ["db", "upgrade"], ["db", "copy"], ["db", "backup"],
]  # fmt: skip


def test_each_command_explains_itself(tmp_path: Path) -> None:
    for command in COMMANDS:
        said = truezero(*command, "--help", folder=tmp_path)
        assert said.returncode == 0, command
        assert len(said.stdout.splitlines()) > 5, command


def test_the_version_is_the_packages(tmp_path: Path) -> None:
    from importlib import metadata

    said = truezero("--version", folder=tmp_path)
    assert said.stdout.strip() == f"truezero {metadata.version('truezero')}"


def test_an_unwritable_database_is_one_sentence(tmp_path: Path) -> None:
    where = str(tmp_path / "no" / "folder" / "t.db")
    for command in (["serve", "--port", "0"], ["db", "upgrade"]):
        said = truezero(*command, "--database", where, folder=tmp_path)
        assert said.returncode == 1
        assert said.stdout == ""
        assert len(said.stderr.strip().splitlines()) == 1
        assert where in said.stderr


def test_a_file_that_is_no_database_is_one_sentence(tmp_path: Path) -> None:
    junk = tmp_path / "junk.db"
    junk.write_bytes(b"this is no database file, however one looks at it" * 100)
    said = truezero("serve", "--port", "0", "--database", str(junk), folder=tmp_path)
    assert said.returncode == 1
    assert len(said.stderr.strip().splitlines()) == 1
    assert "not a database" in said.stderr


def test_a_port_in_use_is_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = truezero("serve", "--port", port, folder=tmp_path)
    assert said.returncode == 1
    assert len(said.stderr.strip().splitlines()) == 1
    assert port in said.stderr
    assert "in use" in said.stderr


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"TRUEZERO_PROT": "1"}, "TRUEZERO_PROT"),
        ({"TRUEZERO_WORKERS": "many"}, "TRUEZERO_WORKERS"),
        ({"TRUEZERO_HOST": "0.0.0.0"}, "TRUEZERO_ADMIN_TOKEN"),
        ({"TRUEZERO_UPSTREAM_DOCS": "https://x.example"}, "docs"),
    ],
)
def test_a_bad_setting_is_one_sentence_and_exit_2(
    tmp_path: Path, environment: dict[str, str], said: str
) -> None:
    got = truezero("serve", "--port", "0", folder=tmp_path, **environment)
    assert got.returncode == 2
    assert len(got.stderr.strip().splitlines()) == 1
    assert said in got.stderr


def test_a_verdict_from_a_service_that_is_not_there(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    said = truezero("verdict", "r1", "--url", url, folder=tmp_path)
    assert said.returncode == 1
    assert url in said.stderr
    assert "Traceback" not in said.stderr


def test_an_export_is_judged_offline(tmp_path: Path) -> None:
    call = {
        "id": "x1", "rollout_id": "r1", "upstream": "openai", "api": "openai.chat",
        "started_at": 1.0, "status": 401, "ending": "complete", "subcategory": "auth",
        "transient": False, "rule": "status.401",
    }  # fmt: skip
    (tmp_path / "export.jsonl").write_text(json.dumps(call) + "\n", encoding="utf-8")
    said = truezero("classify", "export.jsonl", folder=tmp_path)
    assert said.returncode == 0, said.stderr
    verdict = json.loads(said.stdout)
    assert (verdict["rollout_id"], verdict["fingerprint"]) == ("r1", "auth:401")
    (tmp_path / "bad.jsonl").write_text("{}\n", encoding="utf-8")
    bad = truezero("classify", "bad.jsonl", folder=tmp_path)
    assert bad.returncode == 2
    assert "line 1" in bad.stderr


def test_upgrading_twice_changes_nothing(tmp_path: Path) -> None:
    first = truezero("db", "upgrade", "--database", "t.db", folder=tmp_path)
    second = truezero("db", "upgrade", "--database", "t.db", folder=tmp_path)
    assert (first.returncode, second.returncode) == (0, 0)
    assert first.stdout.startswith("schema empty → ")
    assert "→" not in second.stdout


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
        "outage": ("api_error", "provider_error"),
        "silent": ("suspected_api_error", None),
    }
    assert runs["honest-zero"]["result"]["rewards"] == {"reward": 0.0}
    assert runs["dead-key"]["reported_reward"] == 0.0
    assert runs["dead-key"]["result"]["rewards"] is None
    assert runs["rate-limited"]["verdict"]["recovered_requests"] == 1
    assert runs["outage"]["verdict"]["retry"]["eligible"] is True
    assert not list(tmp_path.iterdir()), "the demo leaves nothing behind"


def test_the_demos_table_is_for_people(tmp_path: Path) -> None:
    said = truezero("demo", "--keep", "kept.db", folder=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "5 of 6 zeros were not measurements" in said.stdout
    assert "api_error [auth, permanent]: HTTP 401" in said.stdout
    assert (tmp_path / "kept.db").is_file()
