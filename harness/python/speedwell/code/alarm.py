"""The one timer signal of the process, for whoever needs to be called at a time.

A thread that waits would have to take turns with what is measured; a signal does not exist until it
comes.
"""

import signal
from time import monotonic


class Alarm:
    """Entered while a run lasts: an alarm that belongs to the run does not ring behind it."""

    def __init__(self):
        self._due = []
        self._of_run = None

    def __enter__(self):
        self._of_run = []

    def __exit__(self, *_):
        for entry in self._of_run:
            self.cancel(entry)
        self._of_run = None

    def after(self, seconds, act):
        """Calls `act` from within a signal in the main thread; gives what cancels it."""
        entry = [monotonic() + seconds, act]
        if self._of_run is not None:
            self._of_run.append(entry)
        return self._added(entry)

    def again(self, seconds, act):
        """The same, every so many seconds, whether there is a run or not."""
        return self._added([monotonic() + seconds, act, seconds])

    def cancel(self, entry):
        if entry in self._due:
            self._due.remove(entry)
        self._set()

    def _added(self, entry):
        signal.signal(signal.SIGALRM, self._ring)
        self._due.append(entry)
        self._set()
        return entry

    def _set(self):
        delay = min((entry[0] for entry in self._due), default=0)
        signal.setitimer(signal.ITIMER_REAL, max(delay - monotonic(), 1e-6) if delay else 0)

    def _ring(self, *_):
        now = monotonic()
        ringing = [entry for entry in self._due if entry[0] <= now]
        for entry in ringing:
            if len(entry) == 3:
                entry[0] += entry[2] * ((now - entry[0]) // entry[2] + 1)
            else:
                self._due.remove(entry)
        self._set()
        for entry in ringing:
            entry[1]()
