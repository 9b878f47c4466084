"""Lanes: written, read, and met."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifier import Subcategory
from classifier.fingerprints import Lane, cause_name, fingerprint, plain
from tests.builders import exchange
from tests.tables import each

NAMES = st.none() | st.from_regex(r"[a-z][a-z0-9.]{0,8}", fullmatch=True)


def test_a_lane_is_upstream_model_and_key() -> None:
    assert str(Lane.of(exchange())) == "openai/gpt-5/key-3f9a"
    assert str(Lane.of(exchange(key_digest="key-3f9a"))) == "openai/gpt-5/key-3f9a"
    assert str(Lane.of(exchange(key_digest=None, model=None))) == "openai/-/-"


@given(NAMES, st.none() | st.sampled_from(["gpt-5", "openai/gpt-5", "a/b/c"]), NAMES)
def test_a_written_lane_reads_back(
    upstream: str | None, model: str | None, key: str | None
) -> None:
    lane = Lane(upstream=upstream, model=model, key=key)
    assert Lane.read(str(lane)) == lane


@each("text", ["", "openai", "openai/gpt-5"])
def test_what_is_no_lane_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="lane"):
        Lane.read(text)


def test_what_a_lane_leaves_open_matches_anything() -> None:
    lane = Lane(upstream="openai", model="gpt-5", key="3f9a")
    assert lane.meets(Lane())
    assert lane.meets(Lane(model="openai/GPT-5"))
    assert not lane.meets(Lane(model="gpt-5-mini"))
    assert not lane.meets(Lane(key="0000"))


def test_names_are_versioned_and_hold_no_message() -> None:
    assert fingerprint(Subcategory.AUTH, 401) == "auth:401"
    assert fingerprint(Subcategory.PROVIDER_ERROR, None) == "provider_error:network"
    name = cause_name(Subcategory.QUOTA, "openai", 429, "insufficient_quota")
    assert name == "v1:quota:openai:429:insufficient_quota"


def test_a_plain_model_name_has_no_path_and_no_case() -> None:
    assert plain("models/Gemini-2.5-Pro") == "gemini-2.5-pro"
    assert plain(None) is None
