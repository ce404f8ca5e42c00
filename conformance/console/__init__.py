"""The subcommands of ``beanstalk-conformance``, built on click.

Each returns its exit code. Where it cannot go on, it raises an error that
:mod:`conformance.usage` prints in one sentence. Nothing is done here that a library function could
do.
"""
