"""``python -m reference_server``."""

import sys

from reference_server.serve import main

sys.exit(main())
