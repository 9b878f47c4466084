"""Models of reports: the names that a judgement has, and none beside them."""

from __future__ import annotations

from typing import get_args

import pytest
from pydantic import ValidationError

from classifier.groups import ChangeKind
from classifier.reruns import Rerun
from truezero import models

NOTHING = {"count": 0, "groups": []}
EMPTY: dict[str, object] = {
    "batch": "b",
    "running": 0,
    **dict.fromkeys(models.RERUN_NAMES, NOTHING),
}


def test_their_names_are_those_of_the_judgement() -> None:
    assert list(get_args(models.Change)) == [change.value for change in ChangeKind]
    assert list(models.RERUN_NAMES) == [kind.value for kind in Rerun]


def test_a_list_is_found_by_its_name() -> None:
    group = {"cause": "auth:401", "fix": "replace the key", "count": 0, "items": []}
    found = models.Reruns.model_validate({**EMPTY, "fix_first": {"count": 0, "groups": [group]}})
    assert [each.cause for each in found.kind("fix_first").groups] == ["auth:401"]
    assert found.kind("transient").groups == []


def test_no_list_may_be_missing() -> None:
    for name in models.RERUN_NAMES:
        with pytest.raises(ValidationError, match=name):
            models.Reruns.model_validate({key: EMPTY[key] for key in EMPTY if key != name})
