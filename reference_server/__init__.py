"""The beanstalk protocol as one exact state machine, and a server that runs it.

The tests of an application use :func:`running`::

    with reference_server.running() as server:
        client = greenstalk.Client(server.address)
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reference_server.embedded.clock import BeanstalkClock
    from reference_server.embedded.jobs import JobSnapshot
    from reference_server.embedded.server import BeanstalkServer, running

__all__ = ["BeanstalkClock", "BeanstalkServer", "JobSnapshot", "running"]


def __getattr__(name: str) -> object:
    """Import a public name when it is used: a server in a process of its own needs none."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from reference_server.embedded import public

    return getattr(public, name)
