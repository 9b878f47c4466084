"""The files that a release is known by agree: version, date, support, stability, whom to tell."""

from __future__ import annotations

import re
import tomllib

import yaml

from tests.house import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text("utf-8")
SECURITY = (ROOT / "SECURITY.md").read_text("utf-8")


def test_the_citation_is_of_the_newest_release() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    released = re.search(r"^## (\d\S+) - (\S+)$", CHANGELOG, re.MULTILINE)
    assert released is not None
    assert (cited["version"], cited["date-released"]) == released.groups()
    # What https://github.com/citation-file-format requires, and what the package says of itself.
    assert cited["cff-version"] == "1.2.0" and cited["message"]
    assert cited["authors"] == [{"name": "truezero contributors"}]
    assert {name: cited[name] for name in ("title", "abstract", "license", "keywords")} == {
        "title": PROJECT["name"], "abstract": PROJECT["description"],
        "license": PROJECT["license"], "keywords": PROJECT["keywords"],
    }  # fmt: skip


def test_the_newest_minor_release_gets_fixes() -> None:
    supported = re.findall(r"^\| (\S+) \| yes \|$", SECURITY, re.MULTILINE)
    assert supported == [PROJECT["version"].rpartition(".")[0]]


def test_what_is_stable_is_not_classified_as_alpha() -> None:
    assert "stable from 0.1 on" in CHANGELOG
    (status,) = (each for each in PROJECT["classifiers"] if each.startswith("Development Status"))
    assert int(re.sub(r"\D+(\d).*", r"\1", status)) >= 4, status


def test_reports_go_by_the_hosting_site_and_to_no_address() -> None:
    conduct = (ROOT / "CODE_OF_CONDUCT.md").read_text("utf-8")
    for text in (SECURITY, conduct):
        assert "on the site that hosts this repository" in " ".join(text.split())
        assert not re.search(r"\S+@\S+\.\w+|mailto:", text)
        assert re.search(r"within\s7\s+days", text)
