"""One conversation with Speedwell: reads a command, answers it, reads the next."""

import os
import platform
import sys
import traceback
from time import perf_counter_ns

from .bench import Skipped
from .channel import Closed, Stopped
from .declare import DECLARED, BadArgument, text_of, type_name
from .measure import Misused, Order, Sampler
from .open import open_file


class Refused(Exception):
    """A command that cannot be done, with stage and class of its error."""

    def __init__(self, stage, name, message):
        super().__init__(message)
        self.stage = stage
        self.name = name


class Session:
    def __init__(self, channel):
        self.channel = channel
        self.opened = None
        self.jobs = {}
        self.leaving = False

    def serve(self):
        """Answers commands until `quit` or the end of the channel."""
        verbs = {"hello": self._hello, "describe": self._describe, "load": self._load,
                 "run": self._run, "stop": self._stop, "unload": self._unload}
        while not self.leaving:
            command = self.channel.next()
            if command is None or command.verb == "quit":
                return
            try:
                if command.verb not in verbs:
                    raise Refused("protocol", "UnknownVerb", f"unknown verb '{command.verb}'")
                verbs[command.verb](command)
            except Exception as error:
                self._fail(command, command.text("job"), "run", error)

    def _fail(self, command, job, stage, error, fatal=0):
        """Sends an error as an event; of user code, the stack goes to stderr as well."""
        name, line, stack = type(error).__name__, None, None
        if isinstance(error, (Refused, Misused)):
            stage, name = getattr(error, "stage", stage), error.name
        elif isinstance(error, BadArgument):
            stage = "protocol"
        elif not isinstance(error, Skipped):
            stack = "".join(traceback.format_exception(type(error), error, self._own_part(error)))
            print(stack, file=sys.stderr, flush=True)
            line = self._line_of(error)
        self.channel.send("error", id=command.text("id"), job=job, stage=stage, **{"class": name},
                          msg=str(error), stack=stack, line=line, fatal=fatal)

    def _own_part(self, error):
        """The stack from the benchmark file on; how its function came to be called says nothing."""
        own = error.__traceback__
        while own and own.tb_frame.f_code.co_filename != self.opened:
            own = own.tb_next
        return own or error.__traceback__

    def _line_of(self, error):
        """The innermost line of the benchmark file that the error went through."""
        if isinstance(error, SyntaxError):
            return error.lineno
        frames = traceback.extract_tb(error.__traceback__)
        return next((frame.lineno for frame in reversed(frames) if frame.filename == self.opened), None)

    def _hello(self, command):
        if command.text("proto") != "1":
            wrong = Refused("protocol", "Version", "only protocol version 1 is spoken here")
            self._fail(command, None, "protocol", wrong, fatal=1)
            self.leaving = True
            return
        warnings = {f"warn{at}": text for at, text in enumerate(_warnings())}
        jit = platform.python_implementation() == "PyPy"
        self.channel.send(
            "ready", id=command.text("id"), proto=1, lang="python", version=platform.python_version(),
            flavor="jit" if jit else "interp", build="debug" if _is_debug() else "opt",
            cpus=len(os.sched_getaffinity(0)), clock="perf_counter", clock_res_ns=_clock_step_ns(),
            caps=["once", "timed", "async"], gauges=[], **warnings)

    def _open(self, command):
        path = command.text("path")
        if not path:
            raise Refused("protocol", "MissingKey", f"{command.verb} needs 'path'")
        if self.opened == path:
            return
        DECLARED.clear()
        self.opened = path
        try:
            open_file(path)
        except (Exception, SystemExit) as error:
            self.opened = None
            stage = "parse" if isinstance(error, SyntaxError) else "compile"
            if not isinstance(error, SystemExit):
                self.opened = path
                traceback.print_exception(type(error), error, self._own_part(error))
                self.opened = None
            raise Refused(stage, type(error).__name__, str(error)) from error

    def _describe(self, command):
        self._open(command)
        common = {"id": command.text("id")}
        count = 0
        for declared in DECLARED:
            parameters = declared.with_words(command.list("args"))
            about = {f"param.{name}": [text_of(value) for value in values]
                     for name, values in parameters.items()}
            kinds = {f"type.{name}": type_name(values) for name, values in declared.parameters.items()}
            name = _full_name(command, declared)
            self.channel.send("benchmark", **common, name=name, modes=["timed", "once"], flags=[],
                              line=declared.function.__code__.co_firstlineno, **kinds, **about)
            for values in declared.cases(command.list("args")):
                words = [f"{key}={text_of(value)}" for key, value in values.items()]
                self.channel.send("case", **common, benchmark=name, args=words)
                count += 1
        self.channel.send("described", **common, count=len(DECLARED), cases=count)

    def _load(self, command):
        job, form = command.text("job"), command.text("form")
        if not job:
            raise Refused("protocol", "MissingKey", "load needs 'job'")
        if form != "case":
            raise Refused("protocol", "Form", f"form '{form}' is not offered, only 'case'")
        self._open(command)
        declared = self._wanted(command)
        values = {}
        for name in declared.parameters:
            text = command.text(f"value.{name}")
            if text is None:
                raise Refused("protocol", "MissingValue", f"no value for '{name}'")
            values[name] = declared.value(name, text)
        if declared.only and not declared.only(**values):
            raise Refused("compile", "NoCase", "the file's own filter rejects this case")
        self.jobs[job] = (declared, values)
        self.channel.send("loaded", id=command.text("id"), job=job, form=form,
                          source=command.text("path"), arity=len(values))

    def _wanted(self, command):
        name = command.text("benchmark")
        if name is None and len(DECLARED) == 1:
            return DECLARED[0]
        for declared in DECLARED:
            if name in (declared.name, _full_name(command, declared)):
                return declared
        raise Refused("protocol", "UnknownBenchmark", f"the file has no benchmark '{name}'")

    def _stop(self, command):
        self.channel.send("stopped", id=command.text("id"), job=command.text("job"))

    def _unload(self, command):
        job = command.text("job")
        if self.jobs.pop(job, None) is None:
            raise Refused("protocol", "UnknownJob", f"no job '{job}'")
        self.channel.send("unloaded", id=command.text("id"), job=job)

    def _run(self, command):
        mode = command.text("mode")
        if mode not in ("once", "timed"):
            raise Refused("protocol", "Mode", f"mode '{mode}' is not offered, only 'timed' and 'once'")
        jobs = command.list("jobs")
        for job in jobs:
            if job not in self.jobs:
                raise Refused("protocol", "UnknownJob", f"no job '{job}'")
        usual = Order()
        order = Order(1, 0, 0, 1) if mode == "once" else Order(
            command.number("samples", usual.samples), command.number("sample_ns", usual.sample_ns),
            command.number("warmup_ns", usual.warmup_ns), command.number("loop", 0))
        begin_ns = perf_counter_ns()
        for job in jobs:
            self._run_job(command, job, order, mode)
            if self.leaving:
                return
        self.channel.send("end", id=command.text("id"), jobs=jobs,
                          elapsed_ns=perf_counter_ns() - begin_ns, max_late_ns=0)

    def _run_job(self, command, job, order, mode):
        """Runs one case; its error is an event, so that the other jobs go on."""
        declared, values = self.jobs[job]
        try:
            state = declared.setup(**values) if declared.setup else None
        except Exception as error:
            self._fail(command, job, "init", error)
            return
        sampler = Sampler(declared, values, state, order)
        failed = None
        try:
            with self.channel:
                sampler.take()
        except Closed:
            self.leaving = True
        except Stopped:
            pass
        except (Exception, SystemExit) as error:
            failed = error
        if not self.leaving:
            self._report(command, job, sampler.figures, mode)
            if failed:
                self._fail(command, job, "run", failed)
        try:
            if declared.teardown:
                declared.teardown(state)
        except Exception as error:
            self._fail(command, job, "done", error)

    def _report(self, command, job, figures, mode):
        common = {"id": command.text("id"), "job": job}
        if not figures.elapsed_ns:
            return
        if mode == "once":
            iterations, elapsed_ns = figures.workers, max(figures.elapsed_ns[0], 1)
            self.channel.send("once", **common, iterations=iterations, elapsed_ns=elapsed_ns,
                              rate=iterations / (elapsed_ns / 1e9))
        else:
            same = len(set(figures.iterations)) == 1
            self.channel.send("timed", **common, workers=figures.workers, ns=figures.elapsed_ns,
                              loop=figures.iterations[:1] if same else figures.iterations)
        for name, (unit, better, given) in figures.metrics.items():
            self.channel.send("metric", **common, name=name, unit=unit, better=better, value=given)
        if figures.answer is not None:
            self.channel.send("check", **common, text=figures.answer)


def _full_name(command, declared):
    """`memory/copy/NAME` for a benchmark of `ROOT/memory/copy.py`."""
    path, root = command.text("path"), command.text("root")
    inside = os.path.relpath(path, root) if root else os.path.basename(path)
    return f"{os.path.splitext(inside)[0]}/{declared.name}"


def _is_debug():
    return hasattr(sys, "gettotalrefcount")


def _clock_step_ns():
    """The smallest step seen between two readings: resolution and cost together, which counts."""
    times = [perf_counter_ns() for _ in range(64)]
    steps = [after - before for before, after in zip(times, times[1:]) if after > before]
    return min(steps, default=0)


def _warnings():
    if _is_debug():
        yield "this is a debug build of Python"
    if sys.flags.dev_mode:
        yield "Python runs in development mode"
    if sys.gettrace() or sys.getprofile():
        yield "a tracer or profiler is on"
