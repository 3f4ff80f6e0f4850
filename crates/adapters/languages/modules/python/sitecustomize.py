"""Records the files of the user's checkout that modules are loaded from.

Python executes this file at startup because Speedwell puts this folder in front of PYTHONPATH, while a framework lists its
benchmarks, never while it measures. Writes each file below $SPEEDWELL_CHECKOUT as a line of $SPEEDWELL_MODULES.
"""

import os
import sys


def _execute_hidden():
    """Executes the sitecustomize module that this one hides, with the search path as it is without this
    folder."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != here]
    this_module = sys.modules.pop(__name__)
    try:
        import sitecustomize  # noqa: F401
    except ImportError:
        sys.modules[__name__] = this_module


def _source(path):
    """Returns the source of a compiled file: `lib/k.py` of `lib/__pycache__/k.cpython-311.pyc`."""
    folder, name = os.path.split(path)
    if name.endswith(".pyc") and os.path.basename(folder) == "__pycache__":
        return os.path.join(os.path.dirname(folder), name.split(".")[0] + ".py")
    return path


def _watch(checkout, log):
    noted = set()

    def note(path):
        if not isinstance(path, str) or path in noted or not path.endswith((".py", ".pyc", ".so")):
            return
        # The hook also receives the open below.
        noted.add(path)
        source = os.path.realpath(_source(path))
        if source.startswith(checkout + os.sep):
            with open(log, "a", encoding="utf-8", errors="surrogateescape") as file:
                file.write(source + "\n")

    def heard(event, arguments):
        if event == "open":
            note(arguments[0])
        elif event == "import":
            # The path is set for extension modules only.
            note(arguments[1])

    sys.addaudithook(heard)


if hasattr(sys, "addaudithook") and "SPEEDWELL_MODULES" in os.environ:
    _watch(os.environ["SPEEDWELL_CHECKOUT"], os.environ["SPEEDWELL_MODULES"])
_execute_hidden()
