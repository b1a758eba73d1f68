"""The leaf of statements about models. Standard library only."""

from dataclasses import dataclass
from typing import Final

from jobs.leaf import Leaf


@dataclass(frozen=True)
class EvidenceCheckOptions:
    """Whether only a model whose making can be shown is deployed."""

    require_evidence: bool = False
    """Refuse the model unless the statements of its run hold together, were there when it was
    registered, and its files are those that they name."""

    evidence_key: str | None = None
    """PEM file of the public key that must have signed them; None checks no signature. Has an
    effect only with --require-evidence."""


LEAF: Final = Leaf(about_model="jobs.extras.evidence.registered:properties")
