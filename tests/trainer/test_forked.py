"""The output of a command in a forked rank before it broke is shown."""

import pytest

from tests.trainer.support.forked import fork_trainer


@pytest.mark.slow
def test_an_error_of_a_forked_command_is_shown(tmp_path):
    # The small network answers for whole images.
    options = ["--preset", "synthetic", "--task", "segmentation", "--model.network", "unet"]
    options += ["--max-steps", "1", "--restarts", "0"]
    with pytest.raises(AssertionError, match=r'Traceback[^$]*assert TASKS.task..per == "image"'):
        fork_trainer("train", *options, cwd=tmp_path, ranks=1)
