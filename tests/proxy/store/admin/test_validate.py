"""Records are checked field by field before they become rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proxy.control.rollouts import nameable
from proxy.routing.errors import Refusal
from proxy.store.admin import archive, rows
from proxy.store.admin.rows import RECORD_TYPES, ArchiveError
from tests.proxy.store.admin.archives import changed, exported, imported, records_of


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda r: r.update(status="429"), "line 3: status: '429' has the wrong type"),
        (lambda r: r.update(injected=1), "line 3: injected: 1 has the wrong type"),
        (lambda r: r.update(upstream=None), "line 3: upstream: None has the wrong type"),
        (lambda r: r.update(shoe=1), "line 3: shoe: not a field of exchange"),
        (lambda r: r.pop("kind"), "line 3: kind: missing"),
        (lambda r: r.update(ending="never"), "line 3: 'never' is not a known value"),
        (lambda r: r.update(type="shoe"), "line 3: type: 'shoe' is not one of rollout"),
        (lambda r: r.update(started_at=1e15),
         "line 3: started_at: 1000000000000000.0 is not a valid time"),
        (lambda r: r.update(rollout_id="a\n"),
         "line 3: rollout_id: a rollout id must not contain control characters"),
        (lambda r: r.update(rollout_id="a" * 201),
         "line 3: rollout_id: a rollout id has at most 200 characters"),
    ],
)  # fmt: skip
def test_a_record_that_is_none_of_ours_is_named(
    full: str, tmp_path: Path, spoil: Callable[[dict[str, Any]], object], said: str
) -> None:
    with pytest.raises((ArchiveError, rows.RecordError)) as refusal:
        imported(str(tmp_path / "other.db"), changed(exported(full), spoil))
    assert said in str(refusal.value)


@pytest.mark.parametrize(
    ("column", "value"), [("metadata", "{"), ("outcome", "[]"), ("fault", "not JSON")]
)
def test_text_that_should_be_json_is_looked_at(full: str, column: str, value: str) -> None:
    record = records_of(exported(full), "rollout")[0]
    del record["type"]
    with pytest.raises(rows.RecordError, match=f"{column}: not a JSON object"):
        archive.row_of("rollout", {**record, column: value})


def test_a_field_that_a_later_schema_adds_may_be_missing(full: str) -> None:
    record = records_of(exported(full), "rollout")[1]
    del record["type"]
    whole = archive.row_of("rollout", record)
    for name in ("gaps", "registered", "usage_channel", "outcome"):
        at = RECORD_TYPES["rollout"].columns.index(name)
        less = {key: value for key, value in record.items() if key != name}
        default = archive.row_of("rollout", less)[at]
        assert (default, type(default)) in [
            (0, int),
            (False, bool),
            ("proxy", str),
            (None, type(None)),
        ]
        assert archive.row_of("rollout", less)[:at] == whole[:at]


@pytest.mark.parametrize("name", ["", "a\0", "a\u2028", "a" * 201, "unattributed", "_reference"])
def test_an_id_that_registration_refuses_is_refused(full: str, name: str) -> None:
    with pytest.raises(Refusal):
        nameable(name)
    for kind, field in (("rollout", "id"), ("verdict", "rollout_id")):
        record = records_of(exported(full), kind)[0]
        del record["type"]
        with pytest.raises(rows.RecordError, match=f"^{field}: "):
            archive.row_of(kind, {**record, field: name})


def test_a_verdict_belongs_to_a_rollout(full: str, tmp_path: Path) -> None:
    record = records_of(exported(full), "verdict")[0]
    del record["type"]
    lone = [("verdict", archive.row_of("verdict", {**record, "rollout_id": "!"}))]
    with pytest.raises(rows.RecordError, match="'!': no rollout record"):
        archive.import_records(str(tmp_path / "other.db"), lone)


@pytest.mark.parametrize(
    ("kind", "field"),
    [("rollout", "created_at"), ("rollout", "outcome_at"), ("exchange", "started_at"),
     ("verdict", "given_at"), ("verdict", "began_at")],
)  # fmt: skip
@pytest.mark.parametrize("at", [-1.0, 1e12, 1e300])
def test_a_time_that_no_page_could_show_is_refused(
    full: str, kind: str, field: str, at: float
) -> None:
    record = records_of(exported(full), kind)[0]
    del record["type"]
    with pytest.raises(rows.RecordError, match=f"{field}: .* is not a valid time"):
        archive.row_of(kind, {**record, field: at})
