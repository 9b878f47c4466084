"""What signs a person in: the admin token always, a link once, and nothing else."""

from __future__ import annotations

from pathlib import Path

import httpx

from proxy.api.auth import Sessions
from proxy.app import Application
from proxy.settings import load
from proxy.store.database import Database
from tests.fakes.relaying import running


def signed_in(url: str, secret: str) -> bool:
    """Whether a browser that shows this is given a session that opens a page."""
    with httpx.Client(base_url=url, headers={"sec-fetch-site": "same-origin"}) as browser:
        answer = browser.post("/ui/sign-in", data={"token": secret})
        assert (answer.status_code == 303) is bool(browser.cookies)
        assert answer.status_code in (303, 403)
        return browser.get("/", headers={"accept": "text/html"}).status_code == 200


def test_a_link_opens_once_in_whichever_process_and_the_token_always(tmp_path: Path) -> None:
    environment = {
        "TRUEZERO_DATABASE_URL": str(tmp_path / "t.db"), "TRUEZERO_ADMIN_TOKEN": "t0ken",
    }  # fmt: skip
    database = Database(environment["TRUEZERO_DATABASE_URL"])
    database.prepare()
    now = 4_000_000_000.0
    ours = Sessions.of(database.deployment.secret("keyring"), b"t0ken")
    links = [ours.invite(now, each) for each in ("a", "b")]
    over = ours.invite(0.0, "c")
    foreign = Sessions.of(b"x" * 32, b"t0ken").invite(now, "d")
    database.close()
    one, two = (Application(load({}, environment), environment) for _ in range(2))
    with running(one) as here, running(two) as there:
        urls = [f"http://127.0.0.1:{port}" for port in (here, there)]
        assert [signed_in(url, links[0]) for url in (*urls, *urls)] == [True, False, False, False]
        assert [signed_in(url, links[1]) for url in reversed(urls)] == [True, False]
        assert not any(signed_in(urls[0], secret) for secret in (over, foreign, "", "t0ken."))
        assert all(signed_in(url, "t0ken") for url in (*urls, *urls))


def test_opening_the_link_uses_nothing_up(tmp_path: Path) -> None:
    """A preview or a prefetch asks for the page; only the form uses the link."""
    environment = {
        "TRUEZERO_DATABASE_URL": str(tmp_path / "t.db"), "TRUEZERO_ADMIN_TOKEN": "t0ken",
    }  # fmt: skip
    database = Database(environment["TRUEZERO_DATABASE_URL"])
    database.prepare()
    secret = Sessions.of(database.deployment.secret("keyring"), b"t0ken").invite(4e9, "a")
    database.close()
    with running(Application(load({}, environment), environment)) as port:
        url = f"http://127.0.0.1:{port}"
        page = httpx.get(f"{url}/ui/sign-in#{secret}")
        assert page.status_code == 200
        assert secret not in page.text
        assert httpx.get(f"{url}/ui/sign-in", params={"token": secret}).status_code == 200
        assert signed_in(url, secret)
