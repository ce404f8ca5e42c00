"""The pytest plugin, under a name that no other project has: that of its entry point."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

# By its place: every pytest loads it, also where `conformance` is another project's package.
_file = Path(__file__).with_name("conformance") / "run" / "entry.py"
_spec = spec_from_file_location("beanstalk_conformance.entry", _file)
assert _spec is not None
assert _spec.loader is not None
plugin = module_from_spec(_spec)
_spec.loader.exec_module(plugin)
