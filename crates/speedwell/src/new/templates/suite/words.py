"""Splits a line into words. Try it:

    speedwell run words.py
    speedwell run words.py --set words=10
"""

import re

import speedwell

WORD = re.compile(r"\w+")


# One case per combination of the values.
@speedwell.benchmark(method=["split", "findall"], words=[10, 1000])
def find(bench, method, words):
    line = " ".join(f"word{at}" for at in range(words))
    take = str.split if method == "split" else WORD.findall
    # Only the loop is measured; it determines the number of iterations.
    for _ in bench:
        found = take(line)
    # A result that differs between two variants is an error: a fast wrong result does not count.
    bench.check(len(found))
