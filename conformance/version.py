"""The installed version of the suite."""

from importlib.metadata import PackageNotFoundError, version


def suite_version() -> str:
    """Return the version, or that the suite is not installed but used where it lies."""
    try:
        return version("beanstalk-conformance")
    except PackageNotFoundError:
        return "not installed"
