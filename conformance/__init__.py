"""Conformance tests for servers of the beanstalk protocol."""
