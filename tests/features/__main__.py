"""Figures of the features: ``python -m tests.features``.

Prints for each feature its lines and files (templates too), its tests' lines, its places and which
modules it shares with the kernel; then the wrong imports of both kinds, and the lines of the kernel
that name a feature. All is read off the source, and `tests.features.figures` says how it is
counted.
"""

from __future__ import annotations

import sys
from collections import Counter

from tests.features.figures import Features, exceptions, is_excepted, table


def report(found: Features) -> str:
    """Return the figures as text."""
    rows = []
    for name in found.names:
        each = found.describe(name)
        rows.append({
            "feature": name if name in found.on else f"{name} (off)",
            "lines": each.lines,
            "files": each.files,
            "tests": each.tests,
            "places": " ".join(each.places),
            "shared with the kernel": " ".join(each.shared),
        })  # fmt: skip
    wrong, excepted, named = [*found.wrong_imports()], exceptions(), [*found.named_lines()]
    by_kernel = [each for each in wrong if found.of_kernel(each)]
    others = [each for each in wrong if not found.of_kernel(each)]
    parts = [table(rows)]
    for title, imports in (
        ("the kernel imports a feature", by_kernel),
        ("a feature imports another", others),
    ):
        lines = [
            f"  {who} -> {whom}{'' if is_excepted(each, excepted) else '  not excepted'}"
            for each in imports
            for who, whom in [each]
        ]
        parts.append("\n".join([f"{title}: {len(imports)}", *lines]))
    by_name = Counter(each.name for each in named)
    heading = (
        f"lines of the kernel that name a feature (an import with its name among the dotted parts, "
        f"or a use of a module so imported): {len(named)}"
    )
    counts = [f"  {name}: {count}" for name, count in by_name.most_common()]
    lines = [f"  {each.path}:{each.line}: {each.name}" for each in named]
    parts.append("\n".join([heading, *counts, *lines]))
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.stdout.write(report(Features()))
