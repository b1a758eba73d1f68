"""Files in the storage of one stack, as the source of an upload to another."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from azure.core import MatchConditions
from azure.storage.blob import ContainerClient

from infra.outputs import Datastore
from jobs.azure.storage import Blob, Storage
from jobs.errors import ConflictError
from jobs.transfer.local_files import ChangedError, Hasher
from trainer.data.manifest import FILE_NAME, Manifest


@dataclass(frozen=True)
class BlobFolder:
    """A folder with a complete data set, in the storage of a stack."""

    storage: Storage
    store: Datastore
    client: ContainerClient
    """Client of the store's container."""
    folder: str
    blobs: Mapping[str, Blob]
    """What is in the folder, by name."""
    manifest: Manifest

    @property
    def files(self) -> dict[str, "BlobFile"]:
        """All files by name, with their checksums in the manifest."""
        splits = self.manifest.splits.values()
        checksums = {shard.file: shard.xxh128 for split in splits for shard in split.shards}
        return {
            name: BlobFile(self, name, blob.size, checksums.get(name), blob.etag)
            for name, blob in sorted(self.blobs.items())
        }

    @property
    def last(self) -> str:
        """Name of the file that is copied last."""
        return FILE_NAME


@dataclass(frozen=True)
class BlobFile:
    """A file as it was when its folder was listed."""

    place: BlobFolder
    name: str
    size: int
    xxh128: str | None
    etag: str

    def reader(self) -> "BlobReader":
        """Return what reads it, once."""
        return BlobReader(self)


class BlobReader(Hasher):
    """Reads a blob once, in ranges whose checksums storage returns; checks that it has not changed
    and that it matches its manifest.
    """

    def __init__(self, file: BlobFile) -> None:
        where = file.place
        self._path = f"{where.folder}/{file.name}"
        super().__init__(f"{where.store.account}/{self._path}", file.xxh128)
        self._file = file

    def blocks(self, size: int) -> Iterator[bytes]:
        """Read the content in blocks of a size; one block is in memory at a time.

        Raises:
            ChangedError: The blob has changed since its folder was listed.
            RequestError: It cannot be read.
        """
        where, left = self._file.place, self._file.size
        try:
            with where.storage.errors(where.store):
                stream = where.client.download_blob(
                    self._path,
                    etag=self._file.etag,
                    match_condition=MatchConditions.IfNotModified,
                    validate_content=True,
                )
            while left:
                with where.storage.errors(where.store):
                    content = bytes(stream.read(min(size, left)))
                left -= len(content)
                self.update(content)
                yield content
        except ConflictError as error:
            raise ChangedError(
                f"{where.store.account}/{self._path}: changed while it was copied; a registered"
                " data set must not change"
            ) from error
