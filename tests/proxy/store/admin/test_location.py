"""A database's place, as messages name it."""

from __future__ import annotations

import pytest

from proxy.store.admin.location import place
from proxy.store.errors import BadUrl


def test_a_place_is_printed_without_its_password() -> None:
    assert place("sqlite:///a/t.db") == place("a/t.db") == "a/t.db"
    assert place("postgresql://me:s3cret@h/d") == "postgresql+psycopg://me:***@h/d"
    with pytest.raises(BadUrl):
        place("mysql://h/d")
