"""A worker: its state, and how it measures code, awaited or not."""

from itertools import repeat
from time import perf_counter_ns, thread_time_ns

from .batches import Passes, Windows, adapted

# An awaited runner that never suspends would block the event loop: it yields at this interval, the
# same at which threads switch (sys.getswitchinterval).
TURN_NS = 5_000_000


def is_awaitable(value):
    """Whether `await` accepts it. Module `inspect` is more thorough but slow to import."""
    return hasattr(type(value), "__await__")


def run_to_end(awaitable):
    """Returns the result of an awaited hook, in a separate event loop."""
    import asyncio

    async def wait():
        return await awaitable

    return asyncio.run(wait())


class turn:
    """An awaitable that yields to the event loop once."""

    def __await__(self):
        yield


class Promised(Exception):
    """The very first iteration returned an awaitable."""

    def __init__(self, worker, awaitable):
        super().__init__()
        self.worker = worker
        self.awaitable = awaitable


class Worker:
    def __init__(self, job, number):
        self.job = job
        self.number = number
        self.thread = None
        self.iterations = 1
        self.progress = 0
        self.proved = False
        self.state = None
        self.given = None

    def begin(self):
        """Initializes the worker, on the thread that it will measure on."""
        value = self.job.begin_runner()
        self._take(run_to_end(value) if is_awaitable(value) else value)

    async def begin_awaited(self):
        value = self.job.begin_runner()
        self._take(await value if is_awaitable(value) else value)

    async def continue_awaited(self, awaitable):
        """Continues after a first iteration that turned out to be awaitable."""
        self.loop = self.job.runner.loop(self.job.scope)
        self.given = await awaitable

    def _take(self, state):
        self.state = self.given = state
        # Each worker has its own code object, so that workers do not share the interpreter's
        # specializations.
        self.loop = self.job.runner.loop(self.job.scope)

    def _batch(self, iterations):
        self.given, self.state = self.loop(repeat(None, iterations), self.given, self.state,
                                           self.job.shared)
        self.progress += iterations
        if not self.proved:
            self.proved = True
            if is_awaitable(self.given):
                raise Promised(self, self.given)

    async def _batch_awaited(self, iterations):
        self.given, self.state = await self.loop(repeat(None, iterations), self.given, self.state,
                                                 self.job.shared)
        self.progress += iterations

    def continuous(self, run, part, epoch_ns):
        windows = Windows(run.order)
        begun_ns = 0
        try:
            while not windows.complete or not run.all_finished:
                iterations = self.iterations
                self._batch(iterations)
                now_ns = perf_counter_ns() - epoch_ns
                begun_ns = self._noted(run, part, windows, iterations, begun_ns, now_ns, epoch_ns)
                if part.over:
                    break
        finally:
            if not windows.complete:
                run.finished()
        return windows

    async def continuous_awaited(self, run, part, epoch_ns):
        windows = Windows(run.order)
        begun_ns = turned_ns = 0
        try:
            while not windows.complete or not run.all_finished:
                iterations = self.iterations
                await self._batch_awaited(iterations)
                now_ns = perf_counter_ns() - epoch_ns
                begun_ns = self._noted(run, part, windows, iterations, begun_ns, now_ns, epoch_ns)
                if part.over:
                    break
                if now_ns - turned_ns > TURN_NS:
                    await turn()
                    begun_ns = turned_ns = perf_counter_ns() - epoch_ns
        finally:
            if not windows.complete:
                run.finished()
        return windows

    def _noted(self, run, part, windows, iterations, begun_ns, now_ns, epoch_ns):
        """Records a finished batch; returns when the next one begins."""
        was_complete = windows.complete
        point = windows.batch(iterations, now_ns - begun_ns, now_ns)
        self.iterations = adapted(iterations, now_ns - begun_ns)
        if windows.complete and not was_complete:
            run.finished()
        if point and run.stream:
            run.point(part, self.number, windows)
            return perf_counter_ns() - epoch_ns
        return now_ns

    def timed(self, run, part, epoch_ns):
        passes = Passes()
        while len(passes.ends_ns) < run.order.samples and part.meet():
            keeps = part.keeps
            begun_cpu_ns = thread_time_ns()
            begun_ns = before_ns = perf_counter_ns() - epoch_ns
            left = run.order.loop
            while left and not part.over:
                iterations = min(self.iterations, left)
                self._batch(iterations)
                now_ns = perf_counter_ns() - epoch_ns
                self._counted(passes, keeps, iterations, now_ns - before_ns)
                left -= iterations
                before_ns = now_ns
            cpu_ns = begun_cpu_ns, thread_time_ns()
            if not part.meet():
                break
            self._kept(run, part, passes, keeps, (begun_ns, before_ns), cpu_ns)
        return passes

    async def timed_awaited(self, run, part, epoch_ns):
        passes = Passes()
        turned_ns = 0
        while len(passes.ends_ns) < run.order.samples and await part.meet_awaited():
            keeps = part.keeps
            begun_cpu_ns = thread_time_ns()
            begun_ns = before_ns = ended_ns = perf_counter_ns() - epoch_ns
            left = run.order.loop
            while left and not part.over:
                iterations = min(self.iterations, left)
                await self._batch_awaited(iterations)
                before_ns, ended_ns = ended_ns, perf_counter_ns() - epoch_ns
                self._counted(passes, keeps, iterations, ended_ns - before_ns)
                left -= iterations
                if left and ended_ns - turned_ns > TURN_NS:
                    await turn()
                    ended_ns = turned_ns = perf_counter_ns() - epoch_ns
            cpu_ns = begun_cpu_ns, thread_time_ns()
            if not await part.meet_awaited():
                break
            self._kept(run, part, passes, keeps, (begun_ns, ended_ns), cpu_ns)
        return passes

    def _counted(self, passes, keeps, iterations, took_ns):
        if keeps:
            passes.histogram.add(took_ns * 1000 / iterations)
        if iterations == self.iterations:
            self.iterations = adapted(iterations, took_ns)

    def _kept(self, run, part, passes, keeps, ends_ns, cpu_ns):
        if keeps:
            passes.ends_ns.append(ends_ns)
            passes.cpu_ns.append(cpu_ns)
            if self.number == 0:
                run.order.reference.after(len(passes.ends_ns), passes.reference_ns)
        elif self.number == 0 and ends_ns[1] >= run.order.warmup_ns:
            part.keeps = True
