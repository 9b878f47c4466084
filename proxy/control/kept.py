"""What was computed once for each state that something is in."""

from __future__ import annotations

from typing import TypeVar

Key = TypeVar("Key")
State = TypeVar("State")
Value = TypeVar("Value")


class Kept(dict[Key, tuple[State, Value]]):
    """The last value of each of the latest keys, behind the state that it is of.

    Arguments:
        most: keys; of more the oldest is forgotten.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def of(self, key: Key, state: State) -> Value | None:
        """Return the value of a key in this state; None where it is not kept."""
        kept = self.get(key)
        return kept[1] if kept is not None and kept[0] == state else None

    def keep(self, key: Key, state: State, value: Value) -> None:
        """Keep a value, in place of that of another state."""
        if len(self) >= self._most:
            self.pop(next(iter(self)), None)  # another thread may have been first
        self[key] = state, value
