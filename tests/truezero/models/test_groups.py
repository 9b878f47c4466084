"""The model of a group is the classifier's own, field by field."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import get_args

from classifier import groups
from tests.classifier.test_groups import member
from truezero.models.batches import AdvantageMethod, Group


def test_a_group_reads_back_as_it_was_computed() -> None:
    assert list(Group.model_fields) == [field.name for field in fields(groups.Group)]
    assert set(get_args(AdvantageMethod)) == {method.value for method in groups.Method}
    computed = groups.group("t", [member(0, 1.0), member(1, 0.0, "401*3"), member(2, 0.0)])
    read = Group.model_validate(asdict(computed))
    assert (read.valid, read.rewards) == ([True, False, True], [1.0, None, 0.0])
