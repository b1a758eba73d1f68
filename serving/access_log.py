"""Leave requests of probes out of the server's access log."""

import logging
from collections.abc import Mapping


class WithoutProbes(logging.Filter):
    """Leaves out answered requests for `/` and for the page `/score`, which probes ask for every
    few seconds, so that the log shows classified images and what failed.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Check whether a line of gunicorn's access log is to be written."""
        request = record.args
        if not isinstance(request, Mapping):
            return True
        answered = request["m"] in ("GET", "HEAD") and str(request["s"]).startswith("2")
        return not (answered and request["U"] in ("/", "/score"))
