"""What a command in a forked rank wrote before it broke is told."""

import pytest

from tests.trainer.support.forked import fork_trainer


@pytest.mark.slow
def test_an_error_of_a_forked_command_is_shown(tmp_path):
    # The small network is for one class per image.
    options = ["--task", "segmentation", "--model.network", "unet", "--name", "run"]
    with pytest.raises(AssertionError, match=r'Traceback[^$]*assert task == "classification"'):
        fork_trainer("train", "--preset", "synthetic", *options, cwd=tmp_path, ranks=1)
