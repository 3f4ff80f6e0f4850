"""One conversation with Speedwell: reads a command, answers it, reads the next.

Start-up is paid for by every process that measures, so what benchmark files need (files.py) and what
code needs (code/host.py) is imported when a command asks for it.
"""

import os
import sys
from time import perf_counter_ns

from .refused import Refused

CAPS = ["once", "timed", "series", "async", "continuous", "workers", "monitor", "parallel"]

# What `monitor` shows, named as in the standard library.
GAUGES = ["rss:B", "threads:count", "gc_collections:count", "gc_collected:objects",
          "event_loop_lag:ms"]

# What stacks call code that was given as text.
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
        """Sends an error as an event; of user code, the stack goes to stderr as well."""
        self._send_error(command.text("id"), job, stage, error, fatal)

    def fail_code(self, id, job, at_stage):
        """The same for an error of code that knows its stage."""
        self._send_error(id, job, "run", at_stage)

    def _send_error(self, id, job, stage, error, fatal=0):
        # An error of code says where it belongs, and has the user's own error in it.
        stage, error = getattr(error, "stage", stage), getattr(error, "error", error)
        name, line, stack = getattr(error, "name", None), None, None
        if isinstance(error, Refused) or type(error).__name__ == "Misused":
            pass
        elif type(error).__name__ == "BadArgument":
            stage, name = "protocol", "BadArgument"
        else:
            name = type(error).__name__
            if name != "Skipped":
                if self._host:
                    self._host.show(job)
                line, stack = self._line_of(error), self._stack_of(error)
                print(stack, file=sys.stderr, flush=True)
        self.channel.send("error", id=id, job=job, stage=stage, **{"class": name}, msg=_message(error),
                          stack=stack, line=line, fatal=fatal)

    def _stack_of(self, error):
        import traceback

        return "".join(traceback.format_exception(type(error), error, self.own_part(error)))

    def own_part(self, error):
        """The stack from the user's own text on; how it came to be called says nothing."""
        own = error.__traceback__
        while own and not self._is_own(own.tb_frame.f_code.co_filename):
            own = own.tb_next
        # A file that does not compile has no line that was executed.
        is_own = own is not None or isinstance(error, SyntaxError)
        return own if is_own else error.__traceback__

    def _is_own(self, file):
        return file in CODE or file == self.opened

    def _line_of(self, error):
        """The innermost line of the user's text that the error went through."""
        if isinstance(error, SyntaxError):
            return error.lineno
        line, at = None, error.__traceback__
        while at:
            line = at.tb_lineno if self._is_own(at.tb_frame.f_code.co_filename) else line
            at = at.tb_next
        return line

    def refuse(self, stage, name, message):
        raise Refused(stage, name, message)

    def _hello(self, command):
        if command.text("proto") != "1":
            wrong = Refused("protocol", "Version", "only protocol version 1 is spoken here")
            self.fail(command, None, "protocol", wrong, fatal=1)
            self.leaving = True
            return
        warnings = {f"warn{at}": text for at, text in enumerate(_warnings())}
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
            raise Refused("protocol", "Form", f"form '{form}' is not offered, only 'case' and 'text'")

    def _run(self, command):
        mode = command.text("mode")
        if mode not in ("once", "timed", "series", "continuous"):
            raise Refused("protocol", "Mode", f"mode '{mode}' is not offered, only 'continuous', "
                                              "'timed', 'series' and 'once'")
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
            raise Refused("protocol", "UnknownJob", f"no job '{job}'")
        self.channel.send("unloaded", id=command.text("id"), job=job)


def _message(error):
    """What an error says. That of a syntax error repeats the name of its file, which is none."""
    return error.msg if isinstance(error, SyntaxError) and error.filename in CODE else str(error)


def _version():
    """As module `platform` says it, which takes longer to import than all of this."""
    return sys.version.split()[0].rstrip("+")


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
