"""Benchmark files: describes what they declare, and measures their cases."""

import os
import sys
import traceback
from time import perf_counter_ns

from .channel import Closed, Stopped
from .declare import DECLARED, text_of, type_name
from .measure import Order, Sampler
from .open import open_file
from .refused import Refused


class Files:
    def __init__(self, session):
        self.session = session
        self.channel = session.channel
        self.jobs = {}

    def _open(self, command):
        path = command.text("path")
        if not path:
            raise Refused("protocol", "MissingKey", f"{command.verb} needs 'path'")
        if self.session.opened == path:
            return
        DECLARED.clear()
        self.session.opened = path
        try:
            open_file(path)
        except (Exception, SystemExit) as error:
            self.session.opened = None
            stage = "parse" if isinstance(error, SyntaxError) else "compile"
            if not isinstance(error, SystemExit):
                self.session.opened = path
                traceback.print_exception(type(error), error, self.session.own_part(error))
                self.session.opened = None
            raise Refused(stage, type(error).__name__, str(error)) from error

    def describe(self, command):
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
        self.channel.send("described", **common, count=len(DECLARED), cases=count, loaded=_loaded())

    def load(self, command):
        job = command.text("job")
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
        self.channel.send("loaded", id=command.text("id"), job=job, form="case",
                          source=command.text("path"), arity=len(values))

    def _wanted(self, command):
        name = command.text("benchmark")
        if name is None and len(DECLARED) == 1:
            return DECLARED[0]
        for declared in DECLARED:
            if name in (declared.name, _full_name(command, declared)):
                return declared
        raise Refused("protocol", "UnknownBenchmark", f"the file has no benchmark '{name}'")

    def run(self, command):
        mode = command.text("mode")
        jobs = command.list("jobs")
        for job in jobs:
            if job not in self.jobs:
                raise Refused("protocol", "UnknownJob", f"unknown job '{job}'")
        usual = Order()
        series = mode == "series"
        order = Order(1, 0, 0, 1) if mode == "once" else Order(
            command.number("samples", usual.samples), command.number("sample_ns", usual.sample_ns),
            command.number("warmup_ns", 0 if series else usual.warmup_ns), command.number("loop", 0), series,
            command.number("reference", 0) if series else 0)
        begin_ns = perf_counter_ns()
        for job in jobs:
            self._run_job(command, job, order, mode)
            if self.session.leaving:
                return
        elapsed_ns = perf_counter_ns() - begin_ns
        below = command.text("modules_below")
        modules = {"modules": [file for file in _loaded() if file.startswith(below + os.sep)]} if below else {}
        self.channel.send("end", id=command.text("id"), jobs=jobs, elapsed_ns=elapsed_ns, max_late_ns=0, **modules)

    def _run_job(self, command, job, order, mode):
        """Runs one case; reports its error as an event, so that the other jobs continue."""
        declared, values = self.jobs[job]
        try:
            state = declared.setup(**values) if declared.setup else None
        except Exception as error:
            self.session.fail(command, job, "init", error)
            return
        sampler = Sampler(declared, values, state, order)
        failed = None
        try:
            with self.channel:
                sampler.take()
        except Closed:
            self.session.leaving = True
        except Stopped:
            pass
        except (Exception, SystemExit) as error:
            failed = error
        if not self.session.leaving:
            self._report(command, job, sampler.figures, mode)
            if failed:
                self.session.fail(command, job, "run", failed)
        try:
            if declared.teardown:
                declared.teardown(state)
        except Exception as error:
            self.session.fail(command, job, "done", error)

    def _report(self, command, job, figures, mode):
        common = {"id": command.text("id"), "job": job}
        if not figures.elapsed_ns:
            return
        # If only some samples have one, they cannot be matched.
        cpu_ns = figures.cpu_ns if len(figures.cpu_ns) == len(figures.elapsed_ns) else []
        if mode == "once":
            iterations, elapsed_ns = figures.workers, max(figures.elapsed_ns[0], 1)
            self.channel.send("once", **common, iterations=iterations, elapsed_ns=elapsed_ns,
                              rate=iterations / (elapsed_ns / 1e9),
                              **({"cpu_ns": cpu_ns[0]} if cpu_ns else {}))
        else:
            same = len(set(figures.iterations)) == 1
            self.channel.send("timed", **common, workers=figures.workers, ns=figures.elapsed_ns,
                              loop=figures.iterations[:1] if same else figures.iterations,
                              **({"cpu_ns": cpu_ns} if cpu_ns else {}),
                              **({"reference_ns": figures.reference_ns} if figures.reference_ns else {}))
        for name, (unit, better, given) in figures.metrics.items():
            self.channel.send("metric", **common, name=name, unit=unit, better=better, value=given)
        if figures.answer is not None:
            self.channel.send("check", **common, text=figures.answer)


def _loaded():
    """Returns the files of modules that are neither Python's own nor installed packages."""
    library_folders = (os.path.dirname(os.__file__) + os.sep, os.path.dirname(__file__) + os.sep)
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    files = {os.path.realpath(file) for file in files if isinstance(file, str)}
    return sorted(file for file in files if not file.startswith(library_folders) and "site-packages" not in file)


def _full_name(command, declared):
    """Returns `memory/copy/NAME` for a benchmark of `ROOT/memory/copy.py`."""
    path, root = command.text("path"), command.text("root")
    inside = os.path.relpath(path, root) if root else os.path.basename(path)
    return f"{os.path.splitext(inside)[0]}/{declared.name}"
