"""Integrations with evaluation harnesses, one module each.

Each imports its harness only when used: `pip install truezero` installs none of them.
"""
