"""What is installed is said, and looked up; the image has no more than it needs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cyclonedx.model.bom import Bom

from deploy import audit
from tests.fakes import answers
from tests.fakes.provider import Answer, Provider, Request, closed_port

ROOT = Path(__file__).parent.parent
LOCK = (ROOT / "requirements.lock").read_text()
FLAW = {
    "id": "PYSEC-2099-1", "modified": "2099-01-01T00:00:00Z", "published": "2099-01-01T00:00:00Z",
    "details": "it says too much", "aliases": [], "schema_version": "1.4.0",
    "affected": [{
        "package": {"ecosystem": "PyPI", "name": "jinja2", "purl": "pkg:pypi/jinja2"},
        "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "99.0"}]}],
        "versions": [],
    }],
}  # fmt: skip


def looked_up(request: Request) -> Answer:
    """As OSV answers: jinja2 has a flaw, and nothing else."""
    asked = json.loads(request.body)["package"]["name"]
    return answers.whole({"vulns": [FLAW]} if asked == "jinja2" else {})


def told(provider: Provider) -> audit.Audit:
    return audit.audit(("-s", "osv", "--osv-url", provider.url), patience_s=60)


@pytest.fixture(autouse=True)
def nothing_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def test_a_known_vulnerability_is_named_with_what_mends_it() -> None:
    with Provider(looked_up) as provider:
        found = told(provider)
    (line,) = found.vulnerable
    assert re.fullmatch(r"jinja2 \S+: PYSEC-2099-1, mended in 99.0", line)
    assert found.looked_up > 40


def test_no_known_vulnerability_is_said_with_how_many_were_looked_up() -> None:
    with Provider(answers.whole({})) as provider:
        found = told(provider)
    assert re.fullmatch(r"audit: \d\d pinned packages, none known to be vulnerable", found.told())


def test_without_a_network_one_line_says_so() -> None:
    nowhere = f"http://127.0.0.1:{closed_port()}"
    found = audit.audit(("-s", "osv", "--osv-url", nowhere), patience_s=60)
    assert found.told() == "audit: no data on vulnerabilities can be reached, nothing was looked up"


def test_a_network_that_hangs_holds_nobody_up() -> None:
    assert audit.audit(patience_s=0.01) == audit.Audit()


def test_the_check_fails_for_a_vulnerability_and_for_nothing_else() -> None:
    command = [sys.executable, "-m", "deploy.audit", "-s", "osv", "--osv-url"]
    with Provider(looked_up) as provider:
        bad = subprocess.run([*command, provider.url], cwd=ROOT, capture_output=True, check=False)
    nowhere = f"http://127.0.0.1:{closed_port()}"
    away = subprocess.run([*command, nowhere], cwd=ROOT, capture_output=True, check=False)
    assert (bad.returncode, away.returncode) == (1, 0)
    assert b"PYSEC-2099-1" in bad.stdout


@pytest.fixture(scope="module")
def bill() -> Bom:
    done = subprocess.run(
        [sys.executable, "deploy/sbom.py"], cwd=ROOT, capture_output=True, check=True
    )
    read: Bom = Bom.from_json(json.loads(done.stdout))  # type: ignore[attr-defined]
    return read


def test_the_bill_names_every_pinned_package_with_its_hashes(bill: Bom) -> None:
    pinned = dict(re.findall(r"^([a-z0-9.-]+)==([^\s;]+)", LOCK, re.MULTILINE))
    parts = {part.name: part for part in bill.components}
    assert {name: part.version for name, part in parts.items()} == pinned
    assert str(parts["httpx"].purl) == f"pkg:pypi/httpx@{pinned['httpx']}"
    digests = sum(len(ref.hashes) for part in parts.values() for ref in part.external_references)
    assert digests == LOCK.count("--hash=sha256:")


def test_the_bill_says_what_needs_what(bill: Bom) -> None:
    assert bill.validate()
    needs = {
        each.ref.value: {on.ref.value for on in each.dependencies} for each in bill.dependencies
    }
    by_name = {ref.partition("/")[2].partition("@")[0]: ref for ref in needs}
    assert by_name["httpcore"] in needs[by_name["httpx"]]
    assert by_name["httpx"] in needs[by_name["truezero"]]
    assert all(on in needs for each in needs.values() for on in each)


def test_the_image_s_last_stage_runs_nothing_in_a_shell_and_nothing_as_root() -> None:
    last = (ROOT / "Dockerfile").read_text().rpartition("\nFROM ")[2]
    steps = re.findall(r"^(ENTRYPOINT|CMD|\s+CMD) (.*)$", last, re.MULTILINE)
    assert len(steps) == 3
    assert all(json.loads(words) for _, words in steps)
    assert re.search(r"^USER (?!root|0)", last, re.MULTILINE)
    assert "apt-get" not in last
