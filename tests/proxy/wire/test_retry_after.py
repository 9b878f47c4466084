"""How long a provider asks to wait, header by header."""

from __future__ import annotations

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.provider_error import retry_after, stated_type
from tests.tables import each

NOW = 1_780_000_000.0


@each(
    "headers, wait",
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": formatdate(NOW + 90, usegmt=True)}, 90.0),
        ({"retry-after": formatdate(NOW - 90, usegmt=True)}, 0.0),
        ({"retry-after": "99999999"}, 366 * 86_400.0),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, 366 * 86_400.0),
        ({"retry-after-ms": "9" * 18}, 366 * 86_400.0),
        ({"x-ratelimit-reset-requests": "99999999h"}, 366 * 86_400.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"x-ratelimit-reset-requests": "6m0s"}, 360.0),
        ({"x-ratelimit-reset-tokens": "20ms"}, 0.02),
        ({"x-ratelimit-reset-tokens": "1h2m3.5s"}, 3723.5),
        ({"x-ratelimit-reset-requests": "12"}, 12.0),
        ({"x-ratelimit-reset": str(int(NOW) + 40)}, 40.0),
        ({"x-ratelimit-reset": str((int(NOW) + 40) * 1000)}, 40.0),
        ({"x-ratelimit-reset": str(int(NOW) - 40)}, 0.0),
        ({"ratelimit-reset": "30"}, 30.0),
        ({"x-ratelimit-reset-tokens-minute": "11.5"}, 11.5),
        ({"ratelimitbysize-reset": "13"}, 13.0),
        ({"anthropic-ratelimit-tokens-reset": "2026-05-28T20:27:00Z"}, 20.0),
        ({"anthropic-ratelimit-unified-reset": str(int(NOW) + 5)}, 5.0),
        ({"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "0"}, None),
    ],
)
def test_every_way_of_asking_to_wait_is_read(headers: dict[str, str], wait: float | None) -> None:
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    said = retry_after(pairs, now=NOW)
    assert said == (None if wait is None else pytest.approx(wait))


def test_only_a_window_that_is_used_up_counts() -> None:
    headers = [
        (b"x-ratelimit-remaining-requests", b"14000"),
        (b"x-ratelimit-reset-requests", b"23h59m"),
        (b"x-ratelimit-remaining-tokens", b"0"),
        (b"x-ratelimit-reset-tokens", b"4.5s"),
    ]
    assert retry_after(headers, now=NOW) == pytest.approx(4.5)
    assert retry_after(headers[:2], now=NOW) is None


def test_the_longest_of_several_used_up_windows_counts() -> None:
    headers = [
        (b"anthropic-ratelimit-requests-remaining", b"0"),
        (b"anthropic-ratelimit-requests-reset", b"2026-05-28T20:27:00Z"),
        (b"anthropic-ratelimit-tokens-remaining", b"0"),
        (b"anthropic-ratelimit-tokens-reset", b"2026-05-28T20:26:50Z"),
    ]
    assert retry_after(headers, now=NOW) == pytest.approx(20.0)


NAMES = st.sampled_from(
    [
        b"retry-after",
        b"retry-after-ms",
        b"x-ratelimit-reset",
        b"x-ratelimit-reset-tokens",
        b"x-ratelimit-remaining-tokens",
        b"anthropic-ratelimit-tokens-reset",
        b"x-amzn-errortype",
    ]
)


@given(
    st.lists(
        st.tuples(
            NAMES | st.binary(max_size=12),
            st.binary(max_size=24) | st.from_regex(rb"[0-9a-zA-Z:.,\- +TZ]{1,24}", fullmatch=True),
        )
    ),
    st.floats(0, 4e9),
)
def test_no_header_makes_it_raise_or_wait_less_than_nothing(
    headers: list[tuple[bytes, bytes]], now: float
) -> None:
    wait = retry_after(headers, now=now)
    assert wait is None or wait >= 0
    stated_type(headers)
