"""Starting the service: what cannot work is said in one sentence, before anything is served."""

from __future__ import annotations

import json
import os
import re
import socket
import sqlite3
import ssl
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from proxy.server.serve import serve, upgrade
from proxy.serving import StartError
from proxy.settings import load
from tests import forked
from tests.fakes import answers
from tests.fakes.certificates import Authority
from tests.fakes.provider import Provider
from tests.journeys.service import Service
from truezero import Client, ServiceError


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = load({"database_url": str(tmp_path / "t.db"), "port": port}, {})
        with pytest.raises(StartError) as caught:
            serve(settings)
    said = f"cannot listen on 127.0.0.1:{port}: Address already in use; --port 0 picks a free one"
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("mysql://localhost/x", "database_url: "),
        ("/dev/null/t.db", "cannot open the database '/dev/null/t.db' for writing: "),
    ],
)
def test_a_database_that_cannot_be_used_is_named(url: str, sentence: str) -> None:
    with pytest.raises(StartError) as caught:
        upgrade(load({"database_url": url}, {}))
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


def test_a_folder_that_is_not_writable_is_named_as_the_reason(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"its folder must be writable, or --database FILE"):
        upgrade(load({"database_url": str(tmp_path / "absent" / "t.db")}, {}))


def test_an_upgrade_returns_the_versions_before_and_after(tmp_path: Path) -> None:
    settings = load({"database_url": str(tmp_path / "t.db")}, {})
    before, after = upgrade(settings)
    assert before is None
    assert upgrade(settings) == (after, after)
    with closing(sqlite3.connect(tmp_path / "t.db")) as file:
        assert file.execute("SELECT version_num FROM alembic_version").fetchall() == [(after,)]


def test_a_deprecated_setting_is_logged_once(tmp_path: Path) -> None:
    with (
        Provider(answers.healthy) as provider,
        Service(tmp_path, provider.url, RETRY_ON_API_ERROR="false", LOG_FORMAT="json") as service,
    ):
        service.stop()
        events = [json.loads(line) for line in service.log().splitlines()]
    (warning,) = [each for each in events if "deprecated" in each["event"]]
    assert warning["level"] == "warning"
    assert "TRUEZERO_RETRY_ON_API_ERROR" in warning["event"]


@pytest.mark.slow
def test_a_token_made_at_the_first_start_opens_the_service_and_its_link_opens_once(
    tmp_path: Path,
) -> None:
    own = {"sec-fetch-site": "same-origin"}
    with (
        Provider(answers.healthy) as provider,
        Service(tmp_path, provider.url, flags=["--make-token"], LOG_FORMAT="json") as service,
    ):
        token = (tmp_path / "admin-token").read_text().strip()
        assert service.http.get("/rollouts").status_code == 401
        bearer = {"authorization": f"Bearer {token}"}
        assert service.http.get("/rollouts", headers=bearer).status_code == 200
        (link,) = links(service)
        assert link.startswith(f"{service.url}/ui/sign-in#")
        secret = link.partition("#")[2]
        form = {"token": secret, "next": "/ui/rollouts"}
        answer = service.http.post("/ui/sign-in", data=form, headers=own)
        assert (answer.status_code, answer.headers["location"]) == (303, "/ui/rollouts")
        service.http.cookies.clear()
        service.stop()
        service.start()
        assert links(service) == [link], "the second start prints none"
        assert service.http.post("/ui/sign-in", data=form, headers=own).status_code == 403
        assert (tmp_path / "admin-token").read_text().strip() == token
        assert token not in service.log()
        assert service.log().count(secret) == 1


def links(service: Service) -> list[str]:
    """The sign-in links in a service's log."""
    return re.findall(r"http://[^\s\"]+/ui/sign-in#[^\s\"]+", service.log())


def test_a_token_of_the_operators_is_kept_and_no_link_is_printed(tmp_path: Path) -> None:
    with (
        Provider(answers.healthy) as provider,
        Service(tmp_path, provider.url, flags=["--make-token"], ADMIN_TOKEN="mine") as service,
    ):
        mine = {"authorization": "Bearer mine"}
        assert service.http.get("/rollouts", headers=mine).status_code == 200
        assert links(service) == []
        assert not (tmp_path / "admin-token").exists()


class Secure(Service):
    """A service that makes a token and speaks TLS, and a client that trusts it."""

    def __init__(self, home: Path, provider_url: str, *, file: str, trust: ssl.SSLContext) -> None:
        flags = ["--make-token", "--certfile", file, "--keyfile", file]
        super().__init__(home, provider_url, flags=flags, LOG_FORMAT="json")
        self.url = self.url.replace("http:", "https:")
        self.http = httpx.Client(base_url=self.url, timeout=60, verify=trust)


@pytest.mark.slow
def test_over_tls_every_address_it_gives_is_https_and_its_cookie_is_secure(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    file = str(authority.issue("127.0.0.1"))
    trust = ssl.create_default_context(cafile=str(authority.file))
    own = {"sec-fetch-site": "same-origin"}
    with (
        Provider(answers.healthy) as provider,
        Secure(tmp_path, provider.url, file=file, trust=trust) as service,
    ):
        assert f"truezero listening on {service.url} " in service.log()
        (link,) = re.findall(r"https://[^\s\"]+/ui/sign-in#[^\s\"]+", service.log())
        form = {"token": link.partition("#")[2], "next": "/ui/rollouts"}
        signed = service.http.post("/ui/sign-in", data=form, headers=own)
        assert signed.status_code == 303
        assert "; secure" in signed.headers["set-cookie"].lower()
        token = (tmp_path / "admin-token").read_text().strip()
        service.http.headers["authorization"] = f"Bearer {token}"
        base = service.register(id="r1")["base_urls"]["openai"]
        assert base.startswith(f"{service.url}/r/r1~")
        ask = {"model": "gpt-5", "messages": []}
        assert service.http.post(f"{base}/chat/completions", json=ask).status_code == 200
        assert service.verdict("r1")["total_requests"] == 1
        asked = forked.run(
            "verdict", "r1", cwd=tmp_path,
            env={**os.environ, "TRUEZERO_URL": service.url, "TRUEZERO_ADMIN_TOKEN": token,
                 "SSL_CERT_FILE": str(authority.file)},
        )  # fmt: skip
        assert asked.returncode == 0, asked.stderr
        with Client(service.url) as stranger, pytest.raises(ServiceError, match="not trusted here"):
            stranger.greet()
        assert file not in service.log()
        assert "PRIVATE KEY" not in service.log()


def test_a_certificate_that_cannot_be_used_is_named_before_anything_is_done(tmp_path: Path) -> None:
    given = {"certfile": str(tmp_path / "no.pem"), "keyfile": str(tmp_path / "no.pem")}
    settings = load({**given, "database_url": str(tmp_path / "t.db")}, {})
    with pytest.raises(StartError, match=r"^certfile: cannot read .*: No such file") as caught:
        serve(settings)
    assert caught.value.exit_code == 2
    assert not (tmp_path / "t.db").exists()
