"""A plugin of pytest, `-p tests.must_run`: a session in which every test was skipped has failed.

Targets of make that someone asks for by name use it, as a success would say that something ran.
"""

import pytest


class MustRun:
    """Watches whether a test has run."""

    def __init__(self):
        self.ran = False
        self.skipped = False

    def pytest_runtest_logreport(self, report):
        self.ran = self.ran or report.failed or (report.when == "call" and report.passed)
        self.skipped = self.skipped or report.skipped

    def pytest_sessionfinish(self, session, exitstatus):
        if exitstatus == pytest.ExitCode.OK and self.skipped and not self.ran:
            session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED

    def pytest_terminal_summary(self, terminalreporter):
        if self.skipped and not self.ran:
            terminalreporter.write_line("error: every test was skipped; the reasons are above")


def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(MustRun())
