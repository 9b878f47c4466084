"""Compiles the hot path to C extensions where TRUEZERO_COMPILE=1 asks for it.

Without that, all there is to build is said in pyproject.toml. It changes no source: mypyc
(mypyc.readthedocs.io) reads the types that are there, and Python modules stay beside what it makes.
"""

import os

from setuptools import setup

# What every call passes through, but for what stands on other people's classes (door, lean).
_HOT = (
    *(f"proxy/wire/{name}.py" for name in (
        "answer", "asked", "dialect", "encoding", "openai_chat", "sse", "usage",
    )),
    *(f"proxy/http1/{name}.py" for name in (
        "connection", "exchange", "message", "pool", "transport",
    )),
    *(f"proxy/{name}.py" for name in (
        "addressing", "asking", "bounds", "door", "headers", "keys", "metrics", "recorder", "relay",
        "sockets", "tap",
    )),
    *(f"proxy/store/{name}.py" for name in ("ledger", "tables")),
)  # fmt: skip

if os.environ.get("TRUEZERO_COMPILE") == "1":
    from mypyc.build import mypycify

    setup(ext_modules=mypycify([*_HOT], opt_level="3"))
else:
    setup()
