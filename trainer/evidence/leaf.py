"""Options of the statements that a run writes about itself. Standard library only."""

from dataclasses import dataclass
from typing import Any, Final

from common.program import Command
from trainer.leaf import Leaf


@dataclass(frozen=True)
class EvidenceOptions:
    """Statements of a run about its data, code, environment, options, checkpoints and results."""

    chain: bool = True
    """Write the statements, to RUN/evidence."""
    key: str | None = None
    """PEM file of the private key, ed25519 or ECDSA on P-256, that signs the statements; None
    leaves them unsigned, which shows damage and mistakes, but no forgery."""


def _problems(config: Any) -> list[str]:
    options = config.of(EvidenceOptions)
    if options.key is not None and not options.chain:
        return ["--evidence.key: there is nothing to sign with --evidence.chain False"]
    return []


LEAF: Final = Leaf(
    key="evidence",
    options=EvidenceOptions,
    on_resume="unreported",
    problems=_problems,
    observer="trainer.evidence.observer:evidence_observer",
    exported="trainer.evidence.observer:state_export",
    commands=(
        Command(
            "verify-model",
            "look at runs",
            "check a run's statements against its files, and replay some of its steps",
            "trainer.evidence.command:verify_model",
            "trainer.evidence.options:VerifyModelOptions",
        ),
        Command(
            "describe-model",
            "look at runs",
            "write a run's statements as a bill of materials and a model card",
            "trainer.evidence.views:describe_model",
            "trainer.evidence.options:DescribeModelOptions",
        ),
    ),
)
