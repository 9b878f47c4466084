"""Verdicts as the service tells them, for tools that are told of them in turn."""

from __future__ import annotations

from dataclasses import replace

from classifier.codec import encode_verdict
from classifier.rules import judge
from classifier.verdicts import Level, ValidityFinding
from tests.builders import rollout
from truezero import models

FOUND = ValidityFinding(
    check="starved", level=Level.SUSPECT, calls=1, of=1, evidence=("x1",), sentence="it waited"
)


def told(calls: str, *found: ValidityFinding, final: bool = True) -> models.Verdict:
    """The verdict on these calls of r1, as the service's REST has it."""
    verdict = judge(replace(rollout(calls), batch="nightly"))
    stored = replace(verdict, judged_at=100.0, provisional=not final, validity=found)
    return models.Verdict.model_validate(encode_verdict(stored))
