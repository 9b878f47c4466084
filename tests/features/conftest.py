"""What tests of features share with those of the service."""

from tests.proxy.conftest import *  # noqa: F403  the same fixtures
from tests.proxy.store.conftest import *  # noqa: F403  the same
