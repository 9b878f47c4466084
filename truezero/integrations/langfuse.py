"""Langfuse: verdicts as categorical scores of sessions; a rollout is the session of its spans."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import httpx

from truezero import models
from truezero.integrations.evaluations import Evaluation, evaluations, known

_PATH = "/api/public/scores"
_TIMEOUT_S = 30.0


def scores(verdict: models.Verdict) -> list[dict[str, Any]]:
    """Return scores, of which `POST /api/public/scores` takes a list.

    The same id and time replace an earlier score (`CreateScoreRequest` of langfuse).
    """
    return [_score(each) for each in evaluations(verdict)]


def post(
    verdicts: Iterable[models.Verdict], *, url: str, public_key: str, secret_key: str
) -> list[dict[str, Any]]:
    """Score the sessions of final verdicts at a Langfuse; return what was sent.

    Arguments:
        url: `LANGFUSE_BASE_URL`; the keys are `LANGFUSE_PUBLIC_KEY` and `LANGFUSE_SECRET_KEY`.

    Raises:
        httpx.HTTPError: it is unreachable, or refuses.
    """
    sent = [each for verdict in verdicts for each in scores(verdict)]
    if sent:
        httpx.post(
            url.rstrip("/") + _PATH, json=sent, auth=(public_key, secret_key), timeout=_TIMEOUT_S
        ).raise_for_status()
    return sent


def _score(evaluation: Evaluation) -> dict[str, Any]:
    at = evaluation.judged_at
    return known(
        id=f"{evaluation.rollout_id}:{evaluation.name}",
        sessionId=evaluation.rollout_id,
        name=evaluation.name,
        value=evaluation.label,
        dataType="CATEGORICAL",
        comment=evaluation.explanation,
        timestamp=None if at is None else datetime.fromtimestamp(at, UTC).isoformat(),
        metadata=dict(evaluation.metadata),
    )
