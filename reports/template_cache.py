"""Compiled templates in the user's cache folder: to compile them takes longer than to fill them."""

from __future__ import annotations

import contextlib
from pathlib import Path

import platformdirs
from jinja2.bccache import Bucket, FileSystemBytecodeCache


class TemplateCache(FileSystemBytecodeCache):
    """The cache of the user who runs this; without it, templates are compiled each time."""

    def __init__(self) -> None:
        super().__init__(str(platformdirs.user_cache_path("beanstalk-conformance") / "templates"))

    def load_bytecode(self, bucket: Bucket) -> None:
        with contextlib.suppress(OSError):
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        with contextlib.suppress(OSError):
            Path(self.directory).mkdir(parents=True, exist_ok=True)
            super().dump_bytecode(bucket)
