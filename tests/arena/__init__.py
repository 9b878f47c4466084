"""A service, the world around it and agents in it: what `tests.attack` and `tests.fairness` share.

`world.py` is a provider with a state of its own, which fails whoever asks or what is asked,
`dialects.py` writes and reads its wires, `arena.py` runs services on it.
"""
