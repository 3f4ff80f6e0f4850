"""One piece of code: its texts, its shared value, its workers."""

import builtins
import os
import sys
import threading

from .form import Form
from .loop import Worker, is_awaitable

MOST_WORKERS = 4096
HOOKS = ("runner", "init", "init_runner", "done")


class AtStage(Exception):
    """An error of the user's code, with its stage."""

    def __init__(self, stage, error):
        super().__init__(str(error))
        self.stage = stage
        self.error = error


class Job:
    def __init__(self, name, texts, host, files=()):
        self.name = name
        self.host = host
        self.files = files
        self.shared = None
        self.scope = {"__name__": "__speedwell__", "__builtins__": builtins}
        self.forms = {}
        for hook in HOOKS:
            if texts.get(hook) is not None:
                self.forms[hook] = self._form(texts[hook], hook)
        self.runner = self.forms["runner"]
        self.begun = False
        self.workers = []
        self.past = 0

    def _form(self, text, hook):
        try:
            return Form(text, hook)
        except SyntaxError as error:
            raise AtStage("parse", error) from error
        except Exception as error:
            raise AtStage("compile", error) from error

    @property
    def awaited(self):
        return self.runner.awaited

    @property
    def progress(self):
        return self.past + sum(worker.progress for worker in self.workers)

    def begin(self):
        """Executes `init`. All of the code sees the names that it binds."""
        # Report compile errors of the loop before executing anything.
        try:
            self.runner.loop(dict(self.scope)) if self.runner.arity is None else None
        except SyntaxError as error:
            raise AtStage("compile", error) from error
        for file in self.files:
            self.shared = self._at("init", lambda: self._expose(file))
        if "init" in self.forms:
            self.shared = self._at("init", lambda: self.forms["init"].execute(self.scope))
        if "state" in self.scope and "init_runner" in self.forms:
            raise AtStage("init", ValueError("'state' is defined, but it is also the value of --init-worker"))
        self.begun = True

    def _expose(self, file):
        """Executes a module of the user, whose names all of the code sees. Returns the value of a last expression."""
        with open(file, encoding="utf-8") as source:
            text = source.read()
        self.scope["__file__"] = file
        return Form(text, "module", file).execute(self.scope)

    def visible_names(self):
        """Returns what follows the message about an undefined name."""
        names = sorted(name for name in self.scope if not name.startswith("_"))
        files = ", ".join(f"'{os.path.basename(file)}'" for file in self.files)
        return f"; {files} defines {', '.join(names) or 'nothing'}" if files else ""

    def _at(self, stage, act):
        try:
            value = act()
            return self.host.wait(value) if is_awaitable(value) else value
        except (Exception, SystemExit) as error:
            raise AtStage(stage, error) from error

    def begin_runner(self):
        """Returns the state of a new worker, or an awaitable for it."""
        hook = self.forms.get("init_runner")
        return hook.hook(self.scope)(self.shared) if hook else None

    def resize(self, count):
        """Changes the number of workers; new ones are initialized when it returns."""
        self._leave(self.workers[count:])
        del self.workers[count:]
        made = [Worker(self, number) for number in range(len(self.workers), count)]
        alone = count == 1 and len(self.host.jobs) == 1
        try:
            if self.awaited:
                for worker in made:
                    self.host.wait(worker.begin_awaited())
            elif alone:
                for worker in made:
                    worker.begin()
            else:
                for worker in made:
                    worker.thread = Thread()
                for task in [worker.thread.do(worker.begin) for worker in made]:
                    task.result()
        except (Exception, SystemExit) as error:
            self._leave(made)
            raise AtStage("init_runner", error) from error
        self.workers += made

    def become_awaited(self, promised):
        """The first iteration returned an awaitable: from now on, the runner is awaited."""
        self.runner.awaited = True
        self.host.wait(promised.worker.continue_awaited(promised.awaitable))

    def drop(self):
        """Ends all workers."""
        self._leave(self.workers)
        self.workers = []

    def _leave(self, workers):
        for worker in workers:
            self.past += worker.progress
            if worker.thread:
                worker.thread.end()

    def end(self):
        """Ends the workers and executes `done`."""
        self.drop()
        if "done" in self.forms and self.begun:
            self._at("done", lambda: self.forms["done"].hook(self.scope)(self.shared))


class Thread:
    """A thread that executes calls, one after the other."""

    def __init__(self):
        import queue

        self.orders = queue.SimpleQueue()
        # A daemon, so that a worker that never ends does not block the process's exit.
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def do(self, act):
        task = Task(act)
        self.orders.put(task)
        return task

    def end(self):
        self.orders.put(None)

    def _serve(self):
        while True:
            task = self.orders.get()
            if task is None:
                return
            task.perform()


class Task:
    """A call executed by another thread; its result can be awaited."""

    def __init__(self, act):
        self.act = act
        self.error = self.value = None
        self.over = threading.Event()

    def perform(self):
        try:
            self.value = self.act()
        except BaseException as error:
            self.error = error
        self.over.set()

    def result(self):
        self.over.wait()
        if self.error:
            raise self.error
        return self.value


def add_paths(folders):
    """Makes Python search for modules in these folders and those of these files, then in the current one."""
    folders = [os.path.dirname(path) if os.path.isfile(path) else path for path in map(os.path.abspath, folders)]
    sys.path[0:0] = folders + [os.getcwd()]
