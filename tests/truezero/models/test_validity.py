"""The models take what the classifier says."""

from __future__ import annotations

import dataclasses

from classifier import verdicts
from truezero import models


def test_the_models_have_the_nouns_fields() -> None:
    for name in ("ValidityFinding", "Coverage", "RoleVerdict"):
        noun, model = getattr(verdicts, name), getattr(models, name)
        assert [f.name for f in dataclasses.fields(noun)] == [*model.model_fields], name


def test_a_finding_names_a_known_level() -> None:
    for level in verdicts.Level:
        found = models.ValidityFinding(
            check="starved", level=level.value, calls=1, of=2, evidence=[], sentence="s"
        )
        assert found.level == level.value
