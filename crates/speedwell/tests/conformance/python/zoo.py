"""Benchmarks for the conformance suite; tests/it/conformance.rs explains each."""

import os
import signal
import time

import speedwell


@speedwell.benchmark(n=[5, 7], share=[0.5], flag=[True, False], q=["plain"])
def kinds(bench, n, share, flag, q):
    print("measured")
    for _ in bench:
        pass


@speedwell.benchmark(q=["plain"])
def echo(bench, q):
    for _ in bench:
        pass
    bench.check(q)


@speedwell.benchmark(n=[1000])
def answer(bench, n):
    for _ in bench:
        total = sum(range(n))
    bench.metric("weight", 64 * n, unit="B", better="lower")
    bench.check(f"sum {total}")


@speedwell.benchmark(n=[1])
def throws(n):
    raise ValueError("bad\tluck")


@speedwell.benchmark(n=[1])
def dies(n):
    os.kill(os.getpid(), signal.SIGKILL)


@speedwell.benchmark(n=[1])
def hangs(n):
    while True:
        pass


@speedwell.benchmark(n=[1, 2], only=lambda n: n == 1)
def picky(n):
    pass


def no_room(n):
    raise RuntimeError("no room")


@speedwell.benchmark(n=[1], setup=no_room)
def unready(n):
    pass


@speedwell.benchmark(ms=[20], teardown=lambda state: print("undone", flush=True))
def sleeps(ms):
    time.sleep(ms / 1000)


@speedwell.benchmark(point=[1])
def points(point):
    pass
