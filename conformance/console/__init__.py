"""The subcommands of ``beanstalk-conformance``, built on click.

Each gives its exit code, and raises what :mod:`conformance.usage` tells in one sentence where it
cannot go on. Nothing is done here that a library function could do.
"""
