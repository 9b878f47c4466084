"""Fixtures of the kernel's tests that sockets are tested with too."""

from tests.features.tls.test_protocol import tls  # noqa: F401  a fixture, as all of these
from tests.proxy.routing.test_no_other_origin import _elsewhere, elsewhere  # noqa: F401
from tests.proxy.server.test_closer import pair  # noqa: F401
