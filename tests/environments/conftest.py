"""Fixtures of the tests of environments/."""

from tests.common.support.engines import machine

__all__ = ["machine"]
