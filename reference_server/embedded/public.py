"""The names that ``reference_server`` offers to the tests of applications."""

from reference_server.embedded.clock import BeanstalkClock
from reference_server.embedded.jobs import JobSnapshot
from reference_server.embedded.server import BeanstalkServer, running

__all__ = ["BeanstalkClock", "BeanstalkServer", "JobSnapshot", "running"]
