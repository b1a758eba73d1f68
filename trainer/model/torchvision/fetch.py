"""`ml-trainer weights`: published weights, fetched, checked and written as safetensors."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import requests
import safetensors.numpy
from requests.adapters import HTTPAdapter
from rich.progress import Progress
from urllib3.util import Retry

from common.errors import ConfigError, UserError
from common.files import write_atomically
from common.program import installed
from trainer.model.torchvision.options import WeightsOptions
from trainer.model.torchvision.pickled import read_tensors
from trainer.model.torchvision.published import LICENCE, PUBLISHED, Published

_PART: Final = 1 << 16
"""Bytes that are written at once; of a connection that breaks, fewer are lost."""
_TIMEOUT: Final = (10, 60)
"""Seconds to wait for a connection, and for more bytes."""
_RETRY: Final = Retry(total=4, backoff_factor=0.5, status_forcelist=(429, 500, 502, 503, 504))


def run(options: WeightsOptions) -> None:
    """List the published weights, or fetch those of one network.

    Raises:
        ConfigError: There is no such network.
        UserError: The file cannot be fetched, or is not the published one.
    """
    if not options.name:
        print(listing(options.address))
        return
    if options.name not in PUBLISHED:
        known = ", ".join(PUBLISHED)
        raise ConfigError([f"NAME: {options.name!r} has no published weights; known: {known}"])
    published, folder = PUBLISHED[options.name], Path(options.folder)
    output = folder / published.stored
    if not output.is_file():
        file = Path(options.file) if options.file else folder / published.file
        if not options.file and not file.is_file():
            fetch(f"{options.address.rstrip('/')}/{published.file}", file)
        check(file, published, fetched=not options.file)
        convert(file, output, published)
        if not options.file:
            file.unlink()
    print(f"{output}: weights of {options.name}. Licence: {LICENCE}")
    print(f"to start from them: {installed('ml-trainer')} fit DIR --weights {output}")


def listing(address: str) -> str:
    """Return the table of what there is, with the addresses from which it is fetched."""
    folder = address.rstrip("/") + "/"
    lines = [f"{'name':<10} {'size':>9}  {'top-1':>7}  {'SHA-256':<9} address"]
    lines += [
        f"{name:<10} {file.mb:>5.1f} MiB  {file.top1:>5.2f} %  {file.sha256:<9} {folder}{file.file}"
        for name, file in PUBLISHED.items()
    ]
    return "\n".join([*lines, f"licence: {LICENCE}", "nothing was fetched"])


def fetch(address: str, file: Path) -> None:
    """Fetch a file; a download that an earlier attempt has left in FILE.part is continued.

    Raises:
        UserError: It cannot be fetched.
    """
    part = file.with_name(f"{file.name}.part")
    file.parent.mkdir(parents=True, exist_ok=True)
    begun = part.stat().st_size if part.exists() else 0
    with _asking(address, part), requests.Session() as session:
        for scheme in ("https://", "http://"):
            session.mount(scheme, HTTPAdapter(max_retries=_RETRY))
        headers = {"Range": f"bytes={begun}-", "Accept-Encoding": "identity"} if begun else {}
        with session.get(address, headers=headers, stream=True, timeout=_TIMEOUT) as answer:
            if answer.status_code == requests.codes.requested_range_not_satisfiable:
                # Everything was there already.
                part.replace(file)
                return
            answer.raise_for_status()
            continues = answer.status_code == requests.codes.partial_content
            begun = begun if continues else 0
            total = begun + int(answer.headers.get("Content-Length", 0))
            with part.open("ab" if continues else "wb") as output, Progress() as progress:
                task = progress.add_task(file.name, total=total or None, completed=begun)
                for content in answer.iter_content(_PART):
                    output.write(content)
                    progress.advance(task, len(content))
    came = part.stat().st_size
    if total and came != total:
        raise UserError(f"{address}: {came:,} of {total:,} bytes came; the same command continues")
    part.replace(file)


@contextmanager
def _asking(address: str, part: Path) -> Iterator[None]:
    try:
        yield
    except requests.RequestException as error:
        done = f"; {part.stat().st_size:,} bytes are kept" if part.exists() else ""
        raise UserError(
            f"{address}: cannot be fetched ({error}){done}; the same command continues. Without the"
            " internet, fetch it elsewhere and give it as --file"
        ) from error


def check(file: Path, published: Published, *, fetched: bool) -> None:
    """Check that a file is the published one; remove it if it was fetched and is not.

    Raises:
        UserError: It is a different file, or is missing.
    """
    try:
        with file.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"--file: {file} cannot be read ({error.strerror})") from error
    if not digest.startswith(published.sha256):
        if fetched:
            file.unlink()
        raise UserError(
            f"{file}: its SHA-256 begins with {digest[:8]} and not with {published.sha256}, so it"
            f" is not the published file{'; it was removed' if fetched else ''}"
        )


def convert(file: Path, output: Path, published: Published) -> None:
    """Write the tensors of a published file as safetensors, with the depth of their network.

    Raises:
        UserError: The file contains anything else.
    """
    try:
        tensors = read_tensors(file)
    except ValueError as error:
        raise UserError(f"{file}: cannot be read: {error}") from error
    facts = {"depth": str(published.depth), "file": published.file, "licence": LICENCE}
    write_atomically(output, safetensors.numpy.save(tensors, facts))
