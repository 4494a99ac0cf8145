"""``python -m verispec``: the same as the command ``verispec``."""

import sys

from verispec.cli import main

sys.exit(main())
