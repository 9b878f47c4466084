"""Compiles the hot path to C extensions where TRUEZERO_COMPILE=1 asks for it.

Without that, all there is to build is said in pyproject.toml. It changes no source: mypyc
(mypyc.readthedocs.io) reads the types that are there, and Python modules stay beside what it makes.
"""

import os

from setuptools import setup

# What every call passes through, but for what stands on other people's classes.
_HOT = tuple(
    f"proxy/{room}/{name}.py"
    for room, names in {
        "wire": ("response", "request", "body", "payloads", "dialect", "usage"),
        "wire/dialects": ("openai_chat",),
        "wire/framing": ("encoding", "sse"),
        "outbound": ("transport",),
        "outbound/http1": (
            "connection",
            "pool",
            "pushed",
            "request_writer",
            "response",
            "response_parser",
            "serialize",
            "transport",
        ),
        "routing": ("headers", "limits", "rollout_keys", "target"),
        "capture": ("call", "exchange", "observer", "response_head", "usage_injection"),
        "inbound": (
            "agent_response",
            "dispatch",
            "flow_control",
            "http",
            "request_cycle",
            "request_parser",
            "response_framing",
        ),
        "relay": (
            "agent_watch",
            "call",
            "context",
            "download",
            "failures",
            "handshake",
            "http",
            "plain",
            "plain_call",
            "plain_ending",
            "progress",
            "pumps",
            "upload",
            "websocket",
            "websocket_record",
        ),
        "recording": ("backlog", "failover", "pending", "ports", "recorder", "reports"),
        "store": ("commit", "sqlite", "rows", "tables"),
        "telemetry": ("call_counters", "metrics"),
    }.items()
    for name in names
)

if os.environ.get("TRUEZERO_COMPILE") == "1":
    from mypyc.build import mypycify

    setup(ext_modules=mypycify([*_HOT], opt_level="3"))
else:
    setup()
