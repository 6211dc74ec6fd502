"""`python -m sdil.cli`, where the `sdil` script is not on the path."""

import sys

from sdil.cli import main

sys.exit(main())
