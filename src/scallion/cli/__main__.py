"""`python -m scallion.cli`."""

import sys

from scallion.cli.entry import main

sys.exit(main())
