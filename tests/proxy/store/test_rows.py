"""A row of a call is the record it was made from."""

from __future__ import annotations

from dataclasses import fields
from typing import cast

from sqlalchemy import RowMapping

from classifier.codec import encode_exchange
from classifier.records import Exchange, columns
from proxy.store.rows import lost_row, open_row
from proxy.store.tables import EXCHANGE_COLUMNS, OPEN_COLUMNS
from tests.proxy.store.records import BARE, FULL


def test_a_call_in_flight_that_is_lost_keeps_its_facts() -> None:
    row = dict(zip(OPEN_COLUMNS, open_row(BARE, "w"), strict=True))
    lost = lost_row(cast(RowMapping, row))
    assert (lost["id"], lost["ending"], lost["usage_source"]) == ("x2", "lost", "absent")
    assert "worker" not in lost


def test_what_an_exchange_declares_is_what_a_row_and_an_export_hold() -> None:
    declared = {column.name for column in columns()}
    assert declared == set(EXCHANGE_COLUMNS)
    assert declared == set(encode_exchange(FULL))
    assert {f.name for f in fields(Exchange)} - {"traceparent"} == {
        column.part or column.field for column in columns()
    }
