"""The materials of a run, as facts for its statements: data set, code, packages, environment."""

import os
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, Final

from common.source_files import package_files
from trainer import __version__
from trainer.config import TrainConfig
from trainer.data.data_set import manifest_folder
from trainer.data.manifest import FILE_NAME, parse_manifest
from trainer.extras.evidence.statements import canonical, digest_file, digest_of

ROOT: Final = Path(__file__).resolve().parents[3]
"""Folder of the packages of this project."""
_PACKAGES: Final = ("trainer", "common")
DATA, CODE, PACKAGES = "data/manifest.json", "code", "packages"
WEIGHTS: Final = "initial weights"
"""Names of the subjects of a statement about a start, besides config.json."""


def code_facts() -> dict[str, Any]:
    """Return version, digest and files of this project's code, of which the run executes a part."""
    files = {
        name: digest_file(path)
        for package in _PACKAGES
        for name, path in package_files(package, ROOT).items()
        if path.is_file()
    }
    return {"version": __version__, "sha256": digest_of(canonical(files)), "files": files}


def package_facts() -> dict[str, Any]:
    """Return the installed distributions with their versions, and their digest."""
    versions = {
        package.name.lower().replace("_", "-"): package.version for package in distributions()
    }
    return {"sha256": digest_of(canonical(versions)), "versions": versions}


def lock_facts() -> dict[str, str]:
    """Return the SHA-256 of each lock that lies next to the code; none in a job, whose image is
    built from one.
    """
    return {path.name: digest_file(path) for path in sorted((ROOT / "locks").glob("*.txt"))}


def data_facts(config: TrainConfig) -> dict[str, Any]:
    """Return version and digest of a data set's manifest, and each shard with its checksum.

    Raises:
        DataError: The manifest is not valid.
        OSError: It cannot be read.
    """
    folder = manifest_folder(config)
    if folder is None:
        return {"version": "synthetic", "sha256": None, "shards": []}
    content = (folder / FILE_NAME).read_bytes()
    manifest = parse_manifest(content, str(folder / FILE_NAME))
    shards = [
        {"split": name, "file": shard.file, "bytes": shard.bytes, "xxh128": shard.xxh128}
        for name, split in manifest.splits.items()
        for shard in split.shards
    ]
    return {"version": manifest.version, "sha256": digest_of(content), "shards": shards}


def job_facts() -> dict[str, str]:
    """Return what identifies the job of Azure Machine Learning that an attempt is."""
    named = {"run": "AZUREML_RUN_ID", "image": "AZUREML_ENVIRONMENT_IMAGE"}
    return {key: os.environ[name] for key, name in named.items() if name in os.environ}
