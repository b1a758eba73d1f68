"""Upload a file to a blob: hashed while it is read, in blocks if it is large, complete or absent.

Block names are derived from position and content. By them, the blocks that an interrupted upload
has already sent are recognized, even if other parts of the file have changed since; the SDK's
`upload_blob` would send an archive of 138 GB from its beginning again.
"""

import hashlib
import threading
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Final

from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.storage.blob import BlobBlock, BlobClient, ContainerClient, ContentSettings

from jobs.azure.storage import MIB, XXH128, Blob
from jobs.errors import ConflictError, RequestError
from jobs.retry import Retry
from jobs.transfer.local_files import LocalError, LocalFile
from jobs.transfer.progress import Progress

BLOCK: Final = 8 * MIB
"""Bytes per block; a file of at most this size is sent in one request."""
MAX_BLOCKS: Final = 50_000
"""Blocks per blob (Azure, "Scalability and performance targets for Blob storage")."""
ATTEMPTS: Final = 3
"""Full reads of a file whose list of blocks storage refuses, as when it has lost some of them."""


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

    def __post_init__(self) -> None:
        self._blocks = ThreadPoolExecutor(self.threads)
        # Bounds the number of blocks that are in memory and not yet sent.
        self._slots = threading.Semaphore(2 * self.threads)
        self._refused = Counter[str]()

    def send(self, file: LocalFile, existing: Blob | None) -> tuple[bytes, bool]:
        """Upload a file unless its blob exists. If storage has lost blocks of it, it stays absent,
        and another call sends them.

        Args:
            file: File to upload.
            existing: Blob of the file's name, or None.

        Returns:
            MD5 of the file, and whether it was sent.

        Raises:
            ChangedError: The file has changed since the folder was scanned.
            LocalError: The file cannot be read, does not match the manifest, or its blob has other
                content and must not be replaced.
            ConflictError: The folder must not change, but would.
            RequestError: Storage has refused the blocks of the file `ATTEMPTS` times.
            StoppedError: The work was stopped.
            AzureError: The container refused the request.
        """
        if existing is not None and existing.size == file.size:
            md5 = hashlib.md5(usedforsecurity=False)
            for _ in file.blocks(BLOCK, md5):
                self.retry.check()
            if existing.md5 == md5.digest():
                self.progress.skipped(file.size)
                return md5.digest(), False
        if self.complete is not None:
            raise self.complete
        if existing is not None and not self.overwrite:
            state = "with other content" if existing.md5 else "without a hash to compare with"
            raise LocalError(
                f"{file.name}: already exists in {self.folder}, {state}; --overwrite True"
                " replaces it"
            )
        blob = self.client.get_blob_client(f"{self.folder}/{file.name}")
        put = self._put if file.size <= BLOCK else self._put_blocks
        return put(blob, file), True

    def _put(self, blob: BlobClient, file: LocalFile) -> bytes:
        md5 = hashlib.md5(usedforsecurity=False)
        content = b"".join(file.blocks(BLOCK, md5))
        blob.upload_blob(
            content,
            length=len(content),
            overwrite=True,
            validate_content=True,
            **_described(file, md5.digest()),
        )
        self.progress.moved(len(content))
        return md5.digest()

    def _put_blocks(self, blob: BlobClient, file: LocalFile) -> bytes:
        md5, staged = hashlib.md5(usedforsecurity=False), self._staged(blob)
        names, sending = [], list[Future[None]]()
        try:
            for number, content in enumerate(file.blocks(block_size(file.size), md5)):
                self.retry.check()
                names.append(block_name(number, content))
                if staged.get(names[-1]) == len(content):
                    self.progress.skipped(len(content))
                    continue
                self._slots.acquire()
                sending.append(self._blocks.submit(self._stage, blob, names[-1], content))
        finally:
            # Also after an error: no block may arrive after this file is finished.
            wait(sending)
        for block in sending:
            block.result()
        described = _described(file, md5.digest())
        try:
            blob.commit_block_list([BlobBlock(name) for name in names], **described)
        except HttpResponseError as error:
            if error.error_code != "InvalidBlockList":  # type: ignore[attr-defined]
                raise
            # Storage has lost some of the blocks, or says so.
            self._refused[file.name] += 1
            if self._refused[file.name] == ATTEMPTS:
                said = str(error.message).partition("\n")[0]
                raise RequestError(
                    f"{blob.blob_name}: storage refused its blocks {ATTEMPTS} times"
                    f" (InvalidBlockList: {said}); check whether another program writes to this"
                    " folder, then run the same command again, which sends only missing files",
                    error.status_code,
                ) from error
        return md5.digest()

    def _staged(self, blob: BlobClient) -> Mapping[str, int]:
        """Return the sizes of uncommitted blocks, by name."""
        try:
            _, blocks = blob.get_block_list("uncommitted")
        except ResourceNotFoundError as error:
            if error.error_code == "ContainerNotFound":  # type: ignore[attr-defined]
                raise
            return {}
        # Storage requires names of the same length of all blocks of a blob.
        if any(len(block.id) != len(block_name(0, b"")) for block in blocks):
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


def block_size(size: int) -> int:
    """Return the bytes per block for a file size; constant, so that blocks are found again."""
    least = -(-size // MAX_BLOCKS)
    return max(BLOCK, -(-least // MIB) * MIB)


def block_name(number: int, content: bytes) -> str:
    """Return the name of a block, derived from its position and content."""
    digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
    return f"{number:05d}-{digest}"


def _described(file: LocalFile, md5: bytes) -> dict[str, Any]:
    """Return the arguments by which a blob is stored with its hashes."""
    return {
        "content_settings": ContentSettings(content_md5=bytearray(md5)),
        "metadata": {} if file.xxh128 is None else {XXH128: file.xxh128},
    }
