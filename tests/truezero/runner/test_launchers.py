"""Names of programs and packages, and where a launcher names what it starts."""

from __future__ import annotations

import pytest

from tests.tables import each
from truezero.runner.recognition import StartedAs, launched_program, launcher_of, name_of


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("codex", "codex"),
        ("/usr/bin/codex", "codex"),
        ("@openai/codex", "codex"),
        ("@openai/codex@0.169.0", "codex"),
        ("codex@latest", "codex"),
        ("bin/codex.js", "codex"),
        ("codex.cmd", "codex"),
        ("mini-swe-agent[full]>=2,<3", "mini-swe-agent"),
        ("a/node_modules/@openai/codex/dist/cli.mjs", "codex"),
        ("a/node_modules/@openai/codex/node_modules/left/pad.js", "left"),
        ("a/node_modules/.bin/codex", "codex"),
        ("a/node_modules/codex/README", "README"),
        ("codex.txt", "codex.txt"),
        ("codex hi", ""),
        ("", ""),
    ],
)
def test_a_program_is_named_without_where_it_lies(word: str, name: str) -> None:
    assert name_of(word) == name


@each(
    "words, found",
    [
        ("env -u A B=1 x", (4, StartedAs.PROGRAM)),
        ("timeout 5 x", (2, StartedAs.PROGRAM)),
        ("timeout 5", None),
        ("python3.11 -m x.y", (2, StartedAs.MODULE)),
        ("python -m", None),
        ("pypy3 x", (1, StartedAs.PROGRAM)),
        ("sh -ec x", (2, StartedAs.TEXT)),
        ("sh -s x", None),
        ("uv tool run x", (3, StartedAs.PROGRAM)),
        ("uv sync x", None),
        ("npx -- x", (2, StartedAs.PROGRAM)),
        ("npx --call=x", None),
    ],
)
def test_what_a_launcher_starts_is_found(words: str, found: tuple[int, StartedAs] | None) -> None:
    launcher = launcher_of(words.partition(" ")[0])
    assert launcher is not None
    assigned: dict[str, str] = {}
    assert launched_program(launcher, words.split(), 1, assigned) == found
    assert assigned == ({"B": "1"} if words.startswith("env") else {})


def test_a_program_that_starts_no_other_is_no_launcher() -> None:
    assert launcher_of("grep") is None
