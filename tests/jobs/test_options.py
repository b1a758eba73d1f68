"""All problems of a job's options are reported at once."""

import pytest

from common import fields
from common.errors import ConfigError
from jobs.options import (
    DataOptions,
    JobOptions,
    PreparationOptions,
    ResubmitOptions,
    ServiceOptions,
)


def problems(make):
    with pytest.raises(ConfigError) as caught:
        make()
    return sorted(problem.partition(":")[0] for problem in caught.value.problems)


def test_the_defaults_are_sound_and_read_back():
    assert fields.from_dict(JobOptions, fields.to_dict(JobOptions())) == JobOptions()


def test_every_option_says_what_it_is():
    """A field without a docstring would be an option without help."""
    import ast
    from pathlib import Path

    import jobs.options

    tree = ast.parse(Path(jobs.options.__file__).read_text())
    for found in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        for field, text in zip(found.body, [*found.body[1:], None], strict=True):
            if not isinstance(field, ast.AnnAssign) or "Options" in ast.unparse(field.annotation):
                continue
            assert isinstance(text, ast.Expr), f"{found.name}.{ast.unparse(field.target)}"


def test_all_wrong_types_and_bounds_are_told_at_once():
    data = {"nodes": 0, "cluster": 8, "data": {"cache_gb": "1"}, "resubmit": {"attempts": 0}}
    assert problems(lambda: fields.from_dict(JobOptions, data)) == [
        "cluster", "data.cache_gb", "nodes", "resubmit.attempts"
    ]  # fmt: skip


def test_all_contradictions_are_told_at_once():
    def make():
        return JobOptions(
            experiment="a b",
            shm_size="64 gigs",
            data=DataOptions(
                asset="imagenet", path="../x", mode="download", cache="files", prefetch_blocks=3
            ),
            resubmit=ResubmitOptions(backoff_seconds=10, longest_backoff_seconds=5),
            services=ServiceOptions(ssh_public_key="AAAA"),
        )

    assert problems(make) == [
        "--data.asset", "--data.asset and --data.path", "--data.cache", "--data.path",
        "--data.prefetch-blocks", "--experiment", "--resubmit.longest-backoff-seconds",
        "--services.ssh-public-key", "--shm-size",
    ]  # fmt: skip


@pytest.mark.parametrize("size", ["0g", "-1g", "64", "64gb", "64G", "1.5g", ""])
def test_shared_memory_is_a_whole_number_with_a_unit(size):
    assert problems(lambda: JobOptions(shm_size=size)) == ["--shm-size"]


@pytest.mark.parametrize(
    "path", ["/abs", "a//b", "a/", "..", "a/../b", "./a", "a b", "a?sig=1", ""]
)
def test_a_folder_stays_below_its_container(path):
    assert problems(lambda: JobOptions(data=DataOptions(path=path))) == ["--data.path"]
    assert problems(lambda: PreparationOptions(raw=path, prepared="a")) == ["--raw"]


@pytest.mark.parametrize("path", ["imagenet", "a/b.c/d-e_f", "v=1/x", "..a", "a.."])
def test_folders_below_a_container_are_taken(path):
    assert JobOptions(data=DataOptions(path=path)).data.path == path


def test_a_private_key_is_refused_and_not_shown():
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk"
    with pytest.raises(ConfigError) as caught:
        JobOptions(services=ServiceOptions(ssh_public_key=key))
    assert "b3Blb" not in str(caught.value)


@pytest.mark.parametrize(
    "key",
    ["ssh-ed25519 AAAAC3Nz+/= me@host", "ssh-rsa AAAA", "ecdsa-sha2-nistp256 AAAA a comment"],
)
def test_public_keys_are_taken(key):
    assert JobOptions(services=ServiceOptions(ssh_public_key=key)).services.ssh_public_key == key
