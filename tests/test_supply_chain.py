"""`make sbom` and `make audit` on the lock, and what the image holds."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes import answers
from tests.fakes.provider import Answer, Provider, Request, closed_port

pytestmark = pytest.mark.slow  # tools of others, which look at the locks only

ROOT = Path(__file__).parent.parent
LOCK = (ROOT / "requirements.lock").read_text()
UNREACHABLE = "audit: vulnerability data cannot be reached, nothing was checked"
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
    name = json.loads(request.body)["package"]["name"]
    return answers.whole({"vulns": [FLAW]} if name == "jinja2" else {})


def make(target: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a target of the Makefile in this environment, without bringing it up to date."""
    command = ["make", "--no-print-directory", "--old-file=.venv/.ready", target]
    return subprocess.run(
        [*command, f"BIN={Path(sys.executable).parent}", *options],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip


def audited(url: str, *options: str) -> subprocess.CompletedProcess[str]:
    return make("audit", f"ARGS=-s osv --osv-url {url}", "AUDIT_S=120", *options)


@pytest.fixture(autouse=True)
def nothing_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def test_a_known_vulnerability_fails_the_check_and_is_named_with_its_fix() -> None:
    with Provider(looked_up) as provider:
        done = audited(provider.url)
    assert done.returncode != 0
    assert re.search(r"^jinja2 +\S+ +PYSEC-2099-1 +99\.0", done.stdout, re.MULTILINE)


def test_every_pinned_package_is_looked_up() -> None:
    names = set()

    def clean(request: Request) -> Answer:
        names.add(json.loads(request.body)["package"]["name"])
        return answers.whole({})

    with Provider(clean) as provider:
        done = audited(provider.url)
    assert (done.returncode, done.stdout) == (0, "No known vulnerabilities found\n")
    everywhere = set(re.findall(r"^([a-z0-9.-]+)==[^\s;]+ \\", LOCK, re.MULTILINE))
    assert len(everywhere) > 30
    assert everywhere <= names <= set(pinned()), "some are for other platforms only"


def test_without_a_network_one_line_says_so_and_the_check_passes() -> None:
    done = audited(f"http://127.0.0.1:{closed_port()}")
    assert (done.returncode, done.stdout) == (0, f"{UNREACHABLE}\n")


def pinned() -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9.-]+)==([^\s;]+)", LOCK, re.MULTILINE))


def test_the_bill_of_truezero_names_every_pinned_package_with_its_hashes(tmp_path: Path) -> None:
    from cyclonedx.model.bom import Bom  # here: half a second, for a test that most runs leave out

    done = make("sbom", f"SBOM={tmp_path}/sbom.cdx.json")
    assert done.returncode == 0, done.stderr
    bill: Bom = Bom.from_json(  # type: ignore[attr-defined]
        json.loads((tmp_path / "sbom.cdx.json").read_text())
    )
    assert bill.validate()
    assert bill.metadata.component is not None
    assert bill.metadata.component.name == "truezero"
    parts = {part.name: part for part in bill.components}
    assert {name: part.version for name, part in parts.items()} == pinned()
    assert str(parts["httpx"].purl) == f"pkg:pypi/httpx@{pinned()['httpx']}"
    digests = sum(len(ref.hashes) for part in parts.values() for ref in part.external_references)
    assert digests == LOCK.count("--hash=sha256:")


def test_the_image_s_last_stage_runs_nothing_in_a_shell_and_nothing_as_root() -> None:
    last = (ROOT / "Dockerfile").read_text().rpartition("\nFROM ")[2]
    steps = re.findall(r"^(ENTRYPOINT|CMD|\s+CMD) (.*)$", last, re.MULTILINE)
    assert len(steps) == 3
    assert all(json.loads(words) for _, words in steps)
    assert re.search(r"^USER (?!root|0)", last, re.MULTILINE)
    assert "apt-get" not in last
