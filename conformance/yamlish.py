"""Reads the YAML of beanstalk servers, which is not always YAML.

beanstalkd 1.12 sends ``os: #1 SMP …``, which YAML takes for a comment, and tubes may be called
``null`` or ``1.0``. So lines are read first, values as the strings that they are on the wire; what
has another form is given to a YAML parser, with all scalars as strings.
"""

from __future__ import annotations

import yaml

LONG = 65536
"""Bytes of a document; a longer one is read by the fast parser, whose messages say less."""
MAX_PARSED = 1 << 21
"""Bytes of a document beyond which no real parser is asked: twice as long as the longest list."""
MAX_SHOWN = 100
"""Bytes of a line that are shown when it is wrong."""
# The fast ones are not there in every build of PyYAML.
_FAST_SAFE = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_FAST_BASE = yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader


def dictionary(document: bytes) -> dict[str, str]:
    """Return the keys and values of a YAML dictionary of scalars; raises ValueError."""
    result: dict[str, str] = {}
    for line in _lines(document):
        key, colon, value = line.partition(":")
        if not colon or key.strip() != key or not key or key[0] in "{-":
            return _parsed_dictionary(document)
        if key in result:
            raise ValueError(f"the key {key[:100]!r} is there twice")
        result[_unquote(key)] = _unquote(value)
    return result


def names(document: bytes) -> list[str]:
    """Return the items of a YAML list of strings; raises ValueError."""
    lines = _lines(document)
    if all(line.startswith("- ") for line in lines):
        return [_unquote(line[2:]) for line in lines]
    parsed = _parse(document)
    if not isinstance(parsed, list) or not all(isinstance(item, str) for item in parsed):
        raise ValueError("it is not a list of strings")
    return parsed


def check(document: bytes) -> None:
    """Raise ValueError, with the line and the parser's message, if a document is not YAML.

    Only its syntax counts, not what its values are taken for.
    """
    if len(document) > LONG:
        return
    try:
        for _ in yaml.parse(document):
            pass
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise _no_yaml(document, error) from error


def strictly(document: bytes) -> object:
    """Parse a document as a client's YAML library does; raise ValueError."""
    if len(document) > MAX_PARSED:
        raise ValueError(f"it has {len(document):,} bytes")
    try:
        loader = _FAST_SAFE if len(document) > LONG else yaml.SafeLoader
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(document, loader)):
            raise ValueError("it has aliases")
        return yaml.load(document, loader)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, OverflowError) as error:
        raise _no_yaml(document, error) from error


def _no_yaml(document: bytes, error: Exception) -> ValueError:
    """Return the error with the line that is wrong, and what the parser says of it."""
    lines = document.split(b"\n")
    mark, position = getattr(error, "problem_mark", None), getattr(error, "position", None)
    if mark is None and isinstance(position, int):
        # A character that may not be in YAML at all.
        number = document[:position].count(b"\n")
    elif mark is None:
        return ValueError(f"it is not YAML: {type(error).__name__}")
    else:
        number = min(mark.line, len(lines) - 1)
    said = getattr(error, "problem", None) or getattr(error, "reason", "") or type(error).__name__
    line = lines[number][:MAX_SHOWN].decode("utf-8", errors="backslashreplace").strip()
    return ValueError(f"it is not YAML: line {number + 1}, {line!r}: {said}")


def _lines(document: bytes) -> list[str]:
    lines = document.decode("utf-8", errors="backslashreplace").splitlines()
    return [line for line in lines if line.strip() and line.rstrip() != "---"]


def _unquote(value: str) -> str:
    value = value.strip()
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value


def _parsed_dictionary(document: bytes) -> dict[str, str]:
    parsed = _parse(document)
    if not isinstance(parsed, dict):
        raise ValueError("it is not a dictionary")
    if not all(isinstance(item, str) for pair in parsed.items() for item in pair):
        raise ValueError("it is not a dictionary of strings to scalars")
    return parsed


def _parse(document: bytes) -> object:
    if len(document) > MAX_PARSED:
        raise ValueError(f"it is not YAML of the simple form, and has {len(document):,} bytes")
    try:
        return yaml.load(document, _FAST_BASE if len(document) > LONG else yaml.BaseLoader)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise _no_yaml(document, error) from error
