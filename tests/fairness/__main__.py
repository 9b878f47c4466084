"""`make fairness`: honest failures at a running service; prints how many were taken for zeros.

Exits with 1 if a family fell below what docs/measurements/attribution.md leaves it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.arena import score
from tests.fairness.playing import scores
from tests.fairness.situations import cells


def main() -> int:
    """Play the cells whose names hold one of the words of the command line, or all."""
    options = score.options(__doc__)
    words = options.words
    wanted = [cell for cell in cells() if not words or any(word in cell.name for word in words)]
    with tempfile.TemporaryDirectory() as folder:
        return score.report("fairness", scores(wanted, Path(folder)), options)


if __name__ == "__main__":
    sys.exit(main())
