"""Benchmarks in Python: one decorator.

    import speedwell

    @speedwell.benchmark(size=[10, 1000])
    def copy(bench, size):
        source = list(range(size))
        for _ in bench:
            source.copy()
        bench.items(bench.iterations * size)

`speedwell run FILE.py` measures it in fresh processes; nothing needs to be installed for that. By
hand, `python -m speedwell FILE.py` measures every case once and prints a table; so does a file that
ends in `speedwell.main()`. docs/python.md explains every name.

declare.py holds what is declared, bench.py what a function talks to, measure.py how samples are
taken, wire.py and channel.py the framing and the descriptors, session.py the conversation with
Speedwell, by_hand.py the table.
"""

from .bench import Bench, Failed, Skipped
from .declare import benchmark

__all__ = ["Bench", "Failed", "Skipped", "benchmark", "main"]


def main(words=None):
    """Measures the benchmarks of the file that calls this, and ends the process.

    Imported by a harness, the file's benchmarks are declared and nothing else happens.
    """
    import sys

    from . import by_hand

    by_hand.main(sys.argv[1:] if words is None else words)
