"""One property, fuzzed by coverage: atheris makes up what hypothesis reads its examples from.

It needs atheris, which is no dependency, and ends its process.
"""

from __future__ import annotations

import sys
from importlib import import_module


def main(name: str, seconds: float) -> None:
    """Fuzz a property for so many seconds; what is not imported yet is watched."""
    atheris = import_module("atheris")
    with atheris.instrument_imports(include=["classifier", "proxy"]):
        pure = import_module("tests.fuzz.pure")
    holds = pure.prepared(name, 1)
    options = [sys.argv[0], f"-max_total_time={max(1, int(seconds))}"]
    atheris.Setup(options, holds.hypothesis.fuzz_one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
