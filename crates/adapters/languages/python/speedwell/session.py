"""One conversation with Speedwell: reads a command, answers it, reads the next.

Every measuring process pays for startup, so the code for benchmark files (files.py) and for code
(code/host.py) is imported when a command needs it.
"""

import os
import sys
from time import perf_counter_ns

from .refused import Refused

CAPS = ["once", "timed", "series", "async", "continuous", "workers", "monitor", "parallel"]

# What `monitor` reports, named as in the standard library.
GAUGES = ["rss:B", "threads:count", "gc_collections:count", "gc_collected:objects",
          "event_loop_lag:ms"]

# File names in stack traces of code given as text.
CODE = ("<runner>", "<init>", "<init_runner>", "<done>")


class Session:
    def __init__(self, channel):
        self.channel = channel
        self.opened = None
        self.leaving = False
        self._files = self._host = None

    @property
    def files(self):
        if not self._files:
            from .files import Files

            self._files = Files(self)
        return self._files

    @property
    def host(self):
        if not self._host:
            from .code.host import Host

            self._host = Host(self)
        return self._host

    def serve(self):
        """Answers commands until `quit` or the end of the channel."""
        verbs = {"hello": self._hello, "describe": lambda command: self.files.describe(command),
                 "load": self._load, "run": self._run, "stop": self._stop, "unload": self._unload,
                 "workers": lambda command: self.host.workers(command),
                 "calibrate": lambda command: self.host.calibrate(command),
                 "monitor": lambda command: self.host.monitor(command)}
        while not self.leaving:
            command = self.channel.next()
            if command is None or command.verb == "quit":
                break
            try:
                if command.verb not in verbs:
                    raise Refused("protocol", "UnknownVerb", f"unknown verb '{command.verb}'")
                verbs[command.verb](command)
            except Exception as error:
                self.fail(command, command.text("job"), "run", error)
        if self._host:
            self._host.end()

    def fail(self, command, job, stage, error, fatal=0):
        """Sends an error as an event; for user code, the stack trace also goes to stderr."""
        self._send_error(command.text("id"), job, stage, error, fatal)

    def fail_code(self, id, job, at_stage):
        """The same for an error of code that carries its stage."""
        self._send_error(id, job, "run", at_stage)

    def _send_error(self, id, job, stage, error, fatal=0):
        # An error of code carries its stage and wraps the user's own error.
        stage, error = getattr(error, "stage", stage), getattr(error, "error", error)
        name, line, stack = getattr(error, "name", None), None, None
        message = _message(error)
        if isinstance(error, Refused) or type(error).__name__ == "Misused":
            pass
        elif type(error).__name__ == "BadArgument":
            stage, name = "protocol", "BadArgument"
        else:
            name = type(error).__name__
            if name != "Skipped":
                if self._host:
                    self._host.show(job)
                    if name == "NameError" and job in self._host.jobs:
                        message += self._host.jobs[job].visible_names()
                line, stack = self._line_of(error), self._stack_of(error)
                print(stack, file=sys.stderr, flush=True)
        self.channel.send("error", id=id, job=job, stage=stage, **{"class": name}, msg=message,
                          stack=stack, line=line, fatal=fatal)

    def _stack_of(self, error):
        import traceback

        return "".join(traceback.format_exception(type(error), error, self.own_part(error)))

    def own_part(self, error):
        """Returns the stack trace from the user's own text on; the frames before it are the
        harness's."""
        trace = error.__traceback__
        while trace and not self._is_own(trace.tb_frame.f_code.co_filename):
            trace = trace.tb_next
        # A file that does not compile has no executed line.
        is_own = trace is not None or isinstance(error, SyntaxError)
        return trace if is_own else error.__traceback__

    def _is_own(self, file):
        return file in CODE or file == self.opened

    def _line_of(self, error):
        """Returns the innermost line of the user's text that the error passed through."""
        if isinstance(error, SyntaxError):
            return error.lineno
        line, trace = None, error.__traceback__
        while trace:
            line = trace.tb_lineno if self._is_own(trace.tb_frame.f_code.co_filename) else line
            trace = trace.tb_next
        return line

    def refuse(self, stage, name, message):
        raise Refused(stage, name, message)

    def _hello(self, command):
        if command.text("proto") != "1":
            wrong = Refused("protocol", "Version", "only protocol version 1 is supported")
            self.fail(command, None, "protocol", wrong, fatal=1)
            self.leaving = True
            return
        warnings = {f"warn{i}": text for i, text in enumerate(_warnings())}
        jit = sys.implementation.name == "pypy"
        self.channel.send(
            "ready", id=command.text("id"), proto=1, lang="python", version=_version(),
            flavor="jit" if jit else "interp", build="debug" if _is_debug() else "opt",
            cpus=len(os.sched_getaffinity(0)), clock="perf_counter", clock_res_ns=_clock_step_ns(),
            caps=CAPS, gauges=GAUGES, **warnings)

    def _load(self, command):
        job, form = command.text("job"), command.text("form")
        if not job:
            raise Refused("protocol", "MissingKey", "load needs 'job'")
        if form == "text":
            self.host.load(command)
        elif form == "case":
            self.files.load(command)
        else:
            raise Refused("protocol", "Form", f"unsupported form '{form}': expected 'case' or 'text'")

    def _run(self, command):
        mode = command.text("mode")
        if mode not in ("once", "timed", "series", "continuous"):
            raise Refused("protocol", "Mode", f"unsupported mode '{mode}': expected 'continuous', "
                                              "'timed', 'series' or 'once'")
        of_code = self._host and all(job in self._host.jobs for job in command.list("jobs"))
        if mode == "continuous" or of_code and mode in ("timed", "series"):
            self.host.run(command)
        else:
            self.files.run(command)

    def _stop(self, command):
        self.channel.send("stopped", id=command.text("id"), job=command.text("job"))

    def _unload(self, command):
        job = command.text("job")
        if self._host and job in self._host.jobs:
            self._host.unload(job)
        elif not self._files or self._files.jobs.pop(job, None) is None:
            raise Refused("protocol", "UnknownJob", f"unknown job '{job}'")
        self.channel.send("unloaded", id=command.text("id"), job=job)


def _message(error):
    """Returns the error's message. That of a syntax error would repeat its file name, which is not
    a file."""
    return error.msg if isinstance(error, SyntaxError) and error.filename in CODE else str(error)


def _version():
    """The version as in module `platform`, which takes longer to import than this whole program."""
    return sys.version.split()[0].rstrip("+")


def _is_debug():
    return hasattr(sys, "gettotalrefcount")


def _clock_step_ns():
    """Returns the smallest difference between two readings: resolution and cost combined."""
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
