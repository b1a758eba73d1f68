"""What the tests of common/ share."""

from tests.common.support.engines import machine

__all__ = ["machine"]
