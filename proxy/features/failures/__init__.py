"""Failures across batches: their causes with trend and remedy, and errors that nothing explains.

A user reads of them in docs/guides/unknown-errors.md.
"""

from proxy.feature import Feature

FEATURE = Feature(plane=True)
