"""Compiled templates are kept where that is possible, and pages are the same everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from jinja2 import DictLoader, Environment

from reports.template_cache import TemplateCache

TEMPLATES = DictLoader({"greeting": "{% for name in names %}hello {{ name }}, {% endfor %}"})


def _greeting() -> str:
    environment = Environment(loader=TEMPLATES, bytecode_cache=TemplateCache())
    return environment.get_template("greeting").render(names=["a", "b"])


def test_a_template_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = _greeting()
    monkeypatch.setattr(Environment, "compile", None)
    assert _greeting() == first == "hello a, hello b, "


def test_without_a_folder_each_page_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    assert _greeting() == "hello a, hello b, "
