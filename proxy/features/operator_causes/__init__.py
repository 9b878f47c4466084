"""Causes that the operator names: rows on what errors mean, which go before the cause table.

A user reads of them in docs/guides/unknown-errors.md.
"""

from proxy.feature import Feature

FEATURE = Feature(settings=True, start=True)
