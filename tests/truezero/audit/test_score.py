"""A small sample of ``python -m tests.truezero.audit.score``, which takes 1,000 runs."""

from __future__ import annotations

from pathlib import Path

from tests.truezero.audit.harnesses import WRITERS
from tests.truezero.audit.scenarios import KINDS
from tests.truezero.audit.score import FormatScore, score


def test_each_format_is_judged_as_its_truth_and_silence_is_left_open(tmp_path: Path) -> None:
    wrong: dict[str, FormatScore] = {}
    for name in WRITERS:
        folder = tmp_path / name
        folder.mkdir()
        found = score(name, 2 * len(KINDS), folder)
        exact = found.precision == found.recall == found.scored == found.named == 1.0
        if found.wrong or not exact or found.reserved < found.unknown:
            wrong[name] = found
    assert wrong == {}
