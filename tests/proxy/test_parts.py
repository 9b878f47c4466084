"""Parts of a process: what one feature alone may add."""

from __future__ import annotations

import pytest

from proxy.feature import FeatureError
from proxy.parts import only


def test_what_one_feature_may_add_is_added_by_one_or_by_none() -> None:
    assert only([]) is None
    assert only([None, "one", None]) == "one"
    with pytest.raises(FeatureError, match="only one feature may add it: 'one', 'other'"):
        only(["one", None, "other"])
