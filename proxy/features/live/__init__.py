"""Live: a batch's events as they happen in a stream, and pages that follow what happens.

A user reads of them in docs/reference/rest.md.
"""

from proxy.feature import Feature

FEATURE = Feature(plane=True)
