"""Scores the cause table against labelled real answers: ``python -m tests.corpus_score``.

It holds none of their text: the corpus lies beside the project, or where TRUEZERO_CORPUS says.
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from classifier.causes import status_only
from classifier.records import Cause, Ending, Exchange
from proxy.tap import Call, Tap

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
    """A labelled answer beside what the tap and the table made of it."""

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


def main() -> int:
    """Print the score; exit code 1 below 98 %, 2 without a corpus."""
    folder = corpus_folder()
    if folder is None:
        sys.stderr.write("no corpus: set TRUEZERO_CORPUS to the folder of errors.jsonl\n")
        return 2
    result = score(labelled(folder))
    sys.stdout.write(_report(result))
    return 0 if min(result.category, result.transient) >= 98 else 1


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
    """What a tap makes of the answer: the way every relayed answer goes."""
    method = "GET" if row.api == "models.list" else "POST"
    call = Call(
        id=row.id,
        rollout_id="corpus",
        upstream=row.provider,
        method=method,
        path=path_of(row).encode(),
        started_at=0.0,
        began=0.0,
    )
    tap = Tap(call, salt=b"corpus")
    tap.hear_request(b'{"model": "m", "stream": true}')
    tap.hear_head(row.status, row.headers, 0.1)
    tap.feed(row.body, 0.2)
    return tap.finish(Ending.COMPLETE, 0.3)


if __name__ == "__main__":
    raise SystemExit(main())
