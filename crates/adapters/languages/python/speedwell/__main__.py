"""`python -m speedwell FILE [--list] [BENCHMARK...] [NAME=VALUE...]`."""

import sys

from . import by_hand
from .open import open_file

if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
    sys.exit("usage: python -m speedwell FILE [--list] [BENCHMARK...] [NAME=VALUE...]")
open_file(sys.argv[1])
by_hand.main(sys.argv[2:])
