"""Starting the service: what cannot work is said in one sentence, before anything is served."""

from __future__ import annotations

import json
import re
import socket
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from proxy.server.serve import serve, upgrade
from proxy.serving import StartError
from proxy.settings import load
from proxy.store.migrations import HEAD
from tests.fakes import answers
from tests.fakes.provider import Provider
from tests.journeys.service import Service
from tests.proxy.store import records


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("mysql://localhost/x", "database_url: "),
        ("/dev/null/t.db", "cannot open the database '/dev/null/t.db' for writing: "),
    ],
)
def test_a_database_that_cannot_be_used_is_named(url: str, sentence: str) -> None:
    with pytest.raises(StartError) as caught:
        serve(load({"database_url": url, "port": 0}, {}))
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


def test_a_folder_that_is_not_writable_is_named_as_the_reason(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"its folder must be writable, or --database FILE"):
        serve(load({"database_url": str(tmp_path / "absent" / "t.db"), "port": 0}, {}))


@pytest.mark.slow
def test_an_upgrade_returns_the_versions_before_and_after(tmp_path: Path) -> None:
    settings = load({"database_url": str(tmp_path / "t.db")}, {})
    with closing(sqlite3.connect(tmp_path / "t.db")) as file:
        file.executescript(
            (Path(records.__file__).parent / "releases" / "0.2.0.sql").read_text("utf-8")
        )
    before, after = upgrade(settings)
    assert (before, after) == ("0023", HEAD)
    assert upgrade(settings) == (after, after)
    with closing(sqlite3.connect(tmp_path / "t.db")) as file:
        assert file.execute("SELECT version_num FROM alembic_version").fetchall() == [(after,)]


def test_an_upgrade_makes_no_database(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="no database at "):
        upgrade(load({"database_url": str(tmp_path / "t.db")}, {}))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("taken", ["port", "control_port"])
def test_a_service_that_cannot_listen_leaves_nothing_behind(tmp_path: Path, taken: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        free_port = free.getsockname()[1]
        free.close()
        ports = {"port": free_port, "control_port": 0, taken: listening.getsockname()[1]}
        settings = load({"database_url": str(tmp_path / "t.db"), **ports}, {})
        with pytest.raises(StartError) as caught:
            serve(settings)
    where = f"127.0.0.1:{ports[taken]}"
    said = f"cannot listen on {where}: Address already in use; --port 0 picks a free one"
    assert str(caught.value) == said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_start_warns_of_what_is_deprecated_and_of_a_database_that_everybody_can_open(
    tmp_path: Path,
) -> None:
    """A token of the operator's is kept meanwhile, and no link is printed."""
    settings = {"ADMIN_TOKEN": "mine", "RETRY_ON_API_ERROR": "false", "LOG_FORMAT": "json"}
    with (
        Provider(answers.healthy) as provider,
        Service(tmp_path, provider.url, flags=["--make-token"], **settings) as service,
    ):
        mine = {"authorization": "Bearer mine"}
        assert service.http.get("/rollouts", headers=mine).status_code == 200
        service.stop()
        events = [json.loads(line) for line in service.log().splitlines()]
        (warning,) = [each for each in events if "deprecated" in each["event"]]
        assert warning["level"] == "warning"
        assert "TRUEZERO_RETRY_ON_API_ERROR" in warning["event"]
        assert "holds secrets" not in service.log()
        file = service.database
        file.chmod(0o644)
        service.start()
        service.stop()
        assert f"{file.name} holds secrets, and every user of this machine can" in service.log()
        assert file.stat().st_mode & 0o777 == 0o644, "it may be somebody's wish"
        assert links(service) == []
        assert not (tmp_path / "admin-token").exists()


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
