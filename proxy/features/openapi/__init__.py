"""OpenAPI: the service's description of its REST API, with real examples.

A user reads of it in docs/reference/rest.md.
"""

from proxy.feature import Feature

FEATURE = Feature(plane=True)
