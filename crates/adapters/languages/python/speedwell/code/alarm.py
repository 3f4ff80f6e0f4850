"""The single timer signal of the process, shared by all callers that need a callback.

A waiting thread would have to switch with the measured code; a signal costs nothing until it
arrives.
"""

import signal
from time import monotonic


class Alarm:
    """Entered during a run: an alarm that belongs to the run does not fire after it."""

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
        """Calls `act` from a signal handler in the main thread; returns a function that cancels
        it."""
        entry = [monotonic() + seconds, act]
        if self._of_run is not None:
            self._of_run.append(entry)
        return self._added(entry)

    def again(self, seconds, act):
        """The same, repeated at this interval, whether a run is active or not."""
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
