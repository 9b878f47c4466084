"""The operator's rows as settings: read in their order; an invalid one is told in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from proxy.features.operator_causes.settings import CauseSettings
from proxy.settings import SettingsError, load

ROW = "[[causes]]\nname = 'broke'\nstatus = 418\nupstream = 'my_llm'\ncause = 'quota'\n"


def settings(folder: Path, toml: str, environment: Mapping[str, str]) -> CauseSettings:
    file = folder / "truezero.toml"
    file.write_text(toml, encoding="utf-8")
    found = load({}, {f"TRUEZERO_{name}": value for name, value in environment.items()}, file)
    assert isinstance(found, CauseSettings)
    return found


def test_the_operators_rows_on_errors_are_read_and_checked(tmp_path: Path) -> None:
    assert settings(tmp_path, "", {}).cause_rows == ()
    got = settings(tmp_path, ROW, {"UPSTREAM_MY_LLM": "https://x.example"})
    assert [each.id for each in got.cause_rows] == ["operator:broke"]
    cases: tuple[tuple[str, dict[str, str], str], ...] = (
        (ROW, {}, "causes: row 1: upstream: 'my-llm' is not known"),
        ("causes = 'quota'", {}, "causes: must be tables of truezero.toml: [[causes]]"),
        (ROW + "[[causes]]\ncause = 'quota'", {}, "causes: row 2: one of status, code, type"),
        (ROW + "statsu = 1", {}, "causes: row 1: unknown key 'statsu' (known: name, upstream"),
        ("", {"CAUSES": "quota"}, "TRUEZERO_CAUSES: must be tables of truezero.toml"),
    )
    for toml, environment, said in cases:
        with pytest.raises(SettingsError) as raised:
            settings(tmp_path, toml, environment)
        assert said in str(raised.value)
