"""Statements about a run: in-toto Statement v1 in DSSE envelopes, a file each. Standard library
only.

RUN/evidence/000012-checkpoint.json is the twelfth statement. Each holds the SHA-256 of the file of
the one before, so that none can be changed, left out or moved without a trace in all later ones.
Files are created and never written again. Formats: https://github.com/in-toto/attestation
(spec/v1/statement.md) and https://github.com/secure-systems-lab/dsse (protocol.md, envelope.md).
"""

import base64
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from common.files import parse_json
from trainer.export.layout import FOLDER as EXPORT

FOLDER: Final = "evidence"
"""Name of the folder of statements in a run folder."""
CHECKPOINTS, STATE = "checkpoints", "state.safetensors"
"""Names of the folder of checkpoints, and of the file of each that has the tensors."""
CODE: Final = "code"
"""Name of the folder of an own network's code in a run folder, and of this project's code among
the subjects of a start."""
_NO_RESULTS: Final = {
    *("config.json", FOLDER, CHECKPOINTS, EXPORT, CODE),
    # Logs that another thread, or the next attempt, may still write to.
    *("tblogs", "profile", "mlperf"),
}
"""Files and folders of a run that a statement about a result leaves out."""
STATEMENT: Final = "https://in-toto.io/Statement/v1"
PAYLOAD: Final = "application/vnd.in-toto+json"
PREDICATE: Final = "urn:ml-azure-horovod:evidence:{kind}:v1"
Kind = Literal["start", "checkpoint", "result", "export"]
KINDS: Final[tuple[Kind, ...]] = ("start", "checkpoint", "result", "export")
_STATED: Final[Mapping[str, frozenset[str]]] = {
    "start": frozenset({"attempt", "step", "configuration", "data", "code", "packages"}),
    "checkpoint": frozenset({"name", "attempt", "step", "start", "missed", "score"}),
    "result": frozenset({"step", "result"}),
    "export": frozenset({"step", "facts"}),
}
"""What every statement of a kind says."""
_FILE: Final = re.compile(rf"(\d{{6,}})-({'|'.join(KINDS)})\.json")


