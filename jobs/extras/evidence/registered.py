"""The statements of a run whose model is registered: their digest, and whether they hold.

`register` puts the digest of the newest statement on the model, as a property, which Azure never
changes. It covers all statements before it.
"""

import hashlib
import tempfile
from pathlib import Path
from typing import Final

from azure.storage.blob import ContainerClient

from common.errors import UserError
from common.text import listing, plural
from jobs.assets import models
from jobs.azure import results
from jobs.azure.storage import listed, read_small
from jobs.azure.workspace import Workspace
from jobs.errors import SpecError
from jobs.extras.evidence.leaf import EvidenceCheckOptions
from trainer.export.layout import FOLDER as EXPORT
from trainer.extras.evidence.chain import Verified, check_chain
from trainer.extras.evidence.signing import PublicKey
from trainer.extras.evidence.statements import FOLDER

DIGEST: Final = "evidence"
"""Property of a registered model with the SHA-256 of the newest statement of its run."""


def properties(client: ContainerClient, folder: str) -> dict[str, str]:
    """Return the properties of a model about the statements of its run; none without statements.

    Args:
        client: Client of the container of results.
        folder: Folder of the run.

    Raises:
        UserError: The statements do not hold together.
    """
    with tempfile.TemporaryDirectory() as scratch:
        chain = _read(client, folder, Path(scratch))
    if not chain.statements and not chain.broken:
        return {}
    check_chain_holds(chain, folder)
    newest = chain.statements[-1]
    signed = str(bool(newest.signatures)).lower()
    return {DIGEST: newest.digest, "evidence_signed": signed}


def check(options: EvidenceCheckOptions, workspace: Workspace, model: str) -> str | None:
    """Check a registered model before it is deployed, if that is wanted.

    Args:
        options: Whether it is.
        workspace: Workspace of the model.
        model: NAME:VERSION.

    Returns:
        A line about the check; None without a check.

    Raises:
        UserError: Its making cannot be shown.
    """
    if not options.require_evidence:
        return None
    key = PublicKey(Path(options.evidence_key)) if options.evidence_key else None
    name, version = model.split(":")
    said = models.read_properties(workspace.manager, name, version)
    if DIGEST not in said or "run" not in said:
        raise SpecError(
            [
                f"--require-evidence: {model} was registered without statements of a run; train"
                " with --evidence.chain True, and register it under another --model"
            ]
        )
    storage = workspace.storage
    store, folder = storage.datastores.results, results.run_folder(said["run"])
    client = storage.container(store)
    with storage.errors(store), tempfile.TemporaryDirectory() as scratch:
        chain = _read(client, folder, Path(scratch), key)
        numbers = [
            statement.number for statement in chain.statements if statement.digest == said[DIGEST]
        ]
        if not numbers:
            text = f"the newest statement at the registration, {said[DIGEST][:16]}, is not there"
            chain.add("broken", folder, text)
        else:
            _check_files(client, models.folder_of(name, version), chain, numbers[0])
    check_chain_holds(chain, folder)
    signed = f"signed by key {key.key_id[:16]}" if key else "signatures not checked"
    return f"{model}: {plural(len(chain.statements), 'statement')} hold, {signed}"


def check_chain_holds(chain: Verified, folder: str) -> None:
    """Refuse statements that do not hold.

    Raises:
        UserError: They do not; lists why.
    """
    if chain.broken:
        lines = [str(problem) for problem in chain.broken]
        raise UserError(f"{folder}: differs from its statements:\n{listing(lines)}")


def _read(
    client: ContainerClient, folder: str, scratch: Path, key: PublicKey | None = None
) -> Verified:
    """Read the statements of a run, and check that they hold together."""
    target = scratch / FOLDER
    target.mkdir()
    for name in listed(client, f"{folder}/{FOLDER}"):
        content = read_small(client, f"{folder}/{FOLDER}/{name}") if "/" not in name else None
        if content is not None:
            (target / name).write_bytes(content)
    chain = Verified(scratch)
    check_chain(chain, key)
    return chain


def _check_files(client: ContainerClient, folder: str, chain: Verified, newest: int) -> None:
    """Compare the files of a model with the last export that was stated before it was registered.

    Args:
        client: Client of the container of results.
        folder: Folder of the model.
        chain: The statements, and the problems, to which those of the files are added.
        newest: Number of the newest statement at the registration.
    """
    exports = [statement for statement in chain.of("export") if statement.number <= newest]
    if not exports:
        chain.add("broken", folder, "no export was stated before the model was registered")
        return
    files = listed(client, folder)
    stated = {
        name.removeprefix(f"{EXPORT}/"): digest for name, digest in exports[-1].subjects.items()
    }
    for name, digest in stated.items():
        if name not in files:
            chain.add("broken", f"{folder}/{name}", "is missing")
        elif _digest(client, f"{folder}/{name}") != digest:
            text = f"has other bytes than in {exports[-1]}"
            chain.add("broken", f"{folder}/{name}", text)
    for name in sorted(files.keys() - stated.keys()):
        chain.add("broken", f"{folder}/{name}", f"was added since {exports[-1]}")


def _digest(client: ContainerClient, name: str) -> str:
    whole = hashlib.sha256()
    for chunk in client.download_blob(name).chunks():
        whole.update(chunk)
    return whole.hexdigest()
