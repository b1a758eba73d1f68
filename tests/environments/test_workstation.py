"""The build of TensorFlow that a machine gets."""

import subprocess

import pytest

from common.errors import UserError
from environments.workstation import choose
from tests import ROOT, makefile

LAPTOP = "NVIDIA RTX 4060 Laptop GPU, 8.9, 550.54.14\n"
OLD_GPU = "Tesla K80, 3.7, 535.104.05\n"
BLACKWELL = "NVIDIA GeForce RTX 5090, 12.0, 575.57.08\n"
OLD_DRIVER = "Tesla T4, 7.5, 470.82.01\n"


@pytest.mark.parametrize(
    ("wanted", "listed", "lock", "words"),
    [
        ("", LAPTOP, "workstation", "for NVIDIA RTX 4060 Laptop GPU; `make setup GPU=0`"),
        ("1", LAPTOP, "workstation", "RTX 4060"),
        ("0", LAPTOP, "trainer", "for CPUs, because of GPU=0"),
        ("", "", "trainer", "for CPUs: nvidia-smi shows no GPU"),
        ("", "NVIDIA-SMI has failed: no driver\n", "trainer", "nvidia-smi shows no GPU"),
        ("", OLD_GPU, "trainer", "Tesla K80 has compute capability 3.7, and TensorFlow needs 6.0"),
        ("", OLD_DRIVER, "trainer", "is 470.82.01, and CUDA 12 needs 525.60.13 or newer"),
        ("", BLACKWELL, "trainer", "RTX 5090 has compute capability 12.0, for which TensorFlow"),
        ("", BLACKWELL, "trainer", "`make setup GPU=1` installs it for GPUs nevertheless"),
        ("1", BLACKWELL, "workstation", "because of GPU=1, although NVIDIA GeForce RTX 5090 has"),
        ("", f"{BLACKWELL}{LAPTOP}", "workstation", "for NVIDIA RTX 4060 Laptop GPU;"),
        ("", f"{OLD_GPU}{LAPTOP}", "workstation", "for NVIDIA RTX 4060 Laptop GPU;"),
    ],
)  # fmt: skip
def test_a_gpu_is_used_if_it_can_be_and_may_be(wanted, listed, lock, words):
    choice = choose(wanted, listed)
    assert choice.lock == lock
    assert words in choice.sentence
    assert (ROOT / "locks" / f"{choice.lock}.txt").exists()


@pytest.mark.parametrize(
    ("wanted", "listed", "words"),
    [
        ("yes", LAPTOP, "GPU=yes: must be 0"),
        ("1", "", "GPU=1: nvidia-smi shows no GPU; install NVIDIA's driver"),
        ("1", OLD_DRIVER, "GPU=1: the driver of Tesla T4 is 470.82.01"),
    ],
)
def test_what_cannot_be_had_is_refused(wanted, listed, words):
    with pytest.raises(UserError, match=words):
        choose(wanted, listed)


def test_make_train_says_first_what_it_computes_with():
    done = subprocess.run(
        ["make", "-n", "-o", ".venv-trainer/.ready", "train"], cwd=ROOT,
        env=makefile.environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[0] == "cat .venv-trainer/processor.txt"
