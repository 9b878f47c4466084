"""MLflow: verdicts as feedback on a trace."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from truezero import models
from truezero.integrations.evaluations import Evaluation, evaluations, known


def feedback(verdict: models.Verdict) -> list[dict[str, Any]]:
    """Return arguments of `mlflow.log_feedback`, without trace, source and error as objects.

    ``error`` is a dict of `AssessmentError`'s arguments, or absent: an unhealthy rollout's reward
    is no value to average.
    """
    return [_feedback(each) for each in evaluations(verdict)]


def log(verdict: models.Verdict, *, trace_id: str) -> list[Any]:
    """Log a final verdict as feedback on a trace; return MLflow's assessments.

    Raises:
        ModuleNotFoundError: neither mlflow nor mlflow-skinny is installed.
        mlflow.exceptions.MlflowException: the trace is unknown, or its server unreachable.
    """
    mlflow, entities = import_module("mlflow"), import_module("mlflow.entities")
    source = entities.AssessmentSource(source_type="CODE", source_id="truezero")
    logged = []
    for each in feedback(verdict):
        error = each.pop("error", None)
        if error is not None:
            error = entities.AssessmentError(**error)
        logged.append(mlflow.log_feedback(trace_id=trace_id, source=source, error=error, **each))
    return logged


def _feedback(evaluation: Evaluation) -> dict[str, Any]:
    error = {"error_code": evaluation.error_type, "error_message": evaluation.explanation}
    metadata = {name: _text(value) for name, value in evaluation.metadata.items()}
    return known(
        name=evaluation.name,
        value=evaluation.label,
        rationale=evaluation.explanation,
        metadata=metadata | {"rollout": evaluation.rollout_id},
        error=None if evaluation.error_type is None else error,
    )


def _text(value: Any) -> str:
    """Return metadata as MLflow keeps it: text."""
    return ",".join(value) if isinstance(value, list) else str(value)
