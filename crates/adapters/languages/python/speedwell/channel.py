"""The two descriptors of the harness protocol.

Commands are read on demand. While a benchmark runs, a signal announces input or the end: no thread
listens, because the interpreter would have to switch between threads.
"""

import fcntl
import os
import select
import signal
import threading
from contextlib import contextmanager

from .wire import Command, encode


class Closed(KeyboardInterrupt):
    """The other side has closed. Like KeyboardInterrupt, neither asyncio nor `except Exception`
    catches it."""


class Stopped(KeyboardInterrupt):
    """The run must end early."""


class Channel:
    def __init__(self, commands, events):
        self._commands = commands
        self._events = events
        self._lines = []
        self._partial = b""
        self._ended = False
        self._armed = False
        self._told = None
        self._lock = threading.RLock()
        self._outgoing = []
        for descriptor in (commands, events):
            os.set_inheritable(descriptor, False)

    def send(self, verb, **fields):
        """Writes one message; returns when the kernel has accepted it."""
        # A signal may interrupt one message with another, which then waits in the queue.
        with self._lock:
            self._outgoing.append(encode(verb, fields).encode("utf-8", "surrogateescape"))
            if len(self._outgoing) > 1:
                return
            while self._outgoing:
                self._write(self._outgoing[0])
                del self._outgoing[0]

    def _write(self, data):
        try:
            while data:
                data = data[os.write(self._events, data):]
        except BrokenPipeError:
            pass

    def next(self):
        """Returns the next command; None at the end."""
        while not self._lines and not self._ended:
            self._read()
        return Command(self._lines.pop(0)) if self._lines else None

    def __enter__(self):
        """From now on, Closed and Stopped are raised wherever the main thread is."""
        self._arm()
        return self

    def __exit__(self, *_):
        self._armed = False

    @contextmanager
    def telling(self, act):
        """While active, calls `act` from a signal handler when a stop has arrived or the commands
        have ended."""
        self._told = act
        self._arm()
        try:
            yield
        finally:
            self._armed = False
            self._told = None

    def _arm(self):
        signal.signal(signal.SIGIO, self._signalled)
        fcntl.fcntl(self._commands, fcntl.F_SETOWN, os.getpid())
        flags = fcntl.fcntl(self._commands, fcntl.F_GETFL)
        fcntl.fcntl(self._commands, fcntl.F_SETFL, flags | os.O_ASYNC)
        self._armed = True
        self._signalled()

    def _signalled(self, *_):
        if not self._armed:
            return
        state = self._state()
        while state & select.POLLIN and not state & select.POLLHUP and not self._ended:
            self._read()
            state = self._state()
        if state & select.POLLHUP or self._ended:
            self._armed = False
            self._ended, self._lines = True, []
            if self._told:
                self._told()
                return
            raise Closed
        stops = [line for line in self._lines if line.split("\t")[0] == "stop"]
        if stops:
            self._lines.remove(stops[0])
            stop = Command(stops[0])
            self.send("stopped", id=stop.text("id"), job=stop.text("job"))
            if self._told:
                # The commands may still end, but nothing needs to be reported anymore.
                self._told()
                return
            self._armed = False
            raise Stopped

    def _state(self):
        poll = select.poll()
        poll.register(self._commands, select.POLLIN)
        return poll.poll(0)[0][1] if poll.poll(0) else 0

    def _read(self):
        data = os.read(self._commands, 65536)
        if not data:
            self._ended = True
        *lines, self._partial = (self._partial + data).split(b"\n")
        self._lines += [line.decode("utf-8", "replace") for line in lines]
