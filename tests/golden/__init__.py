"""Golden files: the REST answers, command line, metrics, OpenAPI and tables that users rely on.

Each subject has two files: its structure, and the sentences in it, so that rewording a sentence
changes only the second. ``UPDATE_GOLDEN=1 pytest tests/test_golden.py`` rewrites them,
except ``printed.txt`` (give it ``tests/truezero/cli/test_printed.py``) and
``seed_0_1_0.jsonl``, the first release's verdicts (see ``test_seed_policy.py``).
"""

from __future__ import annotations

import json
import os
from difflib import unified_diff
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
_WIDTH = 150
UPDATING = os.environ.get("UPDATE_GOLDEN") == "1"


def check(name: str, found: object) -> None:
    """Compare with a golden file of JSON, or write it where goldens are updated.

    Raises:
        AssertionError: they differ, or there is no such file.
    """
    check_text(name, laid_out(found) + "\n")


def check_text(name: str, found: str) -> None:
    """The same for a golden file of text."""
    file = FOLDER / name
    if UPDATING:
        file.write_text(found, "utf-8")
    lines, golden = found.splitlines(), file.read_text("utf-8").splitlines()
    assert lines == golden, "\n".join((name, *unified_diff(golden, lines, lineterm="", n=0)))


def laid_out(value: Any, indent: str = "") -> str:
    """JSON with each object and list on one line where it fits, so that a change reads well."""
    line = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(line) <= _WIDTH or not isinstance(value, dict | list) or not value:
        return line
    inner = indent + " "
    if isinstance(value, dict):
        parts = [f"{json.dumps(name)}: {laid_out(part, inner)}" for name, part in value.items()]
    else:
        parts = [laid_out(part, inner) for part in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    body = ",\n".join(inner + part for part in parts)
    return f"{opening}\n{body}\n{indent}{closing}"
