"""Limits that answers state, by dialect."""

from __future__ import annotations

import pytest

from proxy.features.pace.stated_limits import Allowance, Unit, allowances, codex_wait_s

NOW = 1_790_000_000.0  # 2026-09-21T14:13:20Z

STATED = {
    "openai": (
        (
            "x-ratelimit-limit-requests: 5000, x-ratelimit-remaining-requests: 4999, "
            "x-ratelimit-reset-requests: 12ms, x-ratelimit-limit-tokens: 160000, "
            "x-ratelimit-remaining-tokens: 159976, x-ratelimit-reset-tokens: 6m0s, "
            "x-ratelimit-limit-tokens_usage_based: 160000"
        ),
        [
            Allowance("requests", Unit.REQUESTS, 5000, 4999, 0.012, None),
            Allowance("tokens", Unit.TOKENS, 160000, 159976, 360, None),
        ],
    ),
    "anthropic": (
        (
            "anthropic-ratelimit-requests-limit: 50, anthropic-ratelimit-requests-remaining: 49, "
            "anthropic-ratelimit-requests-reset: 2026-09-21T14:13:22Z, "
            "anthropic-ratelimit-input-tokens-limit: 30000, "
            "anthropic-ratelimit-output-tokens-limit: 8000, "
            "anthropic-ratelimit-unified-5h-status: allowed"
        ),
        [
            Allowance("requests", Unit.REQUESTS, 50, 49, 2, None),
            Allowance("input", Unit.INPUT, 30000, None, None, None),
            Allowance("output", Unit.OUTPUT, 8000, None, None, None),
        ],
    ),
    "cerebras": (
        (
            "x-ratelimit-limit-requests-day: 14400, x-ratelimit-remaining-requests-day: 14000, "
            "x-ratelimit-reset-requests-day: 33011.5, x-ratelimit-limit-tokens-minute: 60000"
        ),
        [
            Allowance("requests 86400s", Unit.REQUESTS, 14400, 14000, 33011.5, 86400),
            Allowance("tokens 60s", Unit.TOKENS, 60000, None, None, 60),
        ],
    ),
    "fireworks": (
        ("x-ratelimit-limit-tokens-prompt: 3600000, x-ratelimit-limit-tokens-generated: 36000"),
        [
            Allowance("input", Unit.INPUT, 3600000, None, None, None),
            Allowance("output", Unit.OUTPUT, 36000, None, None, None),
        ],
    ),
    "the draft's trio": (
        "ratelimit-limit: 100, ratelimit-remaining: 40, ratelimit-reset: 50",
        [Allowance("requests", Unit.REQUESTS, 100, 40, 50, None)],
    ),
    "nothing": ("content-type: text/plain, x-ratelimit-limit-requests: many, retry-after: 1", []),
}


@pytest.mark.parametrize("dialect", STATED)
def test_limits_are_read_from_the_words_of_headers_names(dialect: str) -> None:
    text, stated = STATED[dialect]
    headers = [
        (name.encode(), value.encode())
        for name, _, value in (each.partition(": ") for each in text.split(", "))
    ]
    found = [each for each in allowances(headers, now=NOW) if each.limit is not None]
    assert found == stated


@pytest.mark.parametrize(
    ("windows", "wait_s"),
    [
        ({"primary": {"used_percent": 40.0, "window_minutes": 300, "reset_at": 1_090}}, None),
        ({"primary": {"used_percent": 100.0, "window_minutes": 300, "reset_at": 1_090}}, 90.0),
        (
            {
                "primary": {"used_percent": 100, "reset_at": 1_090},
                "secondary": {"used_percent": 101, "reset_at": 1_600},
            },
            600.0,
        ),
        ({"primary": {"used_percent": 100, "reset_at": 900}}, None),  # it is over
        ({"primary": {"used_percent": "100", "reset_at": 1_090}, "secondary": None}, None),
        (None, None),
    ],
)
def test_what_codex_has_used_up_is_waited_for(windows: object, wait_s: float | None) -> None:
    event = {"type": "codex.rate_limits", "plan_type": "pro", "rate_limits": windows}
    assert codex_wait_s(event, 1_000.0) == wait_s
