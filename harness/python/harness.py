"""The harness program: `python FLAGS harness.py` with SPEEDWELL_FDS=3,4 in its environment.

It measures benchmark files that use this package, as docs/reference/protocol.md says. Start reading at
speedwell/session.py.
"""

import os
import re
import signal
import sys

from speedwell.channel import Channel
from speedwell.session import Session


def main():
    # Processes that a benchmark starts must not believe that the descriptors are theirs.
    named = re.fullmatch(r"(\d+),(\d+)", os.environ.pop("SPEEDWELL_FDS", ""))
    if not named:
        print("SPEEDWELL_FDS must name two descriptors, such as '3,4'", file=sys.stderr)
        return 2
    # The folder of this program was put first in the search path. The file's own folder takes that
    # place when it is opened; ours stays in reach for processes that the file starts.
    sys.path.append(sys.path.pop(0))
    Session(Channel(int(named.group(1)), int(named.group(2)))).serve()
    # Python gives signals their usual meaning back before it ends, and an alarm would then kill it.
    signal.setitimer(signal.ITIMER_REAL, 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
