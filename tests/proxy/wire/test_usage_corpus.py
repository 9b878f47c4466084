"""Scores the ear against labelled answers of real providers, where they are at hand.

The corpus is data beside the project, found at ../shared/corpus or TRUEZERO_CORPUS; run
with ``-s`` to see the score of each field and every miss.
"""

from __future__ import annotations

import base64
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from classifier.records import Ending, Exchange
from proxy.tap import Tap
from tests.proxy.wire.hearing import SALT, call

ROOT = Path(__file__).parents[3]
CORPUS = Path(os.environ.get("TRUEZERO_CORPUS", ROOT.parent / "shared" / "corpus")) / "usage.jsonl"
FIELDS = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_tokens",
          "reasoning_tokens", "total_tokens")  # fmt: skip
GOAL = 0.995

pytestmark = pytest.mark.skipif(not CORPUS.exists(), reason=f"no corpus at {CORPUS.parent}")


def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in CORPUS.read_text().splitlines()]


def hear(row: dict[str, Any], size: int) -> Exchange:
    headers = {key.lower(): str(value) for key, value in (row.get("headers") or {}).items()}
    if row["content_type"]:
        headers["content-type"] = row["content_type"]
    packed = row["body_encoding"] == "base64"
    body = base64.b64decode(row["body"]) if packed else row["body"].encode()
    tap = Tap(call(row["path"].partition("?")[0]), salt=SALT)
    tap.hear_head(200, [(k.encode(), v.encode()) for k, v in headers.items()], 100.5)
    for start in range(0, len(body), size):
        tap.feed(body[start : start + size], 101.0)
    return tap.finish(Ending.COMPLETE, 102.0)


def read(exchange: Exchange) -> dict[str, object]:
    counts = {field: getattr(exchange.usage, field) for field in FIELDS}
    return {"model": exchange.answered_model, **counts}


@pytest.mark.parametrize("size", [1 << 24, 1_000, 61])
def test_the_fields_of_usage_are_read_as_labelled(size: int) -> None:
    total: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    report = []
    for row in rows():
        exchange = hear(row, size)
        assert exchange.deaf is None, row["id"]
        for field, found in read(exchange).items():
            total[field] += 1
            if found != row["expected"][field]:
                missed[field] += 1
                report.append(f"{row['id']} {field}: {found}, not {row['expected'][field]}")
    report += [f"{field}: {count - missed[field]} of {count}" for field, count in total.items()]
    print("", *report, sep="\n  ")  # noqa: T201 - the score is what -s is asked for
    assert 1 - missed.total() / total.total() >= GOAL, "\n".join(report)


def test_no_healthy_answer_of_the_corpus_is_called_broken() -> None:
    """What fails here holds an error in its body; none is cut, empty or misread."""
    reasons = {row["id"]: hear(row, 1_000).cause for row in rows()}
    assert [i for i, cause in reasons.items() if cause and cause.rule.startswith("flaw.")] == []
