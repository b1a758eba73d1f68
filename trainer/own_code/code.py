"""The code of an own network, which is part of its run.

config.json and each checkpoint have the digests of the builder's files and of the network that
these built. The run folder keeps the files in `code/DIGEST`, so that a checkpoint is used with the
code that wrote it, whatever has become of the source since.

The files are those that a job takes with it: all Python files of the package with the builder.
"""

import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from common.errors import ConfigError
from common.files import write_atomically
from common.source_files import package_files
from common.text import plural
from trainer.errors import CheckpointError
from trainer.own_code.importer import find_present, import_from, package_of

FOLDER: Final = "code"
"""Folder of the kept files in a run folder."""
_THIS_PROJECT: Final = ("trainer", "common")
"""Packages whose version is that of the trainer, so that runs need not keep them."""
_DIGITS: Final = 16


@dataclass(frozen=True)
class OwnCode:
    """The code of a run's own network, as config.json and each checkpoint state it."""

    files: Mapping[str, str]
    """SHA-256 of each file, by its path relative to the folder that contains the package."""
    graph: str | None = None
    """Digest of the network that they built, see `trainer.model.own_graph`; None if it was built
    in parts."""

    @staticmethod
    def from_json(data: Mapping[str, Any] | None) -> "OwnCode | None":
        """Read the data that `to_json` returns; None if there are none."""
        return None if data is None else OwnCode(dict(data["files"]), data["graph"])

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"files": dict(self.files), "graph": self.graph}

    @property
    def digest(self) -> str:
        """Digest of the names and contents of the files."""
        lines = "".join(f"{name}\n{self.files[name]}\n" for name in sorted(self.files))
        return hashlib.sha256(lines.encode()).hexdigest()[:_DIGITS]

    def changes(self, contents: Mapping[str, bytes]) -> list[str]:
        """List these files that are missing among others, or differ there. Further ones are not a
        change, because none of these files has imported them.
        """
        now = _digests(contents)
        return sorted(name for name, digest in self.files.items() if now.get(name) != digest)


@dataclass(frozen=True)
class CodeChoice:
    """The code that a network is built from."""

    code: OwnCode
    contents: Mapping[str, bytes] = field(repr=False)
    """Content of each file."""
    folder: Path | None = None
    """Folder of a run that keeps the files; None if Python finds them."""
    changed: Sequence[str] = ()
    """Files that have changed since the run used them."""
    accepted: bool = False
    """Whether the changed ones are used."""
    builder: str = ""
    """The builder, as package.module:function."""

    @property
    def notes(self) -> list[str]:
        """Say which files have changed and whether they are used, in one sentence; none if none
        has.
        """
        if not self.changed:
            return []
        names = _listed(self.changed)
        if self.accepted:
            return [f"{names}: used as now, not as before (this changes the result of the run)"]
        return [
            f"{names}: the network is built from the code that the run keeps in {self.folder};"
            " --accept-changed-code builds it from the present code"
        ]

    def use(self) -> None:
        """Have Python import the package of the builder from the chosen files. Modules that it has
        loaded from others are loaded again.
        """
        package = package_of(self.builder)
        import_from(package, self.folder, self.code.digest, anew=self.accepted)

    def keep(self, run: Path) -> None:
        """Write the files into a run folder, unless it has them.

        Raises:
            OSError: They cannot be written.
        """
        folder = _kept_in(run, self.code)
        for name in self.code.changes(_read(folder, self.code)):
            write_atomically(folder / name, self.contents[name])

    def is_of_run(self, graph: str | None) -> bool:
        """Return whether files and network are those that the run used before.

        Args:
            graph: Digest of the network that was built; None if it was built in parts.
        """
        known = None not in (self.code.graph, graph)
        return not ((self.accepted and self.changed) or (known and self.code.graph != graph))

    def check_graph(self, graph: str | None, run: Path) -> OwnCode:
        """Check that the files have built the network of the run, unless others are accepted.

        Args:
            graph: Digest of the network that was built; None if it was built in parts.
            run: Folder of the run, for errors.

        Returns:
            The code with the digest.

        Raises:
            CheckpointError: They have built another one.
        """
        if self.accepted or self.is_of_run(graph):
            return replace(self.code, graph=graph or self.code.graph)
        raise CheckpointError(
            f"{run}: {self.builder} builds another network than this run had, although its files"
            " are the same: something that they import from outside of the package, or the version"
            " of Keras, has changed; undo that, or use this network with --accept-changed-code"
        )


