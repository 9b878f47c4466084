"""The documentation at `/help`: served where it was built, and nothing beside it."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from proxy.web import manual

SCRIPT = '__md_scope=new URL(".",location)'
PAGE = f"<html><head><script>{SCRIPT}</script><script src='x.js'></script></head></html>"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    (folder / "guides").mkdir(parents=True)
    (folder / "index.html").write_text(PAGE)
    (folder / "guides" / "ci.html").write_text("<html>CI</html>")
    (folder / "x.js").write_text("1")
    (folder / "notes.db").write_text("not a page")
    (tmp_path / "secret.html").write_text("beside the site")
    return folder


def browser(site: Path) -> TestClient:
    app = FastAPI()
    app.routes.extend(manual.router(site).routes)
    return TestClient(app, follow_redirects=False)


def test_help_leads_to_the_first_page(site: Path) -> None:
    help_ = browser(site)
    assert help_.get("/help").headers["location"] == "/ui/help/index.html"
    for path in ("/ui/help/index.html", "/ui/help/"):
        page = help_.get(path)
        assert (page.status_code, page.text) == (200, PAGE)
    assert help_.get("/ui/help/guides/ci.html").headers["content-type"].startswith("text/html")
    assert help_.get("/ui/help/x.js").headers["content-type"].startswith("text/javascript")


def test_a_page_may_run_its_own_scripts_and_no_others(site: Path) -> None:
    policy = browser(site).get("/ui/help/index.html").headers["content-security-policy"]
    digest = b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    assert f"script-src 'self' 'sha256-{digest}';" in policy
    assert "default-src 'none'" in policy
    plain = browser(site).get("/ui/help/guides/ci.html").headers["content-security-policy"]
    assert "script-src 'self';" in plain


@pytest.mark.parametrize(
    "path",
    [
        "nowhere.html", "guides", "notes.db", "../secret.html", "..%2fsecret.html",
        "guides/../../secret.html", "%2e%2e/secret.html", "/etc/passwd",
    ],
)  # fmt: skip
def test_only_files_of_the_site_are_served(site: Path, path: str) -> None:
    answer = browser(site).get(f"/ui/help/{path}")
    assert answer.status_code == 404
    assert "beside the site" not in answer.text


def test_without_a_site_help_says_where_to_read(tmp_path: Path) -> None:
    help_ = browser(tmp_path / "absent")
    page = help_.get("/help")
    assert page.status_code == 200
    assert "docs/index.md" in page.text and "make site" in page.text
    assert help_.get("/ui/help/index.html").status_code == 404
