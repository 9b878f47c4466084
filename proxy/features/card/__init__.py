"""Card: a batch's summary as one document to publish with its score, and to verify offline.

A user reads of it in docs/guides/publishing.md.
"""

from proxy.feature import Feature

FEATURE = Feature(plane=True)
