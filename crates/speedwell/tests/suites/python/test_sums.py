import os
import time

import pytest

WORK = int(os.environ.get("WORK", "1"))

while os.path.exists(os.environ.get("HOLD", "")):
    time.sleep(0.01)


def total(n):
    return sum(range(n * WORK))


def test_total(benchmark):
    assert benchmark(total, 20000) > 0


class TestGroup:
    @pytest.mark.parametrize("n", [10, 20])
    def test_inner(self, benchmark, n):
        benchmark(total, n)


def test_plain():
    assert total(0) == 0


def test_fails(benchmark):
    benchmark(total, 10)
    assert total(3) == 4
