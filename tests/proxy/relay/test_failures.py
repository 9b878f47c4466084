"""What a failed request means: an ending, and a refusal that names the exchange."""

from __future__ import annotations

import pytest

from classifier.records import Ending
from proxy.outbound import errors
from proxy.relay.context import failed, invalid_status


@pytest.mark.parametrize(
    ("error", "ending", "status", "code"),
    [
        (errors.ConnectTimeout, Ending.NEVER_CONNECTED, 502, "upstream_unreachable"),
        (errors.OwnFault, Ending.LOST, 503, "out_of_resources"),
        (errors.ReadTimeout, Ending.TIMED_OUT, 504, "upstream_timeout"),
        (errors.ReadError, Ending.CUT_UPSTREAM, 502, "upstream_disconnected"),
        (errors.LocalProtocolError, Ending.CUT_UPSTREAM, 502, "upstream_disconnected"),
    ],
)
def test_each_error_has_its_ending_and_its_refusal(
    error: type[errors.UpstreamError], ending: Ending, status: int, code: str
) -> None:
    found, refusal = failed(error("why"), "openai", "x1")
    assert (found, refusal.status, refusal.code) == (ending, status, code)
    assert "'openai': why" in refusal.detail
    assert refusal.headers == ((b"x-truezero-exchange", b"x1"),)


def test_a_strange_status_is_named() -> None:
    refusal = invalid_status(999, "x1")
    assert (refusal.status, refusal.headers) == (502, ((b"x-truezero-exchange", b"x1"),))
    assert "999" in refusal.detail
