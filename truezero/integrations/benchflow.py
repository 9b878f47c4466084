"""benchflow: the plug-in that its registry of agents calls; ``pip install truezero`` installs it.

It imports nothing and changes nothing unless ``TRUEZERO_URL`` is set or it is asked for.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

_ROLLOUT, _EVALUATION = "benchflow.rollout", "benchflow.evaluation"
_GLUE = "truezero.integrations.benchflow_rollouts"
SWITCH = "TRUEZERO_BENCHFLOW"
_OFF = frozenset({"0", "off", "false", "no"})
_ON = frozenset({"1", "on", "true", "yes"})


def asked_for() -> bool:
    """Return true if no rollout may run unmeasured, false if truezero is merely there."""
    return os.environ.get(SWITCH, "").lower() in _ON


def plug() -> None:
    """Register each rollout of benchflow with the service at ``TRUEZERO_URL``.

    An entry point of the group ``benchflow.agents``: called without arguments while benchflow is
    being imported, before it defines rollouts. With ``TRUEZERO_BENCHFLOW=on`` nothing runs
    without the service, and ``off`` turns the plug-in off.
    """
    switch = os.environ.get(SWITCH, "").lower()
    if switch in _OFF or not (os.environ.get("TRUEZERO_URL") or asked_for()):
        return
    for name, attach in ((_ROLLOUT, "attach"), (_EVALUATION, "attach_evaluation")):
        if name in sys.modules:
            _attach(attach, sys.modules[name])
        elif not any(isinstance(each, _AfterImport) and each.of(name) for each in sys.meta_path):
            sys.meta_path.insert(0, _AfterImport(name, partial(_attach, attach)))


def _attach(function: str, module: ModuleType) -> None:
    getattr(importlib.import_module(_GLUE), function)(module)


class _AfterImport(MetaPathFinder):
    """Calls a function with a module once it has been imported."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._then = then

    def of(self, name: str) -> bool:
        """Return true if it waits for this module."""
        return name == self._name

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find the module as the import system does, with the call behind its execution."""
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def executed(module: ModuleType) -> None:
                execute(module)
                self._then(module)

            spec.loader.exec_module = executed  # type: ignore[method-assign]
        return spec
