"""Executes a benchmark file, so that what it declares is known. Nothing is measured."""

import importlib.util
import os
import sys


def open_file(path):
    """The module of the file, executed as an import of it would be, from its own folder."""
    path = os.path.abspath(path)
    sys.path[0:0] = [os.path.dirname(path)]
    sys.argv = [path]
    name = os.path.splitext(os.path.basename(path))[0]
    if name in sys.modules:
        name = "speedwell_benchmark_file"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    # What is pickled or annotated there looks its module up by name.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
