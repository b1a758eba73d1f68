"""Fixtures of the tests of common/."""

from tests.common.support.engines import machine

__all__ = ["machine"]
