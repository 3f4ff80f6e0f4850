"""The rules of measurement: how long a batch is, which points are recorded, what counts in the histogram."""

from math import log2
from time import thread_time_ns

# Shorter batches are doubled, batches longer than the next limit halved (docs/reference/protocol.md).
SHORT_NS = 50_000
LONG_NS = 2_000_000

# Neighboring classes of the histogram differ by 1 %; a class is reported by its middle.
CLASSES_PER_DOUBLING = 70


class Histogram:
    """Times per iteration of batches, in picoseconds, each with an error of at most 0.5 %."""

    def __init__(self):
        self.classes = {}
        self.count = 0
        self.least_ps = None

    def add(self, time_ps):
        if self.least_ps is None or time_ps < self.least_ps:
            self.least_ps = time_ps
        index = int(log2(max(time_ps, 1)) * CLASSES_PER_DOUBLING)
        self.classes[index] = self.classes.get(index, 0) + 1
        self.count += 1

    def merge(self, other):
        for index, count in other.classes.items():
            self.classes[index] = self.classes.get(index, 0) + count
        self.count += other.count
        least = [one for one in (self.least_ps, other.least_ps) if one is not None]
        self.least_ps = min(least, default=None)

    def quantiles_ps(self):
        """Returns the minimum, 5 %, 25 % and 50 %; nothing if no batch was added."""
        if not self.count:
            return []
        return [round(self.least_ps)] + [round(self._quantile_ps(share)) for share in (0.05, 0.25, 0.5)]

    def _quantile_ps(self, share):
        left = share * self.count
        for index in sorted(self.classes):
            left -= self.classes[index]
            if left <= 0:
                return max(self.least_ps, 2 ** ((index + 0.5) / CLASSES_PER_DOUBLING))
        return self.least_ps


def adapted(iterations, took_ns):
    """Returns the number of iterations of the next batch."""
    if took_ns < SHORT_NS:
        return iterations * 2
    return max(1, iterations // 2) if took_ns > LONG_NS else iterations


class Windows:
    """The points and batches of one worker in one continuous run; times are in ns since the epoch."""

    def __init__(self, order):
        self.order = order
        self.deadline_ns = order.warmup_ns
        self.t_ns = []
        self.counts = []
        self.count = 0
        self.late_ns = 0
        self.begun_cpu_ns = self.cpu_ns = 0
        self.histogram = Histogram()
        if not order.warmup_ns:
            self._note(0)

    @property
    def complete(self):
        return len(self.t_ns) > self.order.samples

    def batch(self, iterations, took_ns, now_ns):
        """Records a finished batch; returns whether it completed a point."""
        self.count += iterations
        if self.complete:
            return False
        if self.t_ns:
            self.histogram.add(took_ns * 1000 / iterations)
        if now_ns < self.deadline_ns:
            return False
        self.late_ns = max(self.late_ns, now_ns - self.deadline_ns)
        self._note(now_ns)
        return True

    def _note(self, now_ns):
        self.t_ns.append(now_ns)
        self.counts.append(self.count)
        # Once per window: a system call, which takes about 1 µs.
        if len(self.counts) == 1:
            self.begun_cpu_ns = thread_time_ns()
        else:
            self.cpu_ns = thread_time_ns() - self.begun_cpu_ns
        order = self.order
        passed = (now_ns - order.warmup_ns) // order.interval_ns
        self.deadline_ns = order.warmup_ns + (passed + 1) * order.interval_ns


class Passes:
    """The samples of one worker in one timed run: (begin, end) in ns since the epoch, and by its thread's
    processor clock, which is read outside the wall-clock measurement."""

    def __init__(self):
        self.ends_ns = []
        self.cpu_ns = []
        self.reference_ns = []
        self.histogram = Histogram()
