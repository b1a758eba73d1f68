"""Makes a folder of a container equal to a local one, and registers it.

The container is listed until nothing lacks, and the manifest is sent last: a data set that has one
is complete. What is there already, with the same size and hash, is not sent again.
"""

import hashlib
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from infra.outputs import Datastore
from jobs.assets import data_sets
from jobs.assets.data_sets import DataAsset
from jobs.azure.storage import Blob, container, listed
from jobs.azure.workspace import Workspace
from jobs.errors import RequestError
from jobs.retry import Patience
from jobs.spec.job_spec import place
from jobs.transfer.blob_upload import OccupiedError, Sender
from jobs.transfer.local_files import Folder, Hashes, LocalError, Wanted, listing, look_through
from jobs.transfer.parallel import each
from jobs.transfer.progress import Progress, volume
from trainer.data.manifest import FILE_NAME, Manifest, load_manifest
from trainer.errors import DataError

if TYPE_CHECKING:
    from jobs.commands.upload import UploadOptions

VERSION_LENGTH: Final = 16
"""Hexadecimal digits, as of a manifest's version."""


@dataclass(frozen=True)
class DataSet:
    """What is sent."""

    folder: Folder
    manifest: Manifest | None

    @cached_property
    def wanted(self) -> dict[str, Wanted]:
        """All files, by name, with the manifest's checksums."""
        splits = self.manifest.splits.values() if self.manifest else ()
        sums = {shard.file: shard.xxh128 for split in splits for shard in split.shards}
        return {name: Wanted(file, sums.get(name)) for name, file in self.folder.files.items()}

    @property
    def last(self) -> str | None:
        """The file whose presence means that all others are there."""
        return FILE_NAME if self.manifest else None

    def version(self, hashes: Mapping[str, Hashes]) -> str:
        """Of the registered data set: the manifest's, or a hash of all names and contents.

        Args:
            hashes: of all files, where there is no manifest.
        """
        if self.manifest is not None:
            return self.manifest.version
        whole = hashlib.sha256()
        for name, file in self.folder.files.items():
            for part in (name.encode(), file.size.to_bytes(8, "big"), hashes[name].md5):
                whole.update(len(part).to_bytes(8, "big") + part)
        return whole.hexdigest()[:VERSION_LENGTH]

    def tags(self) -> dict[str, str]:
        """Of the registered data set."""
        content = None
        if self.manifest is not None:
            content = self.folder.files[FILE_NAME].path.read_bytes()
        return tags(len(self.folder.files), self.folder.bytes, self.manifest, content)


def tags(files: int, size: int, manifest: Manifest | None, content: bytes | None) -> dict[str, str]:
    """Of a registered data set.

    Args:
        files: in all.
        size: bytes in all.
        manifest: if it has one.
        content: of the manifest's file.
    """
    found = {"files": str(files), "bytes": str(size)}
    if manifest is not None and content is not None:
        images = sum(split.examples for split in manifest.splits.values())
        found |= {"images": str(images), "classes": str(len(manifest.classes))}
        found["manifest"] = hashlib.sha256(content).hexdigest()
    return found


def read_data_set(place: Path) -> DataSet:
    """Look through a folder, and compare it with its manifest if it has one.

    Raises:
        LocalError: it cannot be sent, or does not fit its manifest.
    """
    folder = look_through(place)
    if not folder.files:
        raise LocalError(f"{place}: holds no files to send")
    if not place.is_dir() or FILE_NAME not in folder.files:
        return DataSet(folder, None)
    try:
        manifest = load_manifest(place)
    except DataError as error:
        raise LocalError(str(error)) from error
    shards = {shard.file for split in manifest.splits.values() for shard in split.shards}
    lacking = sorted(shards - set(folder.files))
    if lacking:
        raise LocalError(f"{place}: {lacking[0]} is in the manifest, but hidden; rename it")
    return DataSet(folder, manifest)


ROUNDS: Final = 8
"""Times that a container is listed and completed; two are enough unless it loses what it took."""


