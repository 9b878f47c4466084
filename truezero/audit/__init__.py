"""Audit finished runs of other harnesses: read their own files, judge them, report and correct."""
