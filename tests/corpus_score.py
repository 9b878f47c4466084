"""Scores causes and usages against labelled real answers: ``python -m tests.corpus_score``.

It holds none of their text: the corpus lies beside the project, or where TRUEZERO_CORPUS says.
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from classifier.causes import status_only
from classifier.records import Cause, Ending, Exchange
from proxy.capture.call import Call
from proxy.capture.observer import CallObserver

_PATHS = {
    "any": "/v1/chat/completions",
    "openai.chat": "/v1/chat/completions",
    "openai.completions": "/v1/completions",
    "openai.responses": "/v1/responses",
    "openai.embeddings": "/v1/embeddings",
    "openai.images": "/v1/images/generations",
    "anthropic.messages": "/v1/messages",
    "anthropic.count_tokens": "/v1/messages/count_tokens",
    "anthropic.batches": "/v1/messages/batches/b/results",
    "gemini.generateContent": "/v1beta/models/m:generateContent",
    "gemini.streamGenerateContent": "/v1beta/models/m:streamGenerateContent",
    "gemini.batchEmbedContents": "/v1beta/models/m:batchEmbedContents",
    "bedrock.converse": "/model/m/converse",
    "bedrock.invoke": "/model/m/invoke",
    "bedrock.count-tokens": "/model/m/count-tokens",
    "cloudflare.run": "/client/v4/accounts/a/ai/run/m",
    "cohere.chat": "/v2/chat",
    "cohere.embed": "/v2/embed",
    "ollama.chat": "/api/chat",
    "rerank": "/v1/rerank",
    "models.list": "/v1/models",
}
_FRAMING = re.compile(r"content-encoding|transfer-encoding|content-length", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """One real answer and what it means."""

    id: str
    provider: str
    api: str
    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    category: str
    transient: bool
    doubt: bool  # its note names a defensible second answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A labelled answer beside what the observer and the table made of it."""

    row: Labelled
    cause: Cause | None

    @property
    def category(self) -> str | None:
        return self.cause.subcategory.value if self.cause else None

    @property
    def category_right(self) -> bool:
        return self.category == self.row.category

    @property
    def transient_right(self) -> bool:
        return self.cause is not None and self.cause.transient == self.row.transient


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Shares of right answers, in percent; a row in doubt counts as right either way."""

    judged: tuple[Judged, ...]

    @property
    def category(self) -> float:
        return _percent(j.category_right or j.row.doubt for j in self.judged)

    @property
    def transient(self) -> float:
        return _percent(j.transient_right or j.row.doubt for j in self.judged)

    @property
    def strict_category(self) -> float:
        return _percent(j.category_right for j in self.judged)

    @property
    def by_status_alone(self) -> float:
        return _percent(status_only(j.row.status) == j.row.category for j in self.judged)

    @property
    def misses(self) -> tuple[str, ...]:
        wrong = (j for j in self.judged if not (j.category_right and j.transient_right))
        return tuple(_line(j) for j in wrong)


USAGE_FIELDS = (
    "input_tokens", "output_tokens", "cached_input_tokens", "cache_write_tokens",
    "reasoning_tokens", "total_tokens",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Usages:
    """How many usage fields (and model names) were read as labelled, field by field."""

    total: Counter[str]
    missed: Counter[str]
    misses: tuple[str, ...]

    @property
    def share(self) -> float:
        return 100 * (1 - self.missed.total() / self.total.total())


def corpus_folder() -> Path | None:
    """Where the corpus lies, or None where there is none."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "corpus"
    folder = Path(os.environ.get("TRUEZERO_CORPUS") or beside)
    return folder if (folder / "errors.jsonl").is_file() else None


def labelled(folder: Path) -> list[Labelled]:
    text = (folder / "errors.jsonl").read_text(encoding="utf-8")
    return [_labelled(json.loads(line)) for line in text.splitlines() if line.strip()]


def path_of(row: Labelled) -> str:
    """The path such an answer comes from."""
    return _PATHS[row.api]


def score(rows: Iterable[Labelled]) -> Score:
    return Score(judged=tuple(Judged(row=row, cause=_heard(row).cause) for row in rows))


