"""Settings of all tests of the platform."""

from tests.cases import load_profile

load_profile()
