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
        return [one for one in self.statements if one.kind == kind]

    @property
    def broken(self) -> list[Finding]:
        """Findings that contradict the statements."""
        return [one for one in self.findings if one.level == "broken"]

    @property
    def gaps(self) -> list[Finding]:
        """What could not be shown."""
        return [one for one in self.findings if one.level == "gap"]


def check_chain(found: Verified, key: Verifier | None) -> None:
    """Check that all statements are there, in order, unchanged, and signed. Adds the statements
    that were read.
    """
    files = statement_files(found.run / FOLDER)
    if not files:
        found.add("gap", FOLDER, "there are no statements; the run was made without them")
    number, before, whole = 0, None, True
    for path in files:
        try:
            one = read_statement(path.name, path.read_bytes())
        except BadStatementError as error:
            found.add("broken", f"{FOLDER}/{path.name}", str(error).partition(": ")[2])
            number, whole = number + 1, False
            continue
        _check_place(found, one, number, before, whole=whole)
        number, before, whole = one.number, one, True
        found.statements.append(one)
    _check_signatures(found, key)
    _check_references(found)


def _check_place(
    found: Verified, one: Statement, number: int, before: Statement | None, *, whole: bool
) -> None:
    """Check that a statement follows the one before.

    Args:
        found: Findings so far.
        one: The statement.
        number: Number of the one before.
        before: The one before that could be read.
        whole: Whether that is the one before.
    """
    link = f"{FOLDER}/{one.file}"
    if not one.file.startswith(f"{one.number:06d}-{one.kind}."):
        found.add("broken", link, f"is {one}, under another name")
    elif one.number > number + 1:
        missing = ", ".join(str(n) for n in range(number + 1, one.number))
        found.add("broken", link, f"statement {missing} before it is missing")
    elif one.number <= number:
        found.add("broken", link, f"a second statement has the number {one.number}")
    elif whole and one.previous != (before and before.digest):
        changed = f"{FOLDER}/{before.file}" if before else link
        found.add("broken", changed, f"has other content than when {one} was written")


def _check_signatures(found: Verified, key: Verifier | None) -> None:
    unsigned = [one for one in found.statements if not one.signatures]
    signers = {name[:16] for one in found.statements for name, _ in one.signatures}
    if key is not None:
        for one in found.statements:
            _check_signature(found, f"{FOLDER}/{one.file}", one, key)
        return
    for one in unsigned if signers else ():
        found.add("broken", f"{FOLDER}/{one.file}", "is not signed, although others are")
    carried = _carried_keys(found) if signers else {}
    for one in found.statements if carried else ():
        for name in (name for name, _ in one.signatures if name in carried):
            _check_signature(found, f"{FOLDER}/{one.file}", one, carried[name])
    for name in sorted(signers):
        checked = any(known.startswith(name) for known in carried)
        text = "is carried by the statements themselves" if checked else "was not checked"
        found.add("note", FOLDER, f"the key {name} that signed {text}; give --key to check it")
    if signers:
        return
    if unsigned:
        found.add("note", FOLDER, "unsigned: they show damage and mistakes, but no forgery")


def _carried_keys(found: Verified) -> dict[str, Verifier]:
    """Return the public keys that the statements carry, by identity; none that cannot be used, and
    none without the package cryptography.
    """
    keys = dict[str, Verifier]()
    for one in found.of("start"):
        with suppress(ConfigError, TypeError, KeyError, AttributeError):
            key = PublicKey(one.predicate["signer"]["public"].encode(), "signer")
            keys[key.key_id] = key
    return keys


def _check_signature(found: Verified, link: str, one: Statement, key: Verifier) -> None:
    if not one.signatures:
        found.add("broken", link, "is not signed")
    elif all(name != key.key_id for name, _ in one.signatures):
        names = ", ".join(name[:16] for name, _ in one.signatures)
        found.add("broken", link, f"is signed by key {names}, not by {key.key_id[:16]}")
    elif not any(
        name == key.key_id and key.has_signed(one.message, signature)
        for name, signature in one.signatures
    ):
        found.add("broken", link, "its signature is forged: the key has not signed this content")


def _check_references(found: Verified) -> None:
    """Check that the statements that one continues, follows or belongs to come before it."""
    known = dict[str, str]()
    starts = dict[str, int]()
    for one in found.statements:
        link = f"{FOLDER}/{one.file}"
        name = {"start": "continues", "checkpoint": "follows", "result": "checkpoint"}
        before = one.predicate.get(name.get(one.kind, ""))
        if before and known.get(before["name"]) != before["sha256"]:
            found.add("broken", link, f"follows {before['name']}, which was not stated before")
        if one.kind == "start":
            starts[one.digest] = one.predicate["attempt"]
        if one.kind == "checkpoint":
            predicate = one.predicate
            known[predicate["name"]] = one.state
            if predicate["start"] is None:
                text = "belongs to an attempt that stated nothing about itself"
                found.add("gap", f"{CHECKPOINTS}/{predicate['name']}", text)
            elif starts.get(predicate["start"]) != predicate["attempt"]:
                found.add("broken", link, "belongs to a start that was not stated before")
            if before and predicate["step"] <= _step(before["name"]):
                text = f"step {predicate['step']} follows the later {before['name']}"
                found.add("broken", link, text)


def _step(name: str) -> int:
    key = key_of(name)
    return key.step if key else -1
