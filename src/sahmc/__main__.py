"""``python -m sahmc`` is the command ``sahmc``."""

import sys

from sahmc.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
