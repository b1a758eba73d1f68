"""The pre-emption of the training that is rehearsed."""

from types import SimpleNamespace

import pytest

from rehearsal.cycle.training_steps import _Preemption
from rehearsal.errors import RehearsalError


def test_a_pre_emption_that_cannot_see_what_is_saved_says_so():
    preemption = _Preemption(SimpleNamespace(azure=None, workspace="w"))
    preemption.start()
    preemption.join()
    with pytest.raises(RehearsalError, match="the job could not be pre-empted: AttributeError"):
        preemption.stop()
