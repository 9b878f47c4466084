"""`python -m truezero`, and the command `truezero`: end with 130 on Ctrl-C, also while it loads."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    try:
        from truezero.cli import main as run  # noqa: PLC0415  half a second, and Ctrl-C may come

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
