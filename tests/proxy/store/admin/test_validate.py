"""Records are checked field by field before they become rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proxy.store.admin import nouns, validate
from proxy.store.admin.manifest import ArchiveError
from proxy.store.admin.nouns import NOUNS
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
        (lambda r: r.update(rollout_id="!"), "'!': no rollout record"),
    ],
)  # fmt: skip
def test_a_record_that_is_none_of_ours_is_named(
    full: str, tmp_path: Path, spoil: Callable[[dict[str, Any]], object], said: str
) -> None:
    with pytest.raises((ArchiveError, nouns.RecordError)) as refusal:
        imported(str(tmp_path / "other.db"), changed(exported(full), spoil))
    assert said in str(refusal.value)


@pytest.mark.parametrize(
    ("column", "value"), [("metadata", "{"), ("outcome", "[]"), ("fault", "not JSON")]
)
def test_text_that_should_be_json_is_looked_at(full: str, column: str, value: str) -> None:
    record = records_of(exported(full), "rollout")[0]
    del record["type"]
    with pytest.raises(nouns.RecordError, match=f"{column}: not a JSON object"):
        validate.row_of("rollout", {**record, column: value})


def test_a_field_that_a_later_schema_adds_may_be_missing(full: str) -> None:
    record = records_of(exported(full), "rollout")[1]
    del record["type"]
    whole = validate.row_of("rollout", record)
    for name in ("gaps", "registered", "usage_channel", "outcome"):
        at = NOUNS["rollout"].columns.index(name)
        less = {key: value for key, value in record.items() if key != name}
        default = validate.row_of("rollout", less)[at]
        assert (default, type(default)) in [
            (0, int),
            (False, bool),
            ("proxy", str),
            (None, type(None)),
        ]
        assert validate.row_of("rollout", less)[:at] == whole[:at]
