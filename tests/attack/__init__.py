"""Attacks on a running service: one claim each, on raw sockets where a library would not do it.

``python -m tests.attack`` runs all and prints whether each claim held; `test_attack.py` runs them
as tests. A claim names what an attacker cannot do; the attack fails by an ``AssertionError``.
"""
