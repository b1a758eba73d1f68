"""Upload a file to a blob: hashed while it is read, in blocks if it is large, complete or absent.

Block names are derived from position and content. By them, the blocks that an interrupted upload
has already sent are recognized, even if other parts of the file have changed since.
"""

import hashlib
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.storage.blob import BlobBlock, BlobClient, ContainerClient, ContentSettings

from jobs.azure.storage import MIB, XXH128, Blob
from jobs.errors import ConflictError
from jobs.retry import Retry
from jobs.transfer.local_files import Hashes, LocalError, LocalFile
from jobs.transfer.progress import Progress

BLOCK: Final = 8 * MIB
"""Bytes per block; a file of at most this size is sent in one request."""
MAX_BLOCKS: Final = 50_000
"""Blocks per blob (Azure, "Scalability and performance targets for Blob storage")."""
ATTEMPTS: Final = 3
"""Attempts to upload and commit the blocks, in case the server has lost accepted ones."""


@dataclass
class BlobUploader:
    """Uploads files to a folder of a container; shared by many threads."""

    client: ContainerClient
    folder: str
    """Folder in the container."""
    retry: Retry
    """Retries of the client, which also stop the upload."""
    progress: Progress
    """Counts the uploaded bytes."""
    threads: int
    """Number of files, and of blocks of large files, to upload concurrently."""
    overwrite: bool
    """Whether to replace blobs with other content."""
    complete: ConflictError | None = None
    """Error to raise instead of sending a file to a folder that must not change, or None."""
    remedy: str = "--overwrite True replaces it"
    """What to do about a blob with other content."""

    def __post_init__(self) -> None:
        self._blocks = ThreadPoolExecutor(self.threads)
        # Bounds the number of blocks that are in memory and not yet sent.
        self._slots = threading.Semaphore(2 * self.threads)

    def send(self, file: LocalFile, existing: Blob | None) -> tuple[Hashes, bool]:
        """Upload a file unless its blob exists.

        Args:
            file: File to upload.
            existing: Blob of the file's name, or None.

        Returns:
            Hashes of the file, and whether it was sent.

        Raises:
            ChangedError: The file has changed since the folder was scanned.
            LocalError: The file cannot be read, does not match the manifest, or its blob has other
                content and must not be replaced.
            ConflictError: The folder must not change, but would.
            StoppedError: The work was stopped.
            AzureError: The container refused the request.
        """
        if existing is not None and existing.size == file.size:
            hashes = self._hash(file)
            if existing.md5 == hashes.md5:
                self.progress.kept(file.size)
                return hashes, False
        if self.complete is not None:
            raise self.complete
        if existing is not None and not self.overwrite:
            state = "with other content" if existing.md5 else "without a hash to compare with"
            raise LocalError(
                f"{file.name}: already exists in {self.folder}, {state}; {self.remedy}"
            )
        blob = self.client.get_blob_client(f"{self.folder}/{file.name}")
        put = self._put if file.size <= BLOCK else self._put_blocks
        return put(blob, file), True

    def _hash(self, file: LocalFile) -> Hashes:
        reader = file.reader()
        for _ in reader.blocks(BLOCK):
            self.retry.check()
        return reader.hashes

    def _put(self, blob: BlobClient, file: LocalFile) -> Hashes:
        reader = file.reader()
        content = b"".join(reader.blocks(BLOCK))
        hashes = reader.hashes
        blob.upload_blob(
            content,
            length=len(content),
            overwrite=True,
            validate_content=True,
            **_described(hashes),
        )
        self.progress.moved(len(content))
        return hashes

    def _put_blocks(self, blob: BlobClient, file: LocalFile) -> Hashes:
        for attempt in range(1, ATTEMPTS + 1):
            staged = self._staged(blob)
            reader = file.reader()
            names, sending = [], list[Future[None]]()
            try:
                for number, content in enumerate(reader.blocks(block_size(file.size))):
                    self.retry.check()
                    name = block_name(number, content)
                    names.append(name)
                    if staged.get(name) == len(content):
                        self.progress.kept(len(content) if attempt == 1 else 0)
                        continue
                    self._slots.acquire()
                    sending.append(self._blocks.submit(self._stage, blob, name, content))
                hashes = reader.hashes
            finally:
                # Also after an error: no block may arrive after this file is finished.
                errors = [future.exception() for future in sending]
            for error in errors:
                if error is not None:
                    raise error
            if self._commit(blob, names, hashes, last=attempt == ATTEMPTS):
                break
        return hashes

    def _staged(self, blob: BlobClient) -> Mapping[str, int]:
        """Return the sizes of uncommitted blocks, by name."""
        try:
            _, blocks = blob.get_block_list("uncommitted")
        except ResourceNotFoundError as error:
            if error.error_code == "ContainerNotFound":  # type: ignore[attr-defined]
                raise
            return {}
        if any(len(block.id) != NAME_LENGTH for block in blocks):
            raise LocalError(
                f"{blob.blob_name}: has blocks of another program's unfinished upload; finish that"
                " upload, or choose another folder (storage drops such blocks after a week)"
            )
        return {block.id: block.size for block in blocks}

    def _stage(self, blob: BlobClient, name: str, content: bytes) -> None:
        try:
            blob.stage_block(name, content, len(content), validate_content=True)
            self.progress.moved(len(content))
        finally:
            self._slots.release()

    def _commit(self, blob: BlobClient, names: list[str], hashes: Hashes, *, last: bool) -> bool:
        """Commit the blocks to a blob; return False if the server has lost some of them."""
        try:
            blob.commit_block_list([BlobBlock(name) for name in names], **_described(hashes))
        except HttpResponseError as error:
            if last or error.error_code != "InvalidBlockList":  # type: ignore[attr-defined]
                raise
            return False
        return True


def block_size(size: int) -> int:
    """Return the bytes per block for a file size; constant, so that blocks are found again."""
    least = -(-size // MAX_BLOCKS)
    return max(BLOCK, -(-least // MIB) * MIB)


def block_name(number: int, content: bytes) -> str:
    """Return the name of a block, derived from its position and content."""
    digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
    return f"{number:05d}-{digest}"


NAME_LENGTH: Final = len(block_name(0, b""))
"""Length of block names; storage requires it to be the same for all blocks of a blob."""


def _described(hashes: Hashes) -> dict[str, Any]:
    """Return the arguments by which a blob is stored with its hashes."""
    return {
        "content_settings": ContentSettings(content_md5=bytearray(hashes.md5)),
        "metadata": {} if hashes.xxh128 is None else {XXH128: hashes.xxh128},
    }
