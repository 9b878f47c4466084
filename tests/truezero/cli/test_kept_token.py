"""Commands use the token that a service beside them keeps, and show it to no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.server import serve
from tests.fakes import answers
from tests.fakes.provider import Provider
from tests.journeys.service import Service
from tests.truezero.cli.test_cli import truezero
from truezero.cli.kept_token import kept_token

FILE = "TRUEZERO_ADMIN_TOKEN_FILE"


@pytest.mark.slow
def test_commands_find_the_token_of_the_service_beside_them(tmp_path: Path) -> None:
    place, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    place.mkdir()
    elsewhere.mkdir()
    file = place / "admin-token"
    settings = tmp_path / "settings.toml"
    settings.write_text(f'admin_token_file = "{file}"\n')
    with (
        Provider(answers.healthy) as provider,
        Service(place, provider.url, flags=["--make-token"]) as service,
    ):
        for given in (
            {"TRUEZERO_DATABASE_URL": str(place / "journeys.db")},
            {FILE: str(file)},
            {"TRUEZERO_CONFIG": str(settings)},
        ):
            said = truezero("batches", folder=elsewhere, TRUEZERO_URL=service.url, **given)
            assert said.returncode == 0, said.stderr
        refused = truezero("batches", folder=elsewhere, TRUEZERO_URL=service.url)
        assert refused.returncode == 1 and "token" in refused.stderr


def test_it_is_the_one_that_truezero_token_prints(tmp_path: Path) -> None:
    for url in (
        f"{tmp_path}/a.db", f"sqlite:///{tmp_path}/b.db", f"sqlite+pysqlite:///{tmp_path}/c.db?x=1",
    ):  # fmt: skip
        environment = {"TRUEZERO_DATABASE_URL": url}
        serve.find_admin_token(environment, make=True)
        kept = Path(environment[FILE])
        assert kept == tmp_path / "admin-token"
        del environment[FILE]
        assert kept_token(None, environment) == kept.read_text().strip()


@pytest.mark.parametrize(
    "url", ["https://truezero.example", "http://10.0.0.7:8383", "http://127.0.0.1.example", "ftp:"]
)
def test_no_service_elsewhere_is_shown_it(tmp_path: Path, url: str) -> None:
    (tmp_path / "admin-token").write_text("kept\n")
    environment = {"TRUEZERO_DATABASE_URL": f"{tmp_path}/t.db"}
    assert kept_token("http://localhost:8383", environment) == "kept"
    assert kept_token(url, environment) is None


def test_a_token_of_the_settings_goes_before_the_one_that_is_kept(tmp_path: Path) -> None:
    (tmp_path / "admin-token").write_text("kept\n")
    (tmp_path / "truezero.toml").write_text('admin_token = "of the file"\n')
    environment = {"TRUEZERO_DATABASE_URL": f"{tmp_path}/t.db"}
    assert kept_token(None, environment | {"TRUEZERO_CONFIG": f"{tmp_path}/truezero.toml"}) == (
        "of the file"
    )


@pytest.mark.slow
def test_a_token_that_is_typed_goes_before_all(tmp_path: Path) -> None:
    (tmp_path / "admin-token").write_text("kept\n")
    with (
        Provider(answers.healthy) as provider,
        Service(tmp_path, provider.url, ADMIN_TOKEN="mine") as service,
    ):
        typed = truezero("batches", "--url", service.url, "--token", "mine", folder=tmp_path)
        kept = truezero("batches", "--token", "", "--url", service.url, folder=tmp_path)
    assert (typed.returncode, kept.returncode) == (0, 1)


def test_a_file_that_cannot_be_read_leaves_the_word_to_the_service(tmp_path: Path) -> None:
    (tmp_path / "admin-token").write_bytes(b"\xff\xfe")
    assert kept_token(None, {"TRUEZERO_DATABASE_URL": f"{tmp_path}/t.db"}) is None
    assert kept_token(None, {FILE: str(tmp_path / "absent")}) is None
