"""Files that another machine wrote, to be stored on this one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Self


class HandedOver(NamedTuple):
    """The files in the subfolders of a folder, which have names that say what is in them."""

    folder: str
    data: Mapping[str, bytes]

    @classmethod
    def of(cls, folder: Path) -> Self:
        """Return those of a folder."""
        found = (path for path in sorted(folder.glob("*/*")) if path.is_file())
        return cls(
            str(folder), {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}
        )

    def file(self, folder: Path) -> None:
        """Write the files, except for subfolders that exist already; raises OSError."""
        new = {name.partition("/")[0] for name in self.data}
        new = {name for name in new if not (folder / name).exists()}
        for name, data in self.data.items():
            if name.partition("/")[0] in new:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(data)

    def with_local_paths(self, text: str, folder: Path) -> str:
        """Return a text with the paths that the files have here."""
        return text.replace(self.folder, str(folder))
