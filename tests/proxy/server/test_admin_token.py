"""The token that the service makes: where it is kept, who may read it, and the link to sign in."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from proxy.server import serve
from proxy.settings import SettingsError, load
from proxy.store.database import Database

FILE = "TRUEZERO_ADMIN_TOKEN_FILE"


def sqlite(folder: Path, **more: str) -> dict[str, str]:
    return {"TRUEZERO_DATABASE_URL": str(folder / "t.db"), **more}


def test_it_is_made_once_beside_the_database_for_its_owner_only(tmp_path: Path) -> None:
    environment = sqlite(tmp_path)
    assert serve.find_admin_token(environment, make=True) is True
    path = tmp_path / "admin-token"
    assert environment[FILE] == str(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    token = path.read_text().strip()
    assert len(token) >= 43, "256 bits"
    assert load({}, environment).admin_token.get_secret_value() == token  # type: ignore[union-attr]
    again = sqlite(tmp_path)
    assert serve.find_admin_token(again, make=True) is False
    assert (again, path.read_text().strip()) == (environment, token)
    assert [each.name for each in tmp_path.iterdir()] == ["admin-token"], (
        "nothing is left beside it"
    )


def test_a_folder_that_has_one_need_not_be_writable(tmp_path: Path) -> None:
    serve.find_admin_token(sqlite(tmp_path), make=True)
    before = tmp_path.stat().st_mtime_ns
    assert serve.find_admin_token(sqlite(tmp_path), make=True) is False
    assert tmp_path.stat().st_mtime_ns == before, "nothing was tried in it"


def test_two_deployments_have_two_tokens(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        serve.find_admin_token(sqlite(tmp_path / name), make=True)
    one, two = ((tmp_path / name / "admin-token").read_text() for name in ("a", "b"))
    assert one != two


@pytest.mark.parametrize(
    ("url", "named", "where"),
    [
        (None, None, "here"),
        ("sqlite:////{home}/data/t.db", None, "data"),
        ("postgresql://truezero@db/truezero", None, "here"),
        ("postgresql://truezero@db/truezero", "{home}/shared/of-all", "shared/of-all"),
        ("mysql://nobody/knows", None, "here"),
    ],
)
def test_where_it_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str | None, named: str | None, where: str
) -> None:
    for name in ("here", "data", "shared"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    environment: dict[str, str] = {}
    if url is not None:
        environment["TRUEZERO_DATABASE_URL"] = url.format(home=str(tmp_path)[1:])
    if named is not None:
        environment[FILE] = named.format(home=tmp_path)
    assert serve.find_admin_token(environment, make=True)
    kept = tmp_path / where
    assert (kept if kept.is_file() else kept / "admin-token").is_file()
    assert Path(environment[FILE]).is_file()


def test_a_token_that_is_set_is_used_and_none_is_made(tmp_path: Path) -> None:
    environment = sqlite(tmp_path, TRUEZERO_ADMIN_TOKEN="mine")
    before = dict(environment)
    assert serve.find_admin_token(environment, make=True) is None
    assert environment == before
    assert list(tmp_path.iterdir()) == []


def test_without_make_a_file_is_found_and_none_is_made(tmp_path: Path) -> None:
    environment = sqlite(tmp_path)
    assert serve.find_admin_token(environment, make=False) is False
    assert FILE not in environment
    serve.find_admin_token(sqlite(tmp_path), make=True)
    assert serve.find_admin_token(environment, make=False) is False
    assert environment[FILE] == str(tmp_path / "admin-token")


def test_services_that_start_together_agree_on_one(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(
            pool.map(lambda _: serve.find_admin_token(sqlite(tmp_path), make=True), range(32))
        )
    assert made.count(True) == 1
    assert len(list(tmp_path.iterdir())) == 1


def test_what_root_makes_belongs_to_the_owner_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "fchown", lambda _, user, group: given.append((user, group)))
    serve.find_admin_token(sqlite(tmp_path), make=True)
    owner = tmp_path.stat()
    assert given == [(owner.st_uid, owner.st_gid)]


def test_a_folder_that_is_not_there_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        serve.find_admin_token(sqlite(tmp_path / "nowhere"), make=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "cannot read"), (b"", "is empty"), (b" \n", "is empty"), (b"\xff\xfe", "is not text")],
)
def test_a_named_file_that_holds_no_token_is_an_error(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingsError, match=f"admin_token_file: .*{said}"):
        load({}, {FILE: str(file)})


def test_a_token_goes_before_its_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("of-the-file\n")
    environment = {FILE: str(tmp_path / "token"), "TRUEZERO_ADMIN_TOKEN": "mine"}
    for found in ("mine", "of-the-file"):
        settings = load({}, environment)
        assert settings.admin_token is not None
        assert settings.admin_token.get_secret_value() == found
        environment.pop("TRUEZERO_ADMIN_TOKEN", None)


@pytest.mark.parametrize(
    ("settings", "origin"),
    [
        ({}, "http://127.0.0.1:8383"),
        ({"HOST": "0.0.0.0"}, "http://127.0.0.1:8383"),
        ({"HOST": "::1"}, "http://[::1]:8383"),
        (
            {"HOST": "0.0.0.0", "CONTROL_HOST": "10.0.0.7", "CONTROL_PORT": "1"},
            "http://10.0.0.7:8383",
        ),
        ({"PUBLIC_URL": "https://tz.example/"}, "https://tz.example"),
        (
            {"PUBLIC_URL": "https://a.example", "DASHBOARD_URL": "http://b.example"},
            "http://b.example",
        ),
    ],
)
def test_a_link_leads_to_the_control_plane_with_its_secret_behind_the_hash(
    tmp_path: Path, settings: dict[str, str], origin: str
) -> None:
    environment = sqlite(tmp_path, TRUEZERO_ADMIN_TOKEN="t0ken")
    environment |= {f"TRUEZERO_{name}": value for name, value in settings.items()}
    database = Database(environment["TRUEZERO_DATABASE_URL"])
    database.prepare()
    links = [serve.sign_in_link(database, load({}, environment), port=8383) for _ in range(2)]
    database.close()
    assert links[0] != links[1]
    for link in links:
        parts = urlsplit(link)
        assert (f"{parts.scheme}://{parts.netloc}", parts.path) == (origin, "/ui/sign-in")
        assert parts.query == ""
        assert parts.fragment.count(".") == 2
        assert "t0ken" not in link
