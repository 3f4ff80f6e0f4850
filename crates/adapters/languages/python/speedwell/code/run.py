"""One run of one or several jobs: starts all workers at one epoch, waits, reports."""

import threading
from time import perf_counter_ns

from ..reference import Reference
from .batches import Histogram
from .job import AtStage
from .loop import Promised

# How long a batch may continue after a stop (docs/reference/protocol.md).
GIVE_UP_S = 1.0


class GivenUp(KeyboardInterrupt):
    """An iteration did not end after a stop. Neither asyncio nor `except Exception` catches it."""


class Order:
    """Parameters of a run."""

    def __init__(self, samples, warmup_ns, reference=0, interval_ns=0, loop=0):
        self.samples = samples
        self.warmup_ns = warmup_ns
        self.interval_ns = interval_ns
        self.loop = loop
        self.reference = Reference(reference)


class Part:
    """One job in a run."""

    def __init__(self, run, job):
        self.run = run
        self.job = job
        self.failed = False
        self.renew()

    def renew(self):
        self.keeps = self.run.order.warmup_ns == 0
        self.results = {}
        self.points = {}
        self.said = 0
        self.barrier = threading.Barrier(len(self.job.workers))
        self.gate, self.here = None, 0

    @property
    def over(self):
        return self.failed or self.run.stopping

    def meet(self):
        """Waits for the other workers; False if the run is over."""
        if self.barrier.parties > 1 and not self.over:
            try:
                self.barrier.wait()
            except threading.BrokenBarrierError:
                return False
        return not self.over

    async def meet_awaited(self):
        self.gate = self.gate or self.job.host.loop.create_future()
        gate = self.gate
        self.here += 1
        if self.here == len(self.job.workers):
            self.open()
        if not self.over:
            await gate
        return not self.over

    def open(self):
        gate, self.gate, self.here = self.gate, None, 0
        if gate and not gate.done():
            gate.set_result(None)

    def release(self):
        """Releases all waiting workers."""
        self.barrier.abort()
        if self.gate:
            self.job.host.loop.call_soon_threadsafe(self.open)


