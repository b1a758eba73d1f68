"""Which cases Hypothesis tries: the same in every run, or others with NEW_CASES=1, as at night."""

import os

from hypothesis import settings


def load_profile() -> None:
    """Load the profile of all tests. It has no deadline, since how long a case takes depends on who
    else uses the machine.
    """
    derandomize = os.environ.get("NEW_CASES") != "1"
    settings.register_profile("cases", deadline=None, derandomize=derandomize)
    settings.load_profile("cases")
