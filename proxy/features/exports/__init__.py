"""Exports: rollouts with their calls as JSON lines, and archives of a database, which are imported.

A user reads of them in docs/operations/data.md.
"""

from proxy.feature import Feature

FEATURE = Feature(plane=True)
