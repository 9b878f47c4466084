"""Arize Phoenix: verdicts as annotations of sessions; a rollout is the session of its spans."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import httpx

from truezero import models
from truezero.integrations.evaluations import Evaluation, evaluations, known

_PATH = "/v1/session_annotations"
_TIMEOUT_S = 30.0


def session_annotations(verdict: models.Verdict) -> list[dict[str, Any]]:
    """Return OpenInference annotations, `SessionAnnotationData` of phoenix.client.

    One of the same session, name and identifier replaces an earlier one.
    """
    return [_annotation(each) for each in evaluations(verdict)]


def post(
    verdicts: Iterable[models.Verdict], *, url: str, api_key: str | None = None
) -> list[dict[str, Any]]:
    """Annotate the sessions of final verdicts at a Phoenix; return what was sent.

    Arguments:
        url: of the Phoenix, as in `PHOENIX_COLLECTOR_ENDPOINT`: `http://127.0.0.1:6006`.
        api_key: `PHOENIX_API_KEY`, where it asks for one.

    Raises:
        httpx.HTTPError: it is unreachable, or refuses: 404 where it does not know a session.
    """
    data = [each for verdict in verdicts for each in session_annotations(verdict)]
    if data:
        headers = {} if api_key is None else {"authorization": f"Bearer {api_key}"}
        httpx.post(
            url.rstrip("/") + _PATH, params={"sync": "true"}, json={"data": data},
            headers=headers, timeout=_TIMEOUT_S,
        ).raise_for_status()  # fmt: skip
    return data


def _annotation(evaluation: Evaluation) -> dict[str, Any]:
    result = known(
        label=evaluation.label, score=evaluation.score, explanation=evaluation.explanation
    )
    return {
        "session_id": evaluation.rollout_id,
        "name": evaluation.name,
        "annotator_kind": "CODE",
        "identifier": "truezero",
        "result": result,
        "metadata": dict(evaluation.metadata),
    }
