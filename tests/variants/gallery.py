"""All variants, by what is different."""

from __future__ import annotations

from tests.variants.documents import DOCUMENTS
from tests.variants.keeping import KEEPING
from tests.variants.lines import LINES
from tests.variants.orders import ORDERS
from tests.variants.times import TIMES
from tests.variants.variant import Variant
from tests.variants.wires import WIRES

_ALL: tuple[Variant, ...] = (*DOCUMENTS, *KEEPING, *LINES, *ORDERS, *TIMES, *WIRES)
VARIANTS = {variant.name: variant for variant in _ALL}
assert len(VARIANTS) == len(_ALL), "two variants have one name"
