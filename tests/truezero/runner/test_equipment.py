"""The files that are read before a command starts."""

from __future__ import annotations

from pathlib import Path

from truezero.runner.equipment import _settings


def test_settings_are_read_and_no_more_of_them_than_is_plausible(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text("{}")
    assert _settings(tmp_path / "settings.json") == "{}"
    assert _settings(tmp_path) is None
    assert _settings(tmp_path / "gone") is None
