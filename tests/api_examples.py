"""The examples of the OpenAPI document: real answers, as the golden files keep them.

``python -m tests.test_docs`` writes them to ``proxy/features/openapi/examples.json``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).parent.parent
FILE = ROOT / "proxy" / "features" / "openapi" / "examples.json"
GOLDEN = ROOT / "tests" / "golden"
SERVICE = "http://127.0.0.1:8383"

_BEGAN = 1_790_000_000.0
# What golden files leave out because it differs each time.
_TIMES: Final[Mapping[str, float | str]] = {
    "agent_s": 9.3,
    "as_of": _BEGAN + 10.5,
    "created_at": _BEGAN,
    "duration_s": 0.41,
    "ended_at": _BEGAN + 0.6,
    "expires": "2026-09-22T14:13:20Z",
    "first_at": _BEGAN,
    "first_byte_at": _BEGAN + 0.5,
    "first_byte_s": 0.4,
    "first_seen": _BEGAN - 86_400,
    "judged_at": _BEGAN + 10.4,
    "last_at": _BEGAN + 9.0,
    "last_byte_at": _BEGAN + 0.51,
    "last_seen": _BEGAN + 10.4,
    "lost_s": 0.8,
    "next_at": _BEGAN + 11.0,
    "opened_at": _BEGAN + 10.4,
    "probe_at": _BEGAN + 70.4,
    "provider_s": 0.0,
    "reached_at": _BEGAN + 0.6,
    "reported_at": _BEGAN + 10.4,
    "seconds": 4.1,
    "started_at": _BEGAN + 0.1,
}
_ID = "660c036bd94e4ca9fffc76%02d"
_HASH = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
_SHOWN: Final = ("openai", "anthropic", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL")


def _all(_items: list[Any]) -> list[Any]:
    return _items


def _first(items: list[Any]) -> list[Any]:
    return items[:1]


def _of_quota(items: list[Any]) -> list[Any]:
    return [each for each in items if "quota" in (each.get("id"), each.get("subcategory"))]


REQUESTS: Final[Mapping[str, Any]] = {
    "POST /rollouts": {
        "id": "quota", "batch": "nightly", "task": "t3", "attempt": 0, "model": "gpt-5",
        "upstream": "openai",
    },
    "POST /rollouts/bulk": {"rollouts": [{"id": "many-0", "batch": "many"}, {"id": "honest"}]},
    "POST /rollouts/{rollout_id}/outcome": {
        "status": "success", "termination_reason": "agent_stop", "prompts_executed": 1,
        "rewards": {"reward": 0.0},
    },
    "POST /upstreams/{upstream}/reference": {"model": "gpt-5"},
    "POST /rollouts/{rollout_id}/limits": {"calls": 2, "tokens": 100_000},
    "POST /batches/{batch}/limits": {"calls": 20},
    "POST /digests": {"response_ids": ["chatcmpl-1", "resp_1"]},
    "POST /batches/{batch}/begin": {"run": "shift-1"},
    "POST /batches/{batch}/end": {"run": "shift-1"},
    "POST /key/generate": {
        "key_alias": "swe-1", "team_id": "keyed", "user_id": "u", "duration": "1h",
        "models": ["gpt-5"], "metadata": {"run": 1},
    },
    "POST /key/delete": {"key_aliases": ["swe-1"]},
    "POST /turns": {"upstream": "openai", "model": "gpt-5"},
}  # fmt: skip

# The golden step whose answer is shown, and which items of its list.
ANSWERS: Final[Mapping[str, tuple[str, Callable[[list[Any]], list[Any]]]]] = {
    "POST /rollouts": ("open: register quota", _all),
    "POST /rollouts/bulk": ("open: register many", lambda items: items[:2]),
    "GET /rollouts": ("open: GET /rollouts?subcategory=quota", _of_quota),
    "POST /rollouts/{rollout_id}/outcome": ("open: POST /rollouts/quota/outcome", _all),
    "GET /rollouts/{rollout_id}/verdict": ("open: GET /rollouts/quota/verdict", _all),
    "GET /rollouts/{rollout_id}/result": ("open: GET /rollouts/quota/result", _all),
    "GET /rollouts/{rollout_id}/exchanges": ("open: GET /rollouts/quota/exchanges", _first),
    "GET /rollouts/{rollout_id}/limits": ("open: GET /rollouts/frugal/limits", _all),
    "POST /rollouts/{rollout_id}/limits": ("open: POST /rollouts/frugal/limits", _all),
    "GET /batches/{batch}/limits": ("open: GET /batches/limited/limits", _all),
    "POST /batches/{batch}/limits": ("open: POST /batches/limited/limits", _all),
    "POST /digests": ("open: POST /digests", _all),
    "POST /upstreams/{upstream}/reference": ("keyed: POST /upstreams/openai/reference", _all),
    "GET /batches": ("open: GET /batches", _all),
    "GET /batches/{batch}/check": ("open: GET /batches/nightly/check", _all),
    "POST /batches/{batch}/breaker/reset": ("open: POST /batches/broken/breaker/reset", _all),
    "GET /batches/{batch}/breaker": ("open: GET /batches/broken/breaker", _all),
    "GET /batches/{batch}/card": ("open: GET /batches/broken/card", _all),
    "GET /batches/{batch}/usage": ("open: GET /batches/nightly/usage", _first),
    "GET /batches/{batch}/rerun": ("open: GET /batches/nightly/rerun", _all),
    "GET /compare": ("open: GET /compare?a=nightly&b=x%2Fy", _all),
    "GET /batches/{batch}/groups": ("open: GET /batches/nightly/groups", _first),
    "POST /batches/{batch}/begin": ("open: POST /batches/nightly/begin", _all),
    "POST /batches/{batch}/end": ("open: POST /batches/nightly/end", _all),
    "GET /batches/{batch}": ("open: GET /batches/nightly", _all),
    "GET /fingerprints": ("open: GET /fingerprints #2", _of_quota),
    "GET /fingerprints/unexplained": (
        "open: GET /fingerprints/unexplained?since=0&until=4000000000",
        _first,
    ),
    "POST /key/generate": ("open: POST /key/generate", _all),
    "GET /key/info": ("open: info after a call", _all),
    "POST /key/delete": ("open: delete a key", _all),
    "POST /turns": ("open: POST /turns", _all),
    "GET /healthz": ("open: GET /healthz", _all),
    "GET /readyz": ("open: GET /readyz", _all),
}

# Answers that are no JSON object.
TEXTS: Final[Mapping[str, str]] = {
    "GET /rollouts/export": (
        '{"record":"rollout","id":"quota","batch":"nightly","task":"t3","model":"gpt-5"}\n'
        '{"record":"outcome","rollout_id":"quota","status":"success","rewards":{"reward":0.0}}\n'
        f'{{"record":"exchange","id":"{_ID % 9}","rollout_id":"quota","status":429}}\n'
    ),
    "GET /batches/{batch}/events": (
        "id: 26\nevent: verdict_given\n"
        'data: {"rollout_id": "quota", "health": "api_error", "fingerprint": "quota:429"}\n\n'
    ),
    "GET /metrics": 'truezero_verdicts{health="healthy"} 155.0\n',
}

_TOOK = {
    "first_byte_p50_s": 0.62, "first_byte_p95_s": 1.9, "duration_p50_s": 4.1,
    "duration_p95_s": 12.8,
}  # fmt: skip
_CALLS = {
    "calls": 1500, "refused": 3, "failed": {"quota": 212, "rejected_request": 3},
    "error_rate": 0.1416, "failing": True, "failing_since": _BEGAN + 3240.0,
    "answered_at": _BEGAN + 3198.5, "last_at": _BEGAN + 3590.0,
    "timed_calls": 1285, **_TOOK,
}  # fmt: skip
# Answers that depend on when they are asked for.
PASSING: Final[Mapping[str, Any]] = {
    "GET /status": {
        "word": "degraded",
        "at": _BEGAN + 3600.0,
        "lanes": 1,
        "items": [
            {
                "upstream": "openai", "model": "gpt-5", "key": "key-3f9a1c22", "server": None,
                "key_from": "TRUEZERO_KEY_OPENAI", "word": "degraded",
                "since": _BEGAN + 3248.5, "answered_at": _BEGAN + 3590.5,
                "cause": "rate_limit", "calls": 480, "failed": {"rate_limit": 61}, "votes": 96.0,
                "failed_votes": 21.5, "failed_share_low": 0.1528, "weighed_from": _BEGAN + 3300.0,
                "last_at": _BEGAN + 3590.5, "open": 4, "open_since": _BEGAN + 3571.0, "waiting": 0,
                "reference": None,
            }
        ],
    },
    "GET /upstreams": {
        "since": _BEGAN,
        "until": _BEGAN + 3600.0,
        "step_s": 120,
        "calls": 1500,
        "asked": 1500,
        "open": {"openai": 3},
        "items": [
            {
                "upstream": "openai",
                "origin": "https://api.openai.com",
                **_CALLS,
                "models": [{"model": "gpt-5", **_CALLS}],
                "keys": [{
                    "key": "key-3f9a1c22", "key_from": "TRUEZERO_KEY_OPENAI", "calls": 1500,
                    "failed": 212,
                }],
                "points": [
                    {
                        "at": _BEGAN + 3480.0, "calls": 60, "failed": {"quota": 58},
                        "first_byte_p50_s": 0.7, "first_byte_p95_s": 1.1,
                    }
                ],
                "questions": {
                    "calls": 18, "failures": 12, "total_tokens": 216, "cost_usd": 0.00048,
                },
            }
        ],
    },
}  # fmt: skip


def examples() -> dict[str, dict[str, Any]]:
    """Return by `METHOD /path` its `response`, and its `request` where it takes a body."""
    steps = json.loads((GOLDEN / "rest.json").read_text("utf-8"))
    prose = json.loads((GOLDEN / "rest_prose.json").read_text("utf-8"))
    found: dict[str, dict[str, Any]] = {
        call: {"response": _answer(steps[title]["body"], title, prose, chosen)}
        for call, (title, chosen) in ANSWERS.items()
    }
    found |= {call: {"response": text} for call, text in {**TEXTS, **PASSING}.items()}
    for call, body in REQUESTS.items():
        found[call]["request"] = body
    return found


def text() -> str:
    return json.dumps(examples(), indent=1, ensure_ascii=False) + "\n"


def _answer(
    body: Any, title: str, prose: Mapping[str, str], chosen: Callable[[list[Any]], list[Any]]
) -> Any:
    whole = _filled(body, "", title, prose)
    if "items" in whole:
        whole["items"] = chosen(whole["items"])
        assert whole["items"], title
    return whole


def _filled(value: Any, key: str, path: str, prose: Mapping[str, str]) -> Any:
    """Put back what golden files replace by placeholders."""
    if isinstance(value, dict):
        if key in ("base_urls", "env"):
            value = {name: value[name] for name in _SHOWN if name in value}
        return {name: _filled(each, name, f"{path}/{name}", prose) for name, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, key, f"{path}/{n}", prose) for n, each in enumerate(value)]
    if value in ("<float>", "<str>"):
        return _TIMES[key]
    if value == "<prose>":
        return prose[path]
    if not isinstance(value, str):
        return value
    named = re.sub(r"<id (\d+)>", lambda found: _ID % int(found[1]), value)
    named = named.replace("<hash>", _HASH).replace("<host>", "api.openai.com")
    named = named.replace("<version>", "0.2.1").replace("<last four>", "o8Qw")
    return named.replace("http://proxy", SERVICE)
