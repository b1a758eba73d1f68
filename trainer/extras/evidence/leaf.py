"""Options of the statements that a run writes about itself. Standard library only."""

from dataclasses import dataclass
from typing import Annotated, Any, Final

from common.annotations import Pattern
from common.program import Command
from trainer.leaf import Leaf

_VAULT_KEY: Final = r"https://[^/]+/keys/[0-9A-Za-z-]+(/[0-9a-f]+)?"


@dataclass(frozen=True)
class EvidenceOptions:
    """Statements of a run about its data, code, environment, options, checkpoints and results."""

    chain: bool = True
    """Write the statements, to RUN/evidence."""
    key: str | None = None
    """PEM file of the private key, ed25519 or ECDSA on P-256, that signs the statements; None
    leaves them unsigned, which shows damage and mistakes, but no forgery."""
    vault_key: Annotated[
        str | None, Pattern(_VAULT_KEY, "like https://VAULT.vault.azure.net/keys/NAME")
    ] = None
    """Address of a key in Key Vault, EC on P-256, that signs them instead; the identity of the job
    must be allowed to read it and to sign."""


def _problems(config: Any) -> list[str]:
    options = config.of(EvidenceOptions)
    given = {"--evidence.key": options.key, "--evidence.vault-key": options.vault_key}
    named = [name for name, value in given.items() if value is not None]
    if len(named) == 2:
        return ["--evidence.vault-key: give it or --evidence.key, as one key signs"]
    if named and not options.chain:
        return [f"{named[0]}: there is nothing to sign with --evidence.chain False"]
    return []


LEAF: Final = Leaf(
    key="evidence",
    options=EvidenceOptions,
    on_resume="unreported",
    problems=_problems,
    observer="trainer.extras.evidence.observer:evidence_observer",
    rewritten="trainer.extras.evidence.observer:state_rewritten",
    commands=(
        Command(
            "verify-model",
            "look at runs",
            "check a run's statements against its files, and replay some of its steps",
            "trainer.extras.evidence.command:verify_model",
            "trainer.extras.evidence.options:VerifyModelOptions",
        ),
        Command(
            "describe-model",
            "look at runs",
            "write a run's statements as a model card",
            "trainer.extras.evidence.views:describe_model",
            "trainer.extras.evidence.options:DescribeModelOptions",
        ),
    ),
)
