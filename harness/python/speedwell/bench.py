"""What a benchmark's function talks to."""

from itertools import chain, repeat
from time import perf_counter_ns, thread_time_ns


class Skipped(Exception):
    """The benchmark cannot run here; that is no failure."""


class Failed(Exception):
    """The benchmark says itself that it has failed."""


class Bench:
    """One pass of one worker: `for _ in bench` goes through its iterations and is measured."""

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
        # The end is noticed by `chain` asking for its second part, so that nothing written in
        # Python happens between two iterations.
        turns = chain(repeat(None, self.iterations), _End(self))
        # Outside of what the other clock measures, because it takes a call of the system.
        self.begun_cpu_ns = thread_time_ns()
        self.begun_ns = perf_counter_ns()
        return turns

    def pause(self):
        """Leaves what follows, up to resume(), out of the measured time."""
        self._paused_at_ns = perf_counter_ns()

    def resume(self):
        self.paused_ns += perf_counter_ns() - self._paused_at_ns

    def took(self, seconds):
        """Adds to the time that counts, instead of the time of the loop."""
        self.manual_ns = (self.manual_ns or 0) + seconds * 1e9

    def bytes(self, amount):
        """How many bytes the whole loop worked through; shown per second."""
        self.rate("bytes", amount, "B/s")

    def items(self, amount):
        """How many items the whole loop worked through; shown per second."""
        self.rate("items", amount, "1/s")

    def rate(self, name, amount, unit="1/s"):
        """An amount of the whole loop that is divided by its time."""
        self.readings[name] = (unit, "higher", True, float(amount))

    def metric(self, name, value, unit, better):
        """Any other figure, as it is; `better` is 'higher' or 'lower'."""
        if better not in ("higher", "lower"):
            raise ValueError("better is 'higher' or 'lower'")
        self.readings[name] = (unit, better, False, float(value))

    def check(self, answer):
        """The computed answer. It is compared between variants and must not depend on iterations."""
        self.answer = str(answer)

    def skip(self, reason):
        """Ends the benchmark: it cannot run here."""
        raise Skipped(reason)

    def fail(self, reason):
        """Ends the benchmark as failed."""
        raise Failed(reason)


class _End:
    """The second part of the loop's iterations: empty, and asked for when the first is over."""

    __slots__ = ("bench",)

    def __init__(self, bench):
        self.bench = bench

    def __iter__(self):
        self.bench.ended_ns = perf_counter_ns()
        self.bench.ended_cpu_ns = thread_time_ns()
        return iter(())