class Run:
    def __init__(self, host, id, mode, order, stream):
        self.host = host
        self.id = id
        self.timed = mode != "continuous"
        self.order = order
        self.stream = stream
        self.parts = []
        self.stopping = False
        self.late_ns = 0
        self.promised = None
        self.lock = threading.Lock()

    def prepare(self, job):
        """Lets a job take part if it has a worker, or one can be initialized."""
        try:
            if not job.workers:
                job.resize(1)
            self.parts.append(Part(self, job))
        except AtStage as error:
            self.host.session.fail_code(self.id, job.name, error)

    @property
    def all_finished(self):
        return self.left <= 0

    def finished(self):
        """Called when a worker has all its points, or cannot get them anymore."""
        with self.lock:
            self.left -= 1

    def perform(self):
        """Measures; starts again if a runner turned out to return an awaitable."""
        while True:
            self.promised = None
            parts = [part for part in self.parts if not part.failed]
            if not parts:
                return
            for part in parts:
                part.renew()
            self.left = sum(len(part.job.workers) for part in parts)
            try:
                self._measure(parts)
            except GivenUp:
                self._give_up(parts)
            for part in self.parts:
                if part.failed:
                    part.job.drop()
            if not self.promised:
                return
            part, promised = self.promised
            self.stopping = False
            try:
                part.job.become_awaited(promised)
            except Exception as error:
                self._fail(part, error)

    def _measure(self, parts):
        threaded, in_main_thread, awaited = [], [], []
        for part in parts:
            for worker in part.job.workers:
                kind = awaited if part.job.awaited else threaded if worker.thread else in_main_thread
                kind.append((part, worker))
        if len(in_main_thread) > 1 or in_main_thread and awaited:
            self.host.session.refuse("protocol", "OneThread", "several runners need the main thread: "
                                     "load all code before it gets workers")
        self.barrier = threading.Barrier(len(threaded) + 1)
        self.tasks = [worker.thread.do(lambda one=(part, worker): self._outcome(*one, True))
                      for part, worker in threaded]
        if threaded:
            self.barrier.wait()
        self.epoch_ns = perf_counter_ns()
        if threaded:
            self.barrier.wait()
        for part, worker in in_main_thread:
            self._outcome(part, worker, False)
        if awaited:
            self.host.wait(self._all(awaited))
        for task in self.tasks:
            task.result()

    def _outcome(self, part, worker, threaded):
        if threaded:
            self.barrier.wait()
            self.barrier.wait()
        measure = worker.timed if self.timed else worker.continuous
        try:
            part.results[worker.number] = measure(self, part, self.epoch_ns)
        except Promised as promised:
            self._promise(part, promised)
        except (Exception, SystemExit) as error:
            self._fail(part, error)

    async def _all(self, awaited):
        import asyncio

        gauges = self.host.gauges
        watching = asyncio.ensure_future(gauges.watch_loop()) if gauges else None
        await asyncio.gather(*[self._outcome_awaited(part, worker) for part, worker in awaited])
        if watching:
            watching.cancel()

    async def _outcome_awaited(self, part, worker):
        measure = worker.timed_awaited if self.timed else worker.continuous_awaited
        try:
            part.results[worker.number] = await measure(self, part, self.epoch_ns)
        except (Exception, SystemExit) as error:
            self._fail(part, error)

    def _promise(self, part, promised):
        if promised.worker.thread:
            several = TypeError("the runner returns an awaitable: "
                                "with several workers, put an await before it")
            self._fail(part, several)
            return
        self.promised = (part, promised)
        self.stopping = True

    def _fail(self, part, error, stage="run"):
        with self.lock:
            first, part.failed = not part.failed, True
        part.release()
        if first:
            self.host.session.fail_code(self.id, part.job.name, AtStage(stage, error))

    def stop(self):
        """Called from a signal handler when a stop has arrived, or the commands have ended."""
        self.stopping = True
        self.promised = None
        for part in self.parts:
            part.release()
        self.host.alarm.after(GIVE_UP_S, self._too_late)

    def _too_late(self):
        raise GivenUp

    def _give_up(self, parts):
        self.host.cancel_tasks()
        error = TimeoutError(f"an iteration did not end within {GIVE_UP_S:g} s after the stop")
        for part in parts:
            missing = [worker for worker in part.job.workers if worker.number not in part.results]
            if missing:
                self._fail(part, error, "timeout")
            for worker in missing:
                if worker.thread:
                    self.host.leave(worker.thread)

    def point(self, part, number, windows):
        """Sends `sample` for every deadline that all workers of a job have passed."""
        with self.lock:
            part.points[number] = list(zip(windows.t_ns, windows.counts))
            while all(len(part.points.get(worker.number, ())) > part.said for worker in part.job.workers):
                self._sample(part, [points[part.said] for points in part.points.values()])
                part.said += 1

    def _sample(self, part, points):
        t_ns = max(time for time, _ in points)
        late_ns = max(0, t_ns - self.order.warmup_ns - part.said * self.order.interval_ns)
        self.host.channel.send("sample", id=self.id, job=part.job.name, k=part.said, t_ns=t_ns,
                               count=sum(count for _, count in points), workers=len(points),
                               late_ns=late_ns)

    def report(self):
        for part in self.parts:
            if part.failed:
                continue
            results = [part.results[number] for number in sorted(part.results)]
            if self.timed:
                self._report_timed(part, results)
            else:
                for number, windows in enumerate(results):
                    self._report_worker(part, number, windows)

    def _report_worker(self, part, number, windows):
        self.late_ns = max(self.late_ns, windows.late_ns)
        # Workers on one thread share its processor time.
        alone = not part.job.awaited or len(part.results) == 1
        cpu_ns = {"cpu_ns": windows.cpu_ns} if alone and len(windows.counts) > 1 else {}
        self.host.channel.send(
            "worker", id=self.id, job=part.job.name, w=number, epoch_ns=0,
            batch=part.job.workers[number].iterations, t_ns=windows.t_ns, count=windows.counts,
            q_ps=windows.histogram.quantiles_ps(), batches=windows.histogram.count, **cpu_ns)

    def _report_timed(self, part, results):
        histogram = Histogram()
        for passes in results:
            histogram.merge(passes.histogram)
        samples = zip(*(passes.ends_ns for passes in results))
        times_ns = [max(end for _, end in ends) - min(begin for begin, _ in ends) for ends in samples]
        cpu_ns = [_cpu_ns(ends, part.job.awaited) for ends in zip(*(passes.cpu_ns for passes in results))]
        self.host.channel.send(
            "timed", id=self.id, job=part.job.name, ns=times_ns, cpu_ns=cpu_ns, loop=[self.order.loop],
            workers=len(results), q_ps=histogram.quantiles_ps(), batches=histogram.count,
            **({"reference_ns": results[0].reference_ns} if results[0].reference_ns else {}))


def _cpu_ns(ends, shared):
    """The processor time of a sample by its workers' clocks, or by their shared clock."""
    if shared:
        return max(end for _, end in ends) - min(begin for begin, _ in ends)
    return sum(end - begin for begin, end in ends)
