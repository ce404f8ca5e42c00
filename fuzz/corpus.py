"""Inputs that reached something new, to be mutated further; several fuzzers may share them."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from random import Random

from fuzz.suppression import Suppression
from reports.files import replace

MOST = 5000
"""Inputs beyond which each new one takes the place of another."""
LARGEST = 64
"""Bytes of an input that is kept."""


class Pool:
    """The inputs that are kept, in memory and in ``folder``, if there is one.

    ``is_new`` is asked whether the last input has led to something new in some other way.
    """

    def __init__(
        self, folder: Path | None = None, is_new: Callable[[], bool] = lambda: False
    ) -> None:
        self.is_new = is_new
        self.shapes: set[Hashable] = set()
        """All outcomes of inputs that were seen."""
        self.avoids: frozenset[str] = frozenset()
        """Commands that are not sent any more, as their bugs are known."""
        self.known = Suppression()
        """Lines that are hardly sent any more, for the same reason."""
        self._inputs: list[bytes] = []
        self._names: set[str] = set()
        self._folder = folder
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def __len__(self) -> int:
        return len(self._inputs)

    def note(self, data: bytes, shape: Hashable) -> bool:
        """Keep an input that led to something new; return whether it did."""
        if shape in self.shapes:
            return False
        self.shapes.add(shape)
        if len(data) <= LARGEST:
            self.add(data)
        return True

    def pick(self, chance: Random) -> bytes:
        """Return one of the inputs, new ones more often."""
        late = max(chance.random(), chance.random())
        return self._inputs[int(late * len(self._inputs))]

    @property
    def inputs(self) -> Sequence[bytes]:
        """The inputs that are kept."""
        return self._inputs

    def take(self, inputs: Iterable[bytes], shapes: Iterable[Hashable]) -> None:
        """Take in what others have found."""
        self.shapes.update(shapes)
        for data in sorted({*inputs}.difference(self._inputs)):
            self._remember(data)

    def exchange(self) -> None:
        """Take in what other fuzzers have put into the folder."""
        if self._folder is None:
            return
        for entry in os.scandir(self._folder):
            if entry.name in self._names or entry.name.startswith("."):
                continue
            self._names.add(entry.name)
            if entry.is_file() and entry.stat().st_size <= LARGEST:
                self._remember(Path(entry.path).read_bytes())

    def add(self, data: bytes) -> None:
        """Keep an input, and share it."""
        self._remember(data)
        name = hashlib.sha256(data).hexdigest()[:16]
        if self._folder is None or name in self._names:
            return
        self._names.add(name)
        with contextlib.suppress(OSError):
            # Others do without it.
            replace(self._folder / name, data)

    def _remember(self, data: bytes) -> None:
        if len(self._inputs) < MOST:
            self._inputs.append(data)
        else:
            self._inputs[hash(data) % MOST] = data
