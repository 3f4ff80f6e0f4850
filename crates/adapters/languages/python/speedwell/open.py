"""Executes a benchmark file to collect what it declares. Does not measure."""

import importlib.util
import os
import sys


def open_file(path):
    """Loads the module of the file as an import would, from its own folder."""
    path = os.path.abspath(path)
    sys.path[0:0] = [os.path.dirname(path)]
    sys.argv = [path]
    name = os.path.splitext(os.path.basename(path))[0]
    if name in sys.modules:
        name = "speedwell_benchmark_file"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    # Pickle and annotations look up the module by name.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
