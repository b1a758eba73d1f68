"""Whether the statements of a run hold together. Standard library only."""

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from common.errors import ConfigError
from trainer.checkpoints.names import key_of
from trainer.extras.evidence.signing import PublicKey
from trainer.extras.evidence.statements import (
    CHECKPOINTS,
    FOLDER,
    BadStatementError,
    Statement,
    read_statement,
    statement_files,
)


class Verifier(Protocol):
    """A public key."""

    key_id: str

    def has_signed(self, message: bytes, signature: bytes) -> bool:
        """Return whether a signature of a message is of this key."""


@dataclass(frozen=True)
class Finding:
    """Something that does not hold, or cannot be shown."""

    level: Literal["broken", "gap", "note"]
    """broken: something differs from its statement; gap: something was not stated, or is not here,
    so that nothing can be said; note: worth knowing."""
    link: str
    """The link of the chain: a file of the run, a shard, or a statement."""
    text: str

    def __str__(self) -> str:
        return f"{self.link}: {self.text}"


@dataclass
class Verified:
    """Findings about a run."""

    run: Path
    statements: list[Statement] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def add(self, level: Literal["broken", "gap", "note"], link: str, text: str) -> None:
        """Add a finding."""
        self.findings.append(Finding(level, link, text))

    def of(self, kind: str) -> list[Statement]:
        """Return the statements of a kind, in their order."""
        return [statement for statement in self.statements if statement.kind == kind]

    @property
    def broken(self) -> list[Finding]:
        """Findings that contradict the statements."""
        return [finding for finding in self.findings if finding.level == "broken"]

    @property
    def gaps(self) -> list[Finding]:
        """What could not be shown."""
        return [finding for finding in self.findings if finding.level == "gap"]


def check_chain(verified: Verified, key: Verifier | None) -> None:
    """Check that all statements are there, in order, unchanged, and signed. Adds the statements
    that were read.
    """
    files = statement_files(verified.run / FOLDER)
    if not files:
        verified.add("gap", FOLDER, "there are no statements; the run was made without them")
    number, before, whole = 0, None, True
    for path in files:
        try:
            statement = read_statement(path.name, path.read_bytes())
        except BadStatementError as error:
            verified.add("broken", f"{FOLDER}/{path.name}", str(error).partition(": ")[2])
            number, whole = number + 1, False
            continue
        _check_place(verified, statement, number, before, whole=whole)
        number, before, whole = statement.number, statement, True
        verified.statements.append(statement)
    _check_signatures(verified, key)
    _check_references(verified)


def _check_place(
    verified: Verified, statement: Statement, number: int, before: Statement | None, *, whole: bool
) -> None:
    """Check that a statement follows the one before.

    Args:
        verified: Findings so far.
        statement: The statement.
        number: Number of the one before.
        before: The one before that could be read.
        whole: Whether that is the one before.
    """
    link = f"{FOLDER}/{statement.file}"
    if not statement.file.startswith(f"{statement.number:06d}-{statement.kind}."):
        verified.add("broken", link, f"is {statement}, under another name")
    elif statement.number > number + 1:
        missing = ", ".join(str(n) for n in range(number + 1, statement.number))
        verified.add("broken", link, f"statement {missing} before it is missing")
    elif statement.number <= number:
        verified.add("broken", link, f"a second statement has the number {statement.number}")
    elif whole and statement.previous != (before and before.digest):
        changed = f"{FOLDER}/{before.file}" if before else link
        verified.add("broken", changed, f"has other content than when {statement} was written")


def _check_signatures(verified: Verified, key: Verifier | None) -> None:
    unsigned = [statement for statement in verified.statements if not statement.signatures]
    signers = {name[:16] for statement in verified.statements for name, _ in statement.signatures}
    if key is not None:
        for statement in verified.statements:
            _check_signature(verified, f"{FOLDER}/{statement.file}", statement, key)
        return
    for statement in unsigned if signers else ():
        verified.add("broken", f"{FOLDER}/{statement.file}", "is not signed, although others are")
    carried = _carried_keys(verified) if signers else {}
    for statement in verified.statements if carried else ():
        for name in (name for name, _ in statement.signatures if name in carried):
            _check_signature(verified, f"{FOLDER}/{statement.file}", statement, carried[name])
    for name in sorted(signers):
        checked = any(known.startswith(name) for known in carried)
        text = "is carried by the statements themselves" if checked else "was not checked"
        verified.add("note", FOLDER, f"the key {name} that signed {text}; give --key to check it")
    if signers:
        return
    if unsigned:
        verified.add("note", FOLDER, "unsigned: they show damage and mistakes, but no forgery")


def _carried_keys(verified: Verified) -> dict[str, Verifier]:
    """Return the public keys that the statements carry, by identity; none that cannot be used, and
    none without the package cryptography.
    """
    keys = dict[str, Verifier]()
    for statement in verified.of("start"):
        with suppress(ConfigError, TypeError, KeyError, AttributeError):
            key = PublicKey(statement.predicate["signer"]["public"].encode(), "signer")
            keys[key.key_id] = key
    return keys


def _check_signature(verified: Verified, link: str, statement: Statement, key: Verifier) -> None:
    if not statement.signatures:
        verified.add("broken", link, "is not signed")
    elif all(name != key.key_id for name, _ in statement.signatures):
        names = ", ".join(name[:16] for name, _ in statement.signatures)
        verified.add("broken", link, f"is signed by key {names}, not by {key.key_id[:16]}")
    elif not any(
        name == key.key_id and key.has_signed(statement.message, signature)
        for name, signature in statement.signatures
    ):
        verified.add("broken", link, "its signature is forged: the key has not signed this content")


def _check_references(verified: Verified) -> None:
    """Check that the statements that one continues, follows or belongs to come before it."""
    known = dict[str, str]()
    starts = dict[str, int]()
    for statement in verified.statements:
        link = f"{FOLDER}/{statement.file}"
        name = {"start": "continues", "checkpoint": "follows", "result": "checkpoint"}
        before = statement.predicate.get(name.get(statement.kind, ""))
        if before and known.get(before["name"]) != before["sha256"]:
            verified.add("broken", link, f"follows {before['name']}, which was not stated before")
        if statement.kind == "start":
            starts[statement.digest] = statement.predicate["attempt"]
        if statement.kind == "checkpoint":
            predicate = statement.predicate
            known[predicate["name"]] = statement.state
            if predicate["start"] is None:
                text = "belongs to an attempt that stated nothing about itself"
                verified.add("gap", f"{CHECKPOINTS}/{predicate['name']}", text)
            elif starts.get(predicate["start"]) != predicate["attempt"]:
                verified.add("broken", link, "belongs to a start that was not stated before")
            if before and predicate["step"] <= _step(before["name"]):
                text = f"step {predicate['step']} follows the later {before['name']}"
                verified.add("broken", link, text)


def _step(name: str) -> int:
    key = key_of(name)
    return key.step if key else -1
