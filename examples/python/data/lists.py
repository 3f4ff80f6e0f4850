"""Copying and searching lists, and waiting for several things at once."""

import asyncio

import speedwell


@speedwell.benchmark(size=[10, 1000])
def copy(bench, size):
    source = list(range(size))
    for _ in bench:
        target = source.copy()
    bench.items(bench.iterations * size)
    bench.check(len(target))


# Without a `bench` parameter, the whole function is one iteration.
@speedwell.benchmark(size=[10, 1000])
def build(size):
    return [number * number for number in range(size)]


# The result of setup is bench.state; it is created once per process.
@speedwell.benchmark(size=[10, 1000], kind=["list", "set"],
                     setup=lambda size, kind: {"list": list, "set": set}[kind](range(size)))
def search(bench, size, kind):
    values = bench.state
    for _ in bench:
        size - 1 in values


@speedwell.benchmark(concurrency=[1, 10])
async def nap():
    await asyncio.sleep(0.001)
