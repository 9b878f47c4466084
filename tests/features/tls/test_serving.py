"""A service that speaks TLS, and one whose certificate cannot be used."""

from __future__ import annotations

import os
import pickle
import re
import ssl
from pathlib import Path
from typing import Any

import httpx
import pytest

from proxy.server.serve import serve
from proxy.serving import StartError, connections
from proxy.settings import load
from tests import forked
from tests.fakes import answers
from tests.fakes.certificates import Authority
from tests.fakes.provider import Provider
from tests.journeys.service import Service
from truezero import Client, ServiceError


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


def test_a_worker_is_given_the_names_of_the_files_and_reads_them_itself(tmp_path: Path) -> None:
    file = str(Authority(tmp_path).issue("127.0.0.1"))
    protocol = connections(load({"certfile": file, "keyfile": file}, {})).protocol()
    given = pickle.dumps(protocol)
    assert Path(file).read_bytes().splitlines()[1] not in given
    of_worker: Any = pickle.loads(given)
    assert isinstance(of_worker.keywords["certificate"].context(), ssl.SSLContext)
