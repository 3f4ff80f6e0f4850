"""Benchmarks in Python: one decorator.

    import speedwell

    @speedwell.benchmark(size=[10, 1000])
    def copy(bench, size):
        source = list(range(size))
        for _ in bench:
            source.copy()
        bench.items(bench.iterations * size)

`speedwell run FILE.py` measures it in fresh processes and needs no installation. By hand, `python -m speedwell
FILE.py` measures every case once and prints a table; so does a file that ends in `speedwell.main()`.
docs/guide/python.md explains every name.

declare.py holds declared benchmarks, bench.py the object passed to them, measure.py takes samples, wire.py and
channel.py do framing and descriptors, session.py is the conversation with Speedwell, files.py handles benchmark files
in it, code/ one-liners, and by_hand.py prints the table.
"""

__all__ = ["Bench", "Failed", "Skipped", "benchmark", "main"]

_HOMES = {"Bench": "bench", "Failed": "bench", "Skipped": "bench", "benchmark": "declare"}


def __getattr__(name):
    """Imports names on first use: measuring code needs none of them and must start quickly."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def main(words=None):
    """Measures the benchmarks of the file that calls this, and ends the process.

    Does nothing when the file is imported instead, by Speedwell or by a process that its benchmarks start.
    """
    import sys

    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") != "__main__":
            return
        frame = frame.f_back

    from . import by_hand

    by_hand.main(sys.argv[1:] if words is None else words)
