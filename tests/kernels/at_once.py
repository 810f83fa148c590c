# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest for guests, which may be switched off at any moment: what failed, and what took long, is
printed at once and not only at the end."""

LONG = 20  # seconds

_terminal = None


def pytest_sessionstart(session):
    global _terminal
    _terminal = session.config.pluginmanager.get_plugin("terminalreporter")


def pytest_runtest_logreport(report):
    if report.failed:
        _terminal.write_line(f"\n== failed: {report.nodeid} ({report.when})\n{report.longreprtext}")
    if report.duration > LONG:
        _terminal.write_line(f"\n== long: {report.nodeid} ({report.when}): {report.duration:.0f} s")
