"""All variants, by what is different; those that run as servers have a profile, too."""

from __future__ import annotations

from reference_server.profiles import NEWEST
from tests.variants.documents import DOCUMENTS
from tests.variants.endurance import ENDURANCE
from tests.variants.keeping import KEEPING
from tests.variants.lines import LINES
from tests.variants.needs import NEEDS
from tests.variants.old import OF_OLD
from tests.variants.orders import ORDERS
from tests.variants.times import TIMES
from tests.variants.variant import Variant
from tests.variants.wires import WIRES

_ALL: tuple[Variant, ...] = (
    *(*DOCUMENTS, *ENDURANCE, *KEEPING, *LINES, *NEEDS, *ORDERS, *TIMES, *WIRES),
)
VARIANTS = {variant.name: variant for variant in _ALL}
assert len(VARIANTS) == len(_ALL), "two variants have one name"
SERVED: dict[str, tuple[str, Variant]] = {
    **{name: (NEWEST.name, variant) for name, variant in VARIANTS.items()},
    **{f"{profile}-{variant.name}": (profile, variant) for profile, variant in OF_OLD},
}
