"""The name that `truezero.audit.traces` had in the last release."""

from __future__ import annotations

import importlib
import warnings
from typing import Any


def __getattr__(name: str) -> Any:
    attribute = getattr(importlib.import_module("truezero.audit.traces"), name)
    called = "truezero.integrations.traces is called truezero.audit.traces now"
    warnings.warn(called, DeprecationWarning, stacklevel=2)
    return attribute
