"""Compare: two batches task by task, with the difference and its interval.

A user reads of it in docs/concepts/batches.md.
"""

from proxy.feature import Feature

FEATURE = Feature(plane=True)
