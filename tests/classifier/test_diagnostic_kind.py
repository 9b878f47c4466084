"""The register of kinds."""

from __future__ import annotations

import pytest

from classifier.diagnostics import ApiErrorInfo, declare


def test_two_kinds_cannot_own_one_field() -> None:
    with pytest.raises(ValueError, match="api_error_info"):
        declare(type(ApiErrorInfo.__name__, (ApiErrorInfo,), {}))
