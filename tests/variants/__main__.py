"""``python -m tests.variants``: runs a variant as a server, or the suite on all of them."""

import sys

from tests.variants.serving import serve

if __name__ == "__main__":
    sys.exit(serve(sys.argv[1], sys.argv[2:]))
