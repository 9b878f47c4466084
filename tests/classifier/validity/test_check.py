"""Declarations of checks."""

from __future__ import annotations

from classifier.validity import CHECKS
from classifier.validity.measurement import ValidityCheck


def test_a_declaration_is_one_of_the_list_under_a_name_of_its_own() -> None:
    assert all(isinstance(check, ValidityCheck) for check in CHECKS)
    assert len({check.name for check in CHECKS}) == len(CHECKS)
