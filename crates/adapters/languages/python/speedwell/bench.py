"""The object that a benchmark's function receives."""

from itertools import chain, repeat
from time import perf_counter_ns, thread_time_ns


class Skipped(Exception):
    """The benchmark cannot run here, which is not a failure."""


class Failed(Exception):
    """The benchmark reports its own failure."""


class Bench:
    """One pass of one worker: `for _ in bench` executes and measures its iterations."""

    def __init__(self, iterations, state=None, worker=0, workers=1):
        self.iterations = iterations
        self.state = state
        self.worker = worker
        self.workers = workers
        self.begun_ns = self.ended_ns = self.loops = 0
        self.begun_cpu_ns = self.ended_cpu_ns = 0
        self.paused_ns = 0
        self.manual_ns = None
        self.readings = {}
        self.answer = None

    def __iter__(self):
        self.loops += 1
        # `chain` requests its second part at the end, so that no Python code runs between two
        # iterations.
        turns = chain(repeat(None, self.iterations), _End(self))
        # Read outside the wall-clock measurement, because it is a system call.
        self.begun_cpu_ns = thread_time_ns()
        self.begun_ns = perf_counter_ns()
        return turns

    def pause(self):
        """Excludes what follows, up to resume(), from the measured time."""
        self._paused_at_ns = perf_counter_ns()

    def resume(self):
        self.paused_ns += perf_counter_ns() - self._paused_at_ns

    def took(self, seconds):
        """Adds to the measured time, which replaces that of the loop."""
        self.manual_ns = (self.manual_ns or 0) + seconds * 1e9

    def bytes(self, amount):
        """How many bytes the whole loop processed; shown per second."""
        self.rate("bytes", amount, "B/s")

    def items(self, amount):
        """How many items the whole loop processed; shown per second."""
        self.rate("items", amount, "1/s")

    def rate(self, name, amount, unit="1/s"):
        """An amount of the whole loop, divided by its time."""
        self.readings[name] = (unit, "higher", True, float(amount))

    def metric(self, name, value, unit, better):
        """Any other metric, as a plain value; `better` is 'higher' or 'lower'."""
        if better not in ("higher", "lower"):
            raise ValueError("'better' must be 'higher' or 'lower'")
        self.readings[name] = (unit, better, False, float(value))

    def check(self, answer):
        """The computed answer. It is compared between variants and must not depend on iterations."""
        self.answer = str(answer)

    def skip(self, reason):
        """Ends the benchmark because it cannot run here."""
        raise Skipped(reason)

    def fail(self, reason):
        """Ends the benchmark with a failure."""
        raise Failed(reason)


class _End:
    """The empty second part of the loop's iterator, requested when the first is exhausted."""

    __slots__ = ("bench",)

    def __init__(self, bench):
        self.bench = bench

    def __iter__(self):
        self.bench.ended_ns = perf_counter_ns()
        self.bench.ended_cpu_ns = thread_time_ns()
        return iter(())
