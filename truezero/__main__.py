"""`python -m truezero`: the command line."""

from truezero.cli import main

main()
