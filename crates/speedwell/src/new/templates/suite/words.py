"""Splitting a line into words. Try it:

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
    # Only the loop is measured; it chooses its number of iterations.
    for _ in bench:
        found = take(line)
    # Different answers of two variants are an error: speed does not matter if the answer is
    # wrong.
    bench.check(len(found))
