"""`python -m quadlog.lab.links WIRING`."""

import sys

from quadlog.errors import QuadlogError
from quadlog.lab.links.process import run

if __name__ == "__main__":
    try:
        run(sys.argv[1:])
    except QuadlogError as error:
        sys.exit(f"{type(error).__name__}: {error}")
