"""``python -m tests.variants``: the suite on all variants; ``serve NAME``: one as a server."""

import sys

if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        from tests.variants.serving import serve

        sys.exit(serve(sys.argv[2], sys.argv[3:]))

    # A server is started again and again: it does not load the suite.
    from tests.variants.matrix import main

    sys.exit(main(sys.argv[1:]))
