"""The table of a file started by hand: every case once, without statistics."""

import statistics
import sys

from .bench import Skipped
from .declare import DECLARED, BadArgument, text_of
from .measure import Order, Sampler

TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (0, "ns"))
RATES = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (0, ""))


def main(words):
    """Measures the cases that `words` select, and ends the process."""
    try:
        sys.exit(_main(words))
    except BadArgument as error:
        sys.exit(str(error))


def _main(words):
    names = [word for word in words if "=" not in word and word != "--list"]
    values = [word for word in words if "=" in word]
    chosen = [declared for declared in DECLARED if not names or declared.name in names]
    if "--list" not in words:
        print(f"{'case':44}  {'time':>12}  fastest ... slowest of 5 samples")
    good = True
    for declared in chosen:
        for case in declared.cases(values):
            shown = " ".join([declared.name] + [f"{key}={text_of(value)}" for key, value in case.items()])
            if "--list" in words:
                print(shown)
            else:
                print(f"{shown:44}  ", end="", flush=True)
                good = _print_case(declared, case) and good
    if "--list" not in words:
        print("hint: one process is one observation; 'speedwell run' starts many and estimates "
              "the uncertainty", file=sys.stderr)
    return 0 if good else 2


def _print_case(declared, case):
    """Prints the rest of one line of the table; returns False if the case failed."""
    try:
        state = declared.setup(**case) if declared.setup else None
        sampler = Sampler(declared, case, state, Order())
        try:
            sampler.take()
        finally:
            if declared.teardown:
                declared.teardown(state)
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
        return isinstance(error, Skipped)
    figures = sampler.figures
    times = [elapsed_ns / count for elapsed_ns, count in zip(figures.elapsed_ns, figures.iterations)]
    median, least, most = (_time(of(times)) for of in (statistics.median, min, max))
    further = [f"{name} {_rate(statistics.median(values), unit)}"
               for name, (unit, _, values) in figures.metrics.items()]
    print("  ".join([f"{median:>12}", f"{least:>10} ... {most:10}"] + further))
    return True


def _time(ns):
    return _scaled(ns, TIMES, "")


def _rate(value, unit):
    return _scaled(value, RATES, "/s" if unit == "1/s" else unit)


def _scaled(value, steps, unit):
    factor, prefix = next((step for step in steps if value >= step[0]), (0, ""))
    return f"{value / factor if factor else value:.4g} {prefix}{unit}"
