#!/usr/bin/env python3
"""Finds the program of this repository that scripts measure or check.

    eval/built_program.py [release|debug]

Prints its path: the value of the variable SPEEDWELL, else the program in the target folder, the newer of both profiles unless
one is named. If there is none, one line says how to build it, and the exit status is 2. Python scripts import
`built_program` and the time limit of the programs they compare with it.
"""

import os
import sys

# Seconds after which a script stops another program that it compares with this one.
PEER_LIMIT_S = 600

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def built_program(kind=None):
    """Returns the path of the program; exits if there is none."""
    target = os.path.join(ROOT, os.environ.get("CARGO_TARGET_DIR") or "target")
    kinds = [kind] if kind else ["release", "debug"]
    given = os.environ.get("SPEEDWELL")
    paths = [given] if given else [os.path.join(target, kind, "speedwell") for kind in kinds]
    built = [os.path.abspath(path) for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)]
    if not built:
        script = os.path.basename(sys.argv[0])
        release = "" if kind == "debug" else " --release"
        build = "SPEEDWELL names it" if given else f"build it with: cargo build{release} --package speedwell"
        print(f"{script}: program '{paths[0]}' not found; {build}", file=sys.stderr)
        sys.exit(2)
    return max(built, key=os.path.getmtime)


if __name__ == "__main__":
    print(built_program(*sys.argv[1:2]))
