"""New names of records, by which everything that follows a preparation calls them. Standard library
only.

A name can hold an identity: that of a patient, a customer or a place. A hashed name is a keyed hash
of the old one (HMAC, RFC 2104), so that only those who have the key can tell whether a file that
they know is in the data set. The key is in no output.
"""

import csv
import hashlib
import hmac
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias

from common.errors import UserError
from common.text import without_details
from trainer.errors import DataError

KEY_VARIABLE: Final = "TRAINER_NAME_KEY"
"""Environment variable with the key of hashed names."""
LEAST_KEY_BYTES: Final = 16
_DIGITS: Final = 32
"""Hexadecimal digits of a hashed name, 128 bits: of a billion files, each has a name of its own."""

_UNTOLD: Final = (
    "the input cannot be used; the reason may quote a name or a content of a file, so it is printed"
    " with --names kept alone: give that and another --output to see it"
)

NamesMode: TypeAlias = Literal["kept", "hashed", "numbered"]
Note: TypeAlias = str | tuple[str, ...]
"""A sentence for the user, which names no file and quotes none; or its parts, of which every second
one does, as those of `RejectedError`."""


@dataclass(frozen=True)
class Naming:
    """How records are named."""

    mode: NamesMode = "kept"
    key: bytes = field(default=b"", repr=False)

    @property
    def changes(self) -> bool:
        """Whether records have other names than their files."""
        return self.mode != "kept"

    def hashed(self, name: bytes) -> str:
        """Return the keyed hash of a name; empty without a key."""
        if not self.key:
            return ""
        return hmac.new(self.key, name, hashlib.sha256).hexdigest()[:_DIGITS]

    def note(self, note: Note) -> str:
        """Return a note as it is printed; if names are changed, without details."""
        parts = (note,) if isinstance(note, str) else note
        return without_details(parts) if self.changes else "".join(parts)

    def reason(self, reason: str, name: str, sentence: str = "") -> str:
        """Return why a file is rejected; if names are changed, without details and without words
        that have a part of its name.

        Args:
            reason: The reason with its details.
            name: Name of the file.
            sentence: The reason without details; empty if it has none.
        """
        if not self.changes:
            return reason
        parts = {part.lower() for part in re.split(r"[/\\\s._]+", name) if len(part) > 1}
        parts |= {part.lower() for part in re.split(r"[/\\]+", name) if part}
        words = re.sub(r" ?\([^()]*\)?", "", sentence or reason).split(" ")
        return " ".join("…" if any(p in word.lower() for p in parts) else word for word in words)


def without_names(error: DataError | OSError) -> DataError | OSError:
    """Return an error of a preparation as it is printed if names are changed: without names and
    contents of files.
    """
    if isinstance(error, DataError):
        return DataError(error.sentence or _UNTOLD)
    # The same class, as a pipe that is closed has a status of its own.
    return type(error)(error.errno, error.strerror) if error.strerror else DataError(_UNTOLD)


def make_naming(
    mode: NamesMode, key_file: str | None, environment: Mapping[str, str]
) -> tuple[Naming, list[str]]:
    """Return how records are named, and the faults of the options.

    Args:
        mode: Value of `--names`.
        key_file: Value of `--name-key`, which has precedence over `TRAINER_NAME_KEY`.
        environment: Environment variables.
    """
    key = environment.get(KEY_VARIABLE, "").encode(errors="surrogateescape")
    if key_file:
        try:
            key = Path(key_file).read_bytes()
        except OSError as error:
            return Naming(mode), [f"--name-key: cannot be read ({error.strerror})"]
    key = key.strip()
    if mode == "kept":
        problem = "--name-key: is for --names hashed or numbered; names are kept"
        return Naming(), [problem] if key_file else []
    if len(key) < LEAST_KEY_BYTES and (key or mode == "hashed"):
        how = f"a file with a key (`openssl rand -hex 32`), or set {KEY_VARIABLE}"
        what = f"has fewer than {LEAST_KEY_BYTES} bytes" if key else "is missing"
        return Naming(mode), [f"--name-key: {what}; name {how}"]
    return Naming(mode, key), []


def table_problems(table: str | None, *outputs: str) -> list[str]:
    """Return the fault of the place of a table of names: it must not be in a folder that is
    written, which may be uploaded as a whole.
    """
    if not table:
        return []
    path = Path(table).resolve()
    if any(path.is_relative_to(Path(output).resolve()) for output in outputs):
        return ["--name-table: is inside the folder that is written, and would leave with it"]
    return [] if path.parent.is_dir() else [f"--name-table: there is no folder {path.parent}"]


def write_table(path: Path, rows: Iterable[tuple[str, str, str]]) -> None:
    """Write which record was which file, readable for this user alone (mode 600).

    Args:
        path: File to write.
        rows: Split, new name and old name of each record and of each rejected file.

    Raises:
        UserError: The file cannot be written.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        with suppress(FileNotFoundError):
            partial.unlink()
        number = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(number, "w", newline="", encoding="utf-8", errors="surrogateescape") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("split", "name", "file"))
            writer.writerows(rows)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror})") from error