class Upload:
    """One upload."""

    def __init__(
        self,
        options: "UploadOptions",
        store: Datastore,
        data: DataSet,
        workspace: Workspace,
        progress: Progress,
    ) -> None:
        self._options, self._store, self._data = options, store, data
        self._workspace, self._progress = workspace, progress
        self._patience = Patience(options.patience_minutes * 60, progress.say)
        self._client = container(
            store, workspace.credential, connections=2 * options.threads, retries=0
        )
        self._known: dict[str, Hashes] = {}
        self._problems: list[str] = []
        self._new: set[str] = set()

    def preview(self) -> dict[str, object]:
        """What would be sent, without reading the files."""
        there = self._listed()
        would: dict[str, list[str]] = {"send": [], "compare": [], "replace": [], "keep": []}
        for name, wanted in self._data.wanted.items():
            blob = there.get(name)
            if blob is None:
                would["send"].append(name)
            elif same(wanted, blob, None):
                would["keep"].append(name)
            else:
                equal = blob.size == wanted.file.size
                would["compare" if equal else "replace"].append(name)
        return {**self._facts(), "would": would}

    def run(self) -> dict[str, object]:
        """Send what lacks, register it, and say what was done."""
        began = time.monotonic()
        registered = self._registered()
        if self._data.manifest is not None:
            data_sets.check(self._asset({}), registered)
        here = place(self._asset_uri)
        owner = next((v for v, at in registered.items() if at == here), None)
        # Of a manifest's own version a lost file may be sent again; it is the same file.
        closed = owner if self._data.manifest is None else None
        self._complete(closed)
        asset = self._asset(self._known)
        if self._options.register and not data_sets.check(asset, registered):
            data_sets.register(self._workspace, asset)
        return {
            **self._facts(),
            "asset": asset.reference if self._options.register else None,
            "new_files": len(self._new),
            "sent_bytes": self._progress.total_moved,
            "seconds": round(time.monotonic() - began, 1),
        }

    def say_how_far(self) -> None:
        """Tell a person that nothing is lost."""
        self._progress.say(
            f"stopped: {len(self._new):,} of {len(self._data.wanted):,} files and"
            f" {volume(self._progress.total_moved)} were sent now; the same command sends what is"
            " still missing, and no more"
        )

    def _complete(self, closed: str | None) -> None:
        """Send what lacks until nothing does; what is there is compared, not believed."""
        for _ in range(ROUNDS):
            there = self._listed()
            lacking = [
                wanted
                for name, wanted in self._data.wanted.items()
                if not self._is_there(wanted, there.get(name))
            ]
            now = [one for one in lacking if one.file.name != self._data.last] or lacking
            if not now:
                return
            self._send(now, there, closed)
        raise RequestError(
            f"container {self._store.container} of {self._store.account}: lists other files than it"
            " was sent, again and again; does someone else write to this folder?"
        )

    def _send(
        self, wanted: Sequence[Wanted], there: Mapping[str, Blob], closed: str | None
    ) -> None:
        options = self._options
        with ThreadPoolExecutor(options.threads) as blocks:
            sender = Sender(
                self._client,
                options.path,
                self._patience,
                self._progress,
                blocks,
                options.threads,
                overwrite=options.overwrite and closed is None,
                closed=closed is not None,
            )

            def work(one: Wanted) -> None:
                name = one.file.name
                try:
                    sent = sender.send(one, there.get(name))
                except OccupiedError as error:
                    if closed is not None:
                        raise data_sets.sealed(options.asset, closed, options.path) from None
                    self._problems.append(str(error))
                    return
                except LocalError as error:
                    self._problems.append(str(error))
                    return
                if name not in self._known:
                    self._progress.file()
                self._known[name] = sent.hashes
                if sent.new:
                    self._new.add(name)

            each(wanted, work, options.threads, self._patience)
        if self._problems:
            raise LocalError(
                f"{options.folder}: not all of it could be sent:\n{listing(self._problems)}"
            )

    def _is_there(self, wanted: Wanted, blob: Blob | None) -> bool:
        name = wanted.file.name
        if blob is None or not same(wanted, blob, self._known.get(name)):
            return False
        if name not in self._known:
            assert blob.md5 is not None
            self._known[name] = Hashes(blob.md5, blob.xxh128)
            self._progress.kept(blob.size)
            self._progress.file()
        return True

    def _listed(self) -> dict[str, Blob]:
        found = self._patience.ask(lambda: listed(self._client, self._options.path))
        strange = sorted(set(found) - set(self._data.wanted))
        if strange:
            raise LocalError(
                f"{self._options.to}: holds {len(strange)} files that {self._options.folder} does"
                f" not, such as {strange[0]}; upload to an empty folder, or to one where this"
                " upload was interrupted"
            )
        return found

    def _registered(self) -> dict[str, str]:
        if not self._options.register:
            return {}
        # First of all, as what is not there has no data sets either.
        self._workspace.check()
        return data_sets.versions(self._workspace, self._options.asset)

    @property
    def _asset_uri(self) -> str:
        return self._asset_of("0").uri

    def _asset(self, hashes: Mapping[str, Hashes]) -> DataAsset:
        return self._asset_of(self._data.version(hashes))

    def _asset_of(self, version: str) -> DataAsset:
        options = self._options
        return DataAsset(options.asset, version, self._store.name, options.path, self._data.tags())

    def _facts(self) -> dict[str, object]:
        return {
            "uri": self._asset_uri,
            "files": len(self._data.wanted),
            "bytes": self._data.folder.bytes,
        }


def same(wanted: Wanted, blob: Blob, hashes: Hashes | None) -> bool:
    """Whether a blob is a file, as far as can be told without reading the file.

    Args:
        wanted: the file.
        blob: of its name.
        hashes: of the file, if it was read already.
    """
    if blob.size != wanted.file.size or blob.md5 is None:
        return False
    if hashes is not None:
        return blob.md5 == hashes.md5
    return wanted.xxh128 is not None and blob.xxh128 == wanted.xxh128
