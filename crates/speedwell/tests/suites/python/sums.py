import os
import time

import pyperf

WORK = int(os.environ.get("WORK", "1"))

while os.path.exists(os.environ.get("HOLD", "")):
    time.sleep(0.01)


def total(n):
    return sum(range(n * WORK))


runner = pyperf.Runner()
runner.bench_func("total of 20000", total, 20000)
runner.bench_func("total of 10", total, 10)
