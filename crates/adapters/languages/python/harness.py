"""The harness program: `python FLAGS harness.py` with SPEEDWELL_FDS=3,4 in its environment.

Measures benchmark files that use this package, following docs/reference/protocol.md. Start reading at
speedwell/session.py.
"""

import os
import re
import signal
import sys

from speedwell.channel import Channel
from speedwell.session import Session


def main():
    # Child processes of a benchmark must not inherit the variable and use the descriptors.
    named = re.fullmatch(r"(\d+),(\d+)", os.environ.pop("SPEEDWELL_FDS", ""))
    if not named:
        print("SPEEDWELL_FDS must name two descriptors, such as '3,4'", file=sys.stderr)
        return 2
    # Python puts the folder of this program first in the search path. A benchmark file's own folder
    # takes that place when it is opened; this one stays available to processes that the file starts.
    sys.path.append(sys.path.pop(0))
    Session(Channel(int(named.group(1)), int(named.group(2)))).serve()
    # Python restores default signal handlers before it exits, and an alarm would then kill it.
    signal.setitimer(signal.ITIMER_REAL, 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
