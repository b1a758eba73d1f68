"""Environment variables of a job."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.options import DataOptions
from jobs.spec import environment_variables
from tests.jobs.support.platform import platform

CLUSTERS = platform().clusters


def test_gpus_get_what_tells_of_trouble_and_cpus_only_their_output():
    assert "NCCL_DEBUG" in environment_variables.of_processes(CLUSTERS["gpu"])
    assert environment_variables.of_processes(CLUSTERS["preparation"]) == {"PYTHONUNBUFFERED": "1"}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (DataOptions(), {"DATASET_MOUNT_BLOCK_BASED_CACHE_ENABLED": "true"}),
        (
            DataOptions(cache="files", cache_gb=2, read_threads=8, prefetch_blocks=0),
            {
                "DATASET_MOUNT_BLOCK_BASED_CACHE_ENABLED": "false",
                "DATASET_MOUNT_CACHE_SIZE": "2GB",
                "DATASET_MOUNT_READ_THREADS": "8",
                "DATASET_MOUNT_READ_BUFFER_BLOCK_COUNT": "0",
            },
        ),
        (DataOptions(mode="download"), {}),
        (DataOptions(mode="download", read_threads=8), {"RSLEX_DOWNLOADER_THREADS": "8"}),
    ],
)
def test_a_mount_and_a_download_are_set_as_asked_and_no_further(data, expected):
    assert environment_variables.of_data(data) == expected


@pytest.mark.parametrize(
    "text",
    [
        "NCCL_IB_DISABLE=1", "NCCL_IB_DISABLE=true", "NCCL_NET=Socket", "NCCL_NET=socket",
        "HOROVOD_RANK=0", "OMPI_COMM_WORLD_SIZE=4", "AZUREML_RUN_ID=x", "novalue", "1A=2", "=x",
        "STORAGE_KEY=x", "db_password=x", "AZURE_CLIENT_SECRET=x", "HF_TOKEN=x", "BLOB_SAS=x",
        "SSH_PASSPHRASE=x", "DB_PWD=x", "GITHUB_PAT=x", "BASIC_AUTH=x",
        "DATA=https://a.example.com/c?sv=1&sig=x", "STORE=AccountName=a;accountkey=x",
        "apikey=x", "ACCOUNTKEY=x", "AWS_ACCESS_KEY_ID=x", "DATABASE_URL=postgres://u:pw@h/d",
        "PIP_INDEX_URL=https://u:pw@h/simple", "X=https://token@host/a", "X=a https://t@h/ b",
        "X=ghp_0123456789abcdefABCD", "X=github_pat_0123456789abcdefABCD", "X=sk-0123456789abcdef",
        "X=hf_0123456789abcdefABCD", "X=eyJhbGciOiJub25lIn0.e30.", "X=AKIA0123456789ABCDEF",
        "X=abc8Q~0123456789012345678901234567890123", "X=Bearer 0123456789abcdef",
        "X=-----BEGIN OPENSSH PRIVATE KEY-----", f"X={'a' * 86}==", f"X={'b' * 43}=",
        "X=https://h/p?access_token=abc", "X=Server=s;Password=pw;",
    ],
)  # fmt: skip
def test_a_variable_that_does_harm_is_refused_without_its_value(text):
    _, problems = environment_variables.read([text])
    assert len(problems) == 1
    assert problems[0].startswith("--variables: ")


def test_no_value_of_a_secret_is_shown():
    texts = ["MY_TOKEN=hunter2", "hunter2", "URL=x?sig=hunter2"]
    assert "hunter2" not in " ".join(environment_variables.read(texts)[1])


@pytest.mark.parametrize(
    "text",
    [
        "NCCL_IB_DISABLE=0",
        "NCCL_DEBUG=INFO",
        "A=",
        "A=b=c",
        "MONKEY=1",
        "TF_X=a b",
        "PATTERN=x",
        "AUTHOR=x",
        "X=config=1",
        "X=CONFIG=1",
        "X=abfss://container@account.dfs.core.windows.net/path",
        "X=ssh://git@github.com/team/project",
        "X=https://example.com:8080/a@b",
        "X=3f786850e387550fdab836ed7e6dc881de23001b",
        "X=--xla_gpu_autotune_level=2 --xla_dump_to=/tmp",
        "X=/mnt/azureml/cr/j/0123456789abcdef0123456789abcdef/exe=1",
        "SKILL_KEYS=x",
    ],
)
def test_other_variables_are_taken_as_they_are(text):
    name, _, value = text.partition("=")
    assert environment_variables.read([text]) == ({name: value}, [])


def test_a_name_given_twice_is_refused():
    assert environment_variables.read(["A=1", "A=2"])[1] == ["--variables: A: is given twice"]


@given(st.dictionaries(st.from_regex(r"X_[0-9]{1,8}_Y", fullmatch=True), st.text()))
def test_values_are_read_as_they_were_written(values):
    assert environment_variables.read([f"{name}={value}" for name, value in values.items()]) == (
        values,
        [],
    )
