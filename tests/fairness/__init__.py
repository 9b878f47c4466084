"""Honest failures: a provider that fails whoever asks, and agents that scored 0 because of it.

None of these zeros may be counted, also where agents are untrusted. `failures.py` are the ways in
which providers fail, `situations.py` those in which an agent meets them, with what must come out:
both were written from what is promised, not from the code. ``python -m tests.fairness`` plays them
against running services and prints a table; `test_fairness.py` runs them as tests.
"""