def code_of_checkpoint(
    builder: str | None, run: Path, meta: Mapping[str, Any], *, accept: bool
) -> CodeChoice | None:
    """Choose the code of the network of a checkpoint, and say which files have changed since.

    Args:
        builder: The builder of an own network, or None.
        run: Folder of the run.
        meta: Metadata of the checkpoint.
        accept: Whether to use files that have changed.

    Returns:
        The code; None if the network is not an own one.

    Raises:
        ConfigError, CheckpointError: See `choose_code`.
    """
    if builder is None:
        return None
    choice = choose_code(builder, run, OwnCode.from_json(meta.get("own_network")), accept=accept)
    for note in choice.notes:
        print(f"changed: {note}", file=sys.stderr, flush=True)
    return choice


def different_ranks(builder: str, codes: Sequence[Mapping[str, Any]]) -> str | None:
    """Say which ranks would build their network from other files than rank 0; None if none would.

    Args:
        builder: The builder.
        codes: Code of each rank, as `OwnCode.to_json` returns it.
    """
    first = codes[0]["files"]
    for rank, code in enumerate(codes):
        other = [name for name in first if code["files"].get(name) != first[name]]
        if other:
            return (
                f"--model.builder: {builder}: {other[0]} of rank {rank} differs from that of rank"
                " 0; give all machines the same files"
            )
    return None


def choose_code(builder: str, run: Path, before: OwnCode | None, *, accept: bool) -> CodeChoice:
    """Choose the code of an own network: that of its run, or the present one of a new run.

    Args:
        builder: The builder, as package.module:function.
        run: Folder of the run.
        before: Code of the run; None if it is new, or of a version that did not state it.
        accept: Whether to use files that have changed since.

    Raises:
        ConfigError: The run is new, and there is no such package.
        CheckpointError: Files have changed, and the run folder does not have those that it kept; or
            the changed ones are accepted, but there is no package.
    """
    present = _present(builder)
    if before is None or (present is not None and accept and before.changes(present)):
        if present is None:
            raise ConfigError(
                [
                    f"--model.builder: there is no package or module {package_of(builder)}; start"
                    " the training in the folder that contains it"
                ]
            )
        changed = before.changes(present) if before else []
        return CodeChoice(
            OwnCode(_digests(present)), present, None, changed, accept, builder=builder
        )
    changed = before.changes(present or {})
    if not changed:
        return CodeChoice(before, present or {}, accepted=accept, builder=builder)
    folder = _kept_in(run, before)
    contents = _read(folder, before)
    damaged = before.changes(contents)
    if damaged:
        raise CheckpointError(
            f"{run}: {_listed(changed)} changed since this run was built from it, and"
            f" {folder / damaged[0]}, which the run kept, is missing or damaged; undo the change,"
            " or use the changed code with --accept-changed-code"
        )
    return CodeChoice(before, contents, folder, changed, builder=builder)


def _present(builder: str) -> dict[str, bytes] | None:
    """Read the files of a builder's package where Python finds it; None if there is none."""
    package = package_of(builder)
    if package in _THIS_PROJECT:
        return {}
    spec = find_present(package)
    if spec is None:
        return None
    # A package without __init__.py may be in several folders.
    places = [Path(place).parent for place in spec.submodule_search_locations or ()]
    if not places and spec.origin is not None:
        places = [Path(spec.origin).parent]
    return {
        name: path.read_bytes()
        for place in reversed(places)
        for name, path in package_files(package, place).items()
        if path.suffix == ".py" and path.is_file()
    }


def _digests(contents: Mapping[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}


def _read(folder: Path, code: OwnCode) -> dict[str, bytes]:
    """Read those files of a code that a folder has."""
    names = (name for name in code.files if (folder / name).is_file())
    return {name: (folder / name).read_bytes() for name in names}


def _listed(names: Sequence[str]) -> str:
    more = len(names) - 3
    return ", ".join(names[:3]) + (f" and {plural(more, 'more file')}" if more > 0 else "")


def _kept_in(run: Path, code: OwnCode) -> Path:
    return run / FOLDER / code.digest
