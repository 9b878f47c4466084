"""The name that `truezero.audit.mask` had in the last release."""

from __future__ import annotations

import importlib
import warnings
from typing import Any


def __getattr__(name: str) -> Any:
    attribute = getattr(importlib.import_module("truezero.audit.mask"), name)
    called = "truezero.integrations.traces is called truezero.audit.mask now"
    warnings.warn(called, DeprecationWarning, stacklevel=2)
    return attribute
