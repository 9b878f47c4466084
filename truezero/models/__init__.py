"""The REST contract: request and response models shared by the service and the client.

Unknown is null, never 0.
"""

from truezero.models.base import ExecutionStatus, Health, Ordinal, Subcategory, TerminationReason
from truezero.models.batches import (
    BatchSummary,
    Breaker,
    BreakerLane,
    Check,
    Fingerprint,
    Fingerprints,
    PassAt,
    RetryItem,
)
from truezero.models.exchanges import Exchange, ExchangePage
from truezero.models.groups import AdvantageMethod, Group, GroupPage
from truezero.models.keys import (
    KeyDeletion,
    KeyFacts,
    KeyInfo,
    KeyMinted,
    KeyRequest,
    KeysDeleted,
)
from truezero.models.rollouts import (
    BatchPolicy,
    Fault,
    FaultKind,
    OutcomeRequest,
    RoleAccess,
    RolloutItem,
    RolloutPage,
    RolloutRegistered,
    RolloutRequest,
)
from truezero.models.service import (
    Alive,
    Problem,
    Ready,
)
from truezero.models.validity import (
    BatchFinding,
    CheckName,
    Coverage,
    Level,
    RoleVerdict,
    Validity,
    ValidityFinding,
)
from truezero.models.verdicts import Result, RetryAdvice, Verdict

__all__ = [
    "AdvantageMethod",
    "Alive",
    "BatchFinding",
    "BatchPolicy",
    "BatchSummary",
    "Breaker",
    "BreakerLane",
    "Check",
    "CheckName",
    "Coverage",
    "Exchange",
    "ExchangePage",
    "ExecutionStatus",
    "Fault",
    "FaultKind",
    "Fingerprint",
    "Fingerprints",
    "Group",
    "GroupPage",
    "Health",
    "KeyDeletion",
    "KeyFacts",
    "KeyInfo",
    "KeyMinted",
    "KeyRequest",
    "KeysDeleted",
    "Level",
    "Ordinal",
    "OutcomeRequest",
    "PassAt",
    "Problem",
    "Ready",
    "Result",
    "RetryAdvice",
    "RetryItem",
    "RoleAccess",
    "RoleVerdict",
    "RolloutItem",
    "RolloutPage",
    "RolloutRegistered",
    "RolloutRequest",
    "Subcategory",
    "TerminationReason",
    "Validity",
    "ValidityFinding",
    "Verdict",
]
