"""What all jobs of a process share, and the commands about them."""

import os
import re
import sys
from itertools import repeat
from time import perf_counter_ns

from .alarm import Alarm
from .batches import adapted
from .form import empty
from .job import HOOKS, AtStage, Job, add_paths
from .run import Order, Run

_PATH = re.compile(r"path(\d+)")


class Host:
    def __init__(self, session):
        self.session = session
        self.channel = session.channel
        self.jobs = {}
        self._loop = None
        self.gauges = None
        self.alarm = Alarm()
        self.abandoned = []

    @property
    def loop(self):
        """The event loop of all awaited code; it lives as long as the process, because objects created
        by a hook are bound to it."""
        if not self._loop:
            import asyncio

            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        return self._loop

    def wait(self, awaitable):
        """Returns the result of an awaitable."""
        async def awaiting():
            return await awaitable

        return self.loop.run_until_complete(awaiting())

    def load(self, command):
        name = command.text("job")
        if name in self.jobs:
            self.session.refuse("protocol", "SecondLoad", f"job '{name}' is already loaded")
        if command.text("runner") is None:
            self.session.refuse("protocol", "MissingKey", "load needs 'runner'")
        if command.text("lang") not in (None, "python"):
            self.session.refuse("protocol", "Language",
                                f"unsupported language '{command.text('lang')}': expected 'python'")
        folders = sorted((int(_PATH.fullmatch(key).group(1)), command.text(key))
                         for key in command.fields if _PATH.fullmatch(key))
        paths = [path for _, path in folders]
        add_paths(paths)
        files = [path for path in paths if path.endswith(".py") and os.path.isfile(path)]
        job = Job(name, {hook: command.text(hook) for hook in HOOKS}, self, files)
        job.begin()
        self.jobs[name] = job
        # An interpreter executes everything except constants that its compiler folds.
        is_executed = sys.implementation.name == "cpython" and not job.runner.is_constant()
        self.channel.send("loaded", id=command.text("id"), job=name, form="text",
                          source=job.runner.source(), arity=job.runner.arity or 0,
                          **({"async": 1} if job.awaited else {}), **({"folds": 0} if is_executed else {}))

    def job(self, name):
        if name not in self.jobs:
            self.session.refuse("protocol", "UnknownJob", f"unknown job '{name}'")
        return self.jobs[name]

    def show(self, name):
        """Registers this job's text for stack traces."""
        if name in self.jobs:
            for form in self.jobs[name].forms.values():
                form.show()

    def workers(self, command):
        job = self.job(command.text("job"))
        begin_ns = perf_counter_ns()
        job.resize(self._number(command, "n", 1))
        self.channel.send("workers", id=command.text("id"), job=job.name, n=len(job.workers),
                          ms=(perf_counter_ns() - begin_ns) // 1_000_000)

    def _number(self, command, key, least):
        text = command.text(key) or ""
        if not text.isdigit() or int(text) < least:
            self.session.refuse("protocol", "MissingKey",
                                f"{command.verb} needs '{key}', an integer of at least {least}")
        return int(text)

    def run(self, command):
        begin_ns = perf_counter_ns()
        mode, names = command.text("mode"), command.list("jobs")
        jobs = [self.job(name) for name in names]
        required_key = "interval_ns" if mode == "continuous" else "loop"
        series = mode == "series"
        warmup_ns = 0 if series else self._number(command, "warmup_ns", 0)
        reference = command.number("reference", 0) if series else 0
        order = Order(self._number(command, "samples", 1), warmup_ns, reference,
                      **{required_key: self._number(command, required_key, 1)})
        run = Run(self, command.text("id"), mode, order, command.text("stream") == "1")
        for job in jobs:
            run.prepare(job)
        with self.channel.telling(run.stop), self.alarm:
            run.perform()
        run.report()
        self.channel.send("end", id=command.text("id"), jobs=names,
                          elapsed_ns=perf_counter_ns() - begin_ns, max_late_ns=run.late_ns)

    def calibrate(self, command):
        job = self.job(command.text("job"))
        target_ns = self._number(command, "target_ns", 1)
        loop = empty(job.runner)
        iterations, least_ps = 1, float("inf")
        begin_ns = before_ns = perf_counter_ns()
        while before_ns - begin_ns < target_ns:
            loop(repeat(None, iterations), None, None, None)
            now_ns = perf_counter_ns()
            least_ps = min(least_ps, (now_ns - before_ns) * 1000 / iterations)
            iterations = adapted(iterations, now_ns - before_ns)
            before_ns = now_ns
        self.channel.send("calibrated", id=command.text("id"), job=job.name, empty_ps=round(least_ps))

    def monitor(self, command):
        interval_ns = self._number(command, "interval_ns", 0)
        if self.gauges:
            self.gauges.end()
            self.gauges = None
        if interval_ns:
            from .gauges import Gauges

            self.gauges = Gauges(self, command.text("id"), interval_ns)

    def leave(self, thread):
        """Abandons a thread: Python code in it ends, native code continues."""
        try:
            import ctypes

            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(thread.thread.ident), ctypes.py_object(SystemExit))
        except (ImportError, AttributeError):
            pass
        self.abandoned.append(thread)

    def cancel_tasks(self):
        """Cancels whatever is still awaited at the end of its run."""
        if self._loop:
            import asyncio

            for task in asyncio.all_tasks(self._loop):
                task.cancel()

    def unload(self, name):
        self.jobs.pop(name).end()

    def end(self):
        """Unloads all jobs; reports what fails."""
        while self.jobs:
            name = next(iter(self.jobs))
            try:
                self.unload(name)
            except AtStage as error:
                self.session.fail_code(None, name, error)

        if any(thread.thread.is_alive() for thread in self.abandoned):
            # At exit, the interpreter would wait for the thread or be disturbed by it.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
