"""One small file for each evaluation harness that truezero fits into.

None imports its harness before it is used: `pip install truezero` brings none of them.
"""
