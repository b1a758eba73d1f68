"""The trainer with a small model in place of a ResNet, and a launcher that gives ranks less time:

python -m tests.trainer.support.small ARGS
"""

import os
import runpy
from functools import partial

from trainer.distributed import launcher

if __name__ == "__main__":
    if launcher.is_rank(os.environ):
        from tests.trainer.support.small_model import small_model
        from trainer.model import build

        vars(build)["build_model"] = small_model
    else:
        launcher.GRACE_SECONDS = 2.0
        module = "tests.trainer.support.small"
        vars(launcher)["run_ranks"] = partial(launcher.run_ranks, module=module)
    runpy.run_module("trainer", run_name="__main__", alter_sys=True)
