"""All tests. Who waits for an answer here waits until it must have come, on the busiest machine."""

from httpx._config import DEFAULT_TIMEOUT_CONFIG
from websockets.sync.client import connect

from tests.waiting import PATIENCE_S

for _phase in ("connect", "read", "write", "pool"):
    setattr(DEFAULT_TIMEOUT_CONFIG, _phase, PATIENCE_S)  # five seconds, where nobody says otherwise
for _wait in ("open_timeout", "ping_timeout"):
    (connect.__kwdefaults__ or {})[_wait] = PATIENCE_S  # ten and twenty
