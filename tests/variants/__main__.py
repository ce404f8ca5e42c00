"""``python -m tests.variants``: the suite on all variants; ``serve NAME``: one as a server."""

import sys

from tests.variants.matrix import main
from tests.variants.serving import serve

if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        sys.exit(serve(sys.argv[2], sys.argv[3:]))
    sys.exit(main(sys.argv[1:]))
