"""The fixtures of the pytest plugin: a server for a test, and its conversation if the test fails.

The plugin declares them where pytest loads it, and imports this module when a test uses one.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from reference_server.embedded.server import BeanstalkServer, running

_SERVER = pytest.StashKey[BeanstalkServer]()
_REPORTING = "beanstalk_transcripts"
TITLE = "beanstalk transcript"
"""The title of the section of a report that shows the conversation."""


class Transcripts:
    """Adds the conversation with the server to the reports of failing tests.

    It is registered when the first test uses a server: in other projects, no test calls it.
    """

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Return the report, with the transcript if the test failed."""
        report = yield
        server = item.stash.get(_SERVER, None)
        if server is not None and report.failed:
            report.sections.append((TITLE, server.transcript_tail))
        return report


def serve(request: pytest.FixtureRequest) -> Iterator[BeanstalkServer]:
    """Yield a server for one test; an indirect parameter is the slug of its fault."""
    plugins = request.config.pluginmanager
    if not plugins.has_plugin(_REPORTING):
        plugins.register(Transcripts(), _REPORTING)
    with running(fault=getattr(request, "param", None)) as server:
        request.node.stash[_SERVER] = server
        yield server
