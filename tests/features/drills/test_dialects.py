"""Which dialect answers for an API, and that each can word every failure."""

from __future__ import annotations

from typing import get_args

import pytest

from proxy.features.drills.fault_scripts import (
    CHAT,
    INVALID_ANSWERS,
    SCRIPTS,
    SILENT,
    FaultedRequest,
    Reply,
    script_for,
)
from proxy.features.drills.faulty_origin import wants_usage
from truezero.models import FaultKind

# Played on the connection, complete answers, or what was recorded.
WITHOUT_ERROR = {"truncation", "empty", "hang", "reset", "replay", *INVALID_ANSWERS}


def test_an_unlisted_api_is_answered_as_chat() -> None:
    assert script_for("opaque") is CHAT
    assert script_for("anthropic.messages") is SCRIPTS["anthropic.messages"]


@pytest.mark.parametrize("api", SCRIPTS)
def test_every_dialect_words_every_error(api: str) -> None:
    errors = script_for(api).errors("some-model")
    assert set(errors) >= set(get_args(FaultKind)) - WITHOUT_ERROR
    assert "some-model" in str(errors["model_not_found"].body)


@pytest.mark.parametrize("api", SCRIPTS)
def test_a_whole_answer_holds_its_text(api: str) -> None:
    request = FaultedRequest(model="m", streamed=False)
    assert "spoken" in str(script_for(api).whole(request, Reply(words=("spo", "ken"))))
    assert "spoken" not in str(script_for(api).whole(request, SILENT))


def test_usage_is_asked_for_in_the_streams_options() -> None:
    assert wants_usage({"stream_options": {"include_usage": True}})
    assert not wants_usage({"stream_options": {"include_usage": "yes"}})
    assert not wants_usage({})
