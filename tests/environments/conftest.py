"""What the tests of environments/ share."""

from tests.common.support.engines import machine

__all__ = ["machine"]