class Signer(Protocol):
    """Signs statements."""

    key_id: str
    """SHA-256 of the public key (DER of its SubjectPublicKeyInfo), in hexadecimal."""
    public: str
    """The public key, in PEM."""
    address: str | None
    """Address of the key in Key Vault, with its version; None of a key in a file."""

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message."""


class BadStatementError(ValueError):
    """A file is not a statement of a chain."""


@dataclass(frozen=True)
class Statement:
    """One statement, as a file of a chain has it."""

    file: str
    """Name of the file."""
    digest: str
    """SHA-256 of the file, in hexadecimal."""
    number: int
    """Number in the chain, from 1 on."""
    kind: Kind
    previous: str | None
    """Digest of the statement before; None for the first one."""
    subjects: Mapping[str, str]
    """SHA-256 of its subjects, by name: paths relative to the run folder."""
    predicate: Mapping[str, Any]
    message: bytes = field(repr=False)
    """What signatures sign."""
    signatures: Sequence[tuple[str, bytes]] = ()
    """Identity of the key and signature, each."""

    @property
    def state(self) -> str:
        """Digest of the tensors, of a statement about a checkpoint."""
        return self.subjects[f"{CHECKPOINTS}/{self.predicate['name']}/{STATE}"]

    def __str__(self) -> str:
        return f"statement {self.number} ({self.kind})"


def digest_of(content: bytes) -> str:
    """Return a SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def digest_file(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def export_digests(run: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a run's export, by its path in the run folder."""
    paths = sorted(path for path in (run / EXPORT).rglob("*") if path.is_file())
    return {path.relative_to(run).as_posix(): digest_file(path) for path in paths}


def result_digests(run: Path) -> dict[str, str]:
    """Return the SHA-256 of each file that a run writes about its result, by its path in the run
    folder: figures, predictions, pages and images.
    """
    parts = [
        path
        for part in run.iterdir()
        if part.name not in _NO_RESULTS
        and not part.name.startswith(".")
        # Written by another thread when the attempt ends.
        and not part.name.endswith("-events.json")
        for path in (part.rglob("*") if part.is_dir() else [part])
    ]
    return {
        path.relative_to(run).as_posix(): digest_file(path)
        for path in sorted(parts)
        if path.is_file()
    }


def canonical(data: Any) -> bytes:
    """Return plain data as the one JSON text that digests of them are taken of."""
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode()


def pre_authentication(payload: bytes) -> bytes:
    """Return what DSSE signs: type and payload with their lengths."""
    kind = PAYLOAD.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def to_envelope(statement: Mapping[str, Any], signer: Signer | None) -> bytes:
    """Return the file of a statement."""
    payload = canonical(statement)
    signatures = []
    if signer is not None:
        signed = base64.b64encode(signer.sign(pre_authentication(payload))).decode()
        signatures.append({"keyid": signer.key_id, "sig": signed})
    envelope = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": PAYLOAD,
        "signatures": signatures,
    }
    return json.dumps(envelope, indent=1).encode() + b"\n"


def read_statement(name: str, content: bytes) -> Statement:
    """Read the file of a statement.

    Args:
        name: Name of the file.
        content: Its content.

    Raises:
        BadStatementError: It is truncated, or not a statement of this kind.
    """
    match = _FILE.fullmatch(name)
    try:
        envelope = parse_json(content)
        payload = base64.b64decode(envelope["payload"], validate=True)
        data = parse_json(payload)
        predicate = dict(data["predicate"])
        chain = predicate.pop("chain")
        previous = chain["previous"]
        kind = next(kind for kind in KINDS if data["predicateType"] == PREDICATE.format(kind=kind))
        statement = Statement(
            name,
            digest_of(content),
            int(chain["number"]),
            kind,
            previous["sha256"] if previous else None,
            {str(entry["name"]): str(entry["digest"]["sha256"]) for entry in data["subject"]},
            predicate,
            pre_authentication(payload),
            [(entry["keyid"], base64.b64decode(entry["sig"])) for entry in envelope["signatures"]],
        )
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
        raise BadStatementError(f"{name}: is truncated, or not a statement") from error
    missing = _STATED[kind] - predicate.keys()
    if missing:
        raise BadStatementError(f"{name}: is not a statement about this; it lacks {min(missing)}")
    if envelope.get("payloadType") != PAYLOAD or data.get("_type") != STATEMENT or match is None:
        raise BadStatementError(f"{name}: is not an in-toto statement")
    return statement


def statement_files(folder: Path) -> list[Path]:
    """Return the files of the statements in a folder, in their order; empty without the folder."""
    files = [path for path in folder.glob("*.json") if _FILE.fullmatch(path.name)]
    return sorted(files, key=lambda path: (number_of(path), path.name))


def number_of(path: Path) -> int:
    """Return the number in the name of a statement's file."""
    return int(path.name.partition("-")[0])


def number_taken(folder: Path, number: int) -> bool:
    """Return whether a folder has a statement of this number, of whatever kind."""
    return any((folder / f"{number:06d}-{kind}.json").exists() for kind in KINDS)


def read_statements(folder: Path) -> Iterator[Statement]:
    """Yield the statements of a folder that can be read, in their order."""
    for path in statement_files(folder):
        with suppress(BadStatementError):
            yield read_statement(path.name, path.read_bytes())


class Chain:
    """The statements of a run, to be continued."""

    def __init__(self, run: Path, signer: Signer | None = None) -> None:
        self.folder, self._run, self._signer = run / FOLDER, run.name, signer
        self._stated: list[Statement] = []
        self._last: tuple[int, str] | None = None
        self._read()

    @property
    def signer(self) -> dict[str, str | None] | None:
        """The public half of the key that signs, as statements carry it; None without a key."""
        key = self._signer
        if key is None:
            return None
        return {"keyid": key.key_id, "public": key.public, "address": key.address}

    @property
    def statements(self) -> Sequence[Statement]:
        """The statements so far."""
        return self._stated

    def _read(self) -> None:
        self._stated = list(read_statements(self.folder))
        files = statement_files(self.folder)
        # Whether or not it can be read.
        self._last = (number_of(files[-1]), digest_file(files[-1])) if files else None

    def append(
        self, kind: Kind, subjects: Mapping[str, str], predicate: Mapping[str, Any]
    ) -> Statement:
        """Write the next statement; return when it is complete.

        Args:
            kind: Kind of the statement.
            subjects: SHA-256 of its subjects, by name.
            predicate: Its content.

        Raises:
            OSError: It cannot be written.
        """
        # Made here, as a file of that name would look like a statement of the same number.
        self.folder.mkdir(parents=True, exist_ok=True)
        while True:
            number = self._last[0] + 1 if self._last else 1
            previous = {"sha256": self._last[1]} if self._last else None
            chain = {"run": self._run, "number": number, "previous": previous}
            statement = {
                "_type": STATEMENT,
                "subject": [
                    {"name": name, "digest": {"sha256": value}} for name, value in subjects.items()
                ],
                "predicateType": PREDICATE.format(kind=kind),
                "predicate": {"chain": chain, **predicate},
            }
            name, content = f"{number:06d}-{kind}.json", to_envelope(statement, self._signer)
            # Also under another kind, as only numbers are exclusive.
            if number_taken(self.folder, number):
                self._read()
                continue
            try:
                _publish(self.folder / name, content)
            except FileExistsError:
                self._read()
                continue
            stated = read_statement(name, content)
            self._last = (number, stated.digest)
            self._stated.append(stated)
            return stated


def _publish(path: Path, content: bytes) -> None:
    """Create a file that is complete from its first moment on.

    Raises:
        FileExistsError: There is one of this name: an earlier attempt that still lives has written
            it.
    """
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    scratch.write_bytes(content)
    try:
        try:
            os.link(scratch, path)
        except FileExistsError:
            raise
        except OSError:
            # A mount of an object store has no links.
            if path.exists():
                raise FileExistsError(path) from None
            scratch.rename(path)
    finally:
        scratch.unlink(missing_ok=True)