def usage_rows(folder: Path) -> list[dict[str, Any]]:
    text = (folder / "usage.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def usage_headers(row: Mapping[str, Any]) -> list[tuple[bytes, bytes]]:
    """The headers of a healthy answer; Bedrock counts some tokens there."""
    headers = {**(row.get("headers") or {}), "content-type": row["content_type"]}
    return [(n.lower().encode(), str(v).encode()) for n, v in headers.items() if v]


def heard_usage(row: Mapping[str, Any], size: int = 1 << 24) -> Exchange:
    """What a observer makes of a healthy answer, fed in pieces of so many bytes."""
    packed = row["body_encoding"] == "base64"
    body = base64.b64decode(row["body"]) if packed else row["body"].encode()
    observer = _observer(row["id"], row["provider"], row["path"].partition("?")[0].encode())
    observer.on_response_head(200, usage_headers(row), 0.1)
    for start in range(0, len(body), size):
        observer.on_response_body(body[start : start + size], 0.2)
    return observer.finish(Ending.COMPLETE, 0.3)


def score_usage(rows: Iterable[Mapping[str, Any]], size: int = 1 << 24) -> Usages:
    total: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    misses = []
    for row in rows:
        exchange = heard_usage(row, size)
        found = {field: getattr(exchange.usage, field) for field in USAGE_FIELDS}
        for field, value in {"model": exchange.answered_model, **found}.items():
            total[field] += 1
            if value != row["expected"][field]:
                missed[field] += 1
                misses.append(f"MISS  {row['id']} {field}: {row['expected'][field]}, got {value}")
    return Usages(total=total, missed=missed, misses=tuple(misses))


def main() -> int:
    """Print the scores; exit code 1 below 98 % (usage 99.5 %), 2 without a corpus."""
    folder = corpus_folder()
    if folder is None:
        sys.stderr.write("no corpus: set TRUEZERO_CORPUS to the folder of errors.jsonl\n")
        return 2
    result, usages = score(labelled(folder)), score_usage(usage_rows(folder))
    sys.stdout.write(_report(result) + _usage_report(usages))
    reached = min(result.category, result.transient) >= 98 and usages.share >= 99.5
    return 0 if reached else 1


def _report(result: Score) -> str:
    return "\n".join(
        (
            f"errors     {len(result.judged)}",
            f"category   {result.category:.1f} %",
            f"  without doubts  {result.strict_category:.1f} %",
            f"  by status alone {result.by_status_alone:.1f} %",
            f"transient  {result.transient:.1f} %",
            *result.misses,
            "",
        )
    )


def _usage_report(usages: Usages) -> str:
    fields = (
        f"  {name:<20} {count - usages.missed[name]} of {count}"
        for name, count in usages.total.items()
    )
    lines = (f"usage fields {usages.share:.2f} %", *fields, *usages.misses, "")
    return "\n".join(lines)


def _line(judged: Judged) -> str:
    row, cause = judged.row, judged.cause
    mark = "doubt" if row.doubt else "MISS "
    got = f"{cause.subcategory}/{cause.transient} by {cause.rule}" if cause else "no failure"
    return f"{mark} {row.id}: {row.category}/{row.transient}, got {got}"


def _percent(rights: Iterable[bool]) -> float:
    found = list(rights)
    return 100 * sum(found) / len(found) if found else 0.0


def _labelled(line: dict[str, object]) -> Labelled:
    body, headers, status = str(line["body"]), line["headers"], line["status"]
    assert isinstance(headers, dict)
    assert isinstance(status, int)
    encoded = line.get("body_encoding") == "base64"
    return Labelled(
        id=str(line["id"]),
        provider=str(line["provider"]),
        api=str(line["api"]),
        status=status,
        headers=tuple(
            (name.lower().encode(), str(value).encode("utf-8"))
            for name, value in headers.items()
            if not _FRAMING.fullmatch(name)
        ),
        body=base64.b64decode(body) if encoded else body.encode("utf-8"),
        category=str(line["category"]),
        transient=bool(line["transient"]),
        doubt="DOUBT" in str(line.get("note", "")),
    )


def _heard(row: Labelled) -> Exchange:
    """What a observer makes of the answer: the way every relayed answer goes."""
    method = "GET" if row.api == "models.list" else "POST"
    observer = _observer(row.id, row.provider, path_of(row).encode(), method)
    observer.on_request_body(b'{"model": "m", "stream": true}')
    observer.on_response_head(row.status, row.headers, 0.1)
    observer.on_response_body(row.body, 0.2)
    return observer.finish(Ending.COMPLETE, 0.3)


def _observer(name: str, upstream: str, path: bytes, method: str = "POST") -> CallObserver:
    call = Call(
        id=name,
        rollout_id="corpus",
        upstream=upstream,
        method=method,
        path=path,
        started_at=0.0,
        began=0.0,
    )
    return CallObserver(call, salt=b"corpus")


if __name__ == "__main__":
    raise SystemExit(main())
