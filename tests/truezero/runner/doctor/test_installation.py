"""Which distribution provides the package `proxy`."""

from __future__ import annotations

import importlib.machinery
from pathlib import Path

import pytest

from tests.truezero.runner.doctor.looking import look
from truezero import Client
from truezero.runner import doctor


def test_another_project_that_owns_the_name_proxy(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "owners", lambda _package: ["proxy.py", "truezero"])
    found = look(client)["package"]
    assert found.health == "failed"
    assert "pip uninstall proxy.py" in found.told


def test_another_package_in_front_of_ours(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "proxy" / "__init__.py"
    spec = importlib.machinery.ModuleSpec("proxy", None, origin=str(other))
    monkeypatch.setattr("truezero.runner.doctor.util.find_spec", lambda _name: spec)
    found = look(client)["package"]
    assert found.health == "failed"
    assert str(other) in found.told


@pytest.mark.slow
def test_who_owns_a_package_is_read_from_what_is_installed() -> None:
    assert doctor.owners("pytest") == ["pytest"]
    assert doctor.owners("no_such_package") == []
