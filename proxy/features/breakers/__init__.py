"""Breakers: where the same permanent failure strikes again and again, a batch's lane is stopped.

A user reads of them in docs/concepts/batches.md; `classifier.breakers` has the rules.
"""

from proxy.feature import Feature

FEATURE = Feature(
    tables=True,
    registration=True,
    upkeep=True,
    final=True,
    stakes=True,
    gauges=True,
    plane=True,
)
