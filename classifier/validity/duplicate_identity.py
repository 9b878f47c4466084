"""Two runs wrote into one rollout: a first message was begun again from another address.

Harnesses that give out an id twice, or run a task again under its old id, mix two runs into one
verdict. Capture compares first messages by digest; a container with two addresses looks the same,
so it is no proof.
"""

from __future__ import annotations

from classifier.validity.check import Looked
from classifier.validity.measurement import Measurement, ids_of, tally
from classifier.verdicts import Coverage, Level, ValidityFinding, plural

DUPLICATE_IDENTITY = "duplicate_identity"


def duplicate_identity(measured: Measurement) -> Looked | None:
    """Find the main lane's answered calls whose first message another address had begun with."""
    main = measured.main
    if not main:
        return None
    seen = tally(main, "begun_elsewhere")
    coverage = Coverage(looked=len(main) - seen[None], of=len(main))
    if not seen[True]:
        return Looked(coverage=coverage)
    begun = [x for x in main if x.begun_elsewhere]
    return Looked(
        coverage=coverage,
        finding=ValidityFinding(
            check=DUPLICATE_IDENTITY,
            level=Level.SUSPECT,
            calls=len(begun),
            of=coverage.looked,
            evidence=ids_of(begun),
            sentence=f"{len(begun):,} of {plural(coverage.looked, 'call')} began with a message "
            "that another address had begun with before: two runs may share this rollout",
        ),
    )
