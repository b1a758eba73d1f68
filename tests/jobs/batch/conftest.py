"""The requests of these commands have all been judged."""

from tests.requests_sent import judged_requests

__all__ = ["judged_requests"]
