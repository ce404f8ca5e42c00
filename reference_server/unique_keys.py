"""YAML in which no key of a dictionary is there twice, and nothing but plain data is made."""

from __future__ import annotations

from typing import Any

import yaml

try:
    # It is several times as fast, and not there in every build of PyYAML.
    from yaml import CSafeLoader as _Loader
except ImportError:
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]


class NotUnique(yaml.YAMLError):
    """A key of a dictionary is there twice."""


class UniqueKeys(_Loader):
    """YAML in which no key is there twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for number, key in enumerate(keys):
            if key in keys[:number]:
                line = node.value[number][0].start_mark.line + 1
                raise NotUnique(f"line {line}: {key!r} is there twice")
        return super().construct_mapping(node, deep)
