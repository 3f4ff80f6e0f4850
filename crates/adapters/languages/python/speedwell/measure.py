"""Takes samples: passes over the loop, their number of iterations, their results."""

import asyncio
import gc
import inspect
from functools import partial
from itertools import repeat
from time import perf_counter_ns, thread_time_ns

from .bench import Bench
from .reference import Reference

MOST_ITERATIONS = 10**12


class Misused(Exception):
    """A benchmark that does not execute its loop exactly once, or contradicts itself."""

    def __init__(self, name, message):
        super().__init__(message)
        self.name = name


class Order:
    """Parameters of a run. Without `iterations`, they are chosen so that a sample takes `sample_ns`. A series does
    nothing between samples except the reference loop after every `reference` of them."""

    def __init__(self, samples=5, sample_ns=50_000_000, warmup_ns=100_000_000, iterations=0, series=False, reference=0):
        self.samples = samples
        self.sample_ns = sample_ns
        self.warmup_ns = warmup_ns
        self.iterations = iterations
        self.series = series
        self.reference = Reference(reference)


class Figures:
    """The results of the samples of one case."""

    def __init__(self, workers):
        self.workers = workers
        self.elapsed_ns = []
        self.cpu_ns = []
        self.iterations = []
        self.metrics = {}
        self.answer = None
        self.reference_ns = []


class Sampler:
    """Takes the samples of one case of a benchmark into `figures`."""

    def __init__(self, declared, values, state, order):
        self.declared = declared
        self.values = values
        self.state = state
        self.order = order
        self.recent = []
        self.figures = Figures(values.get("concurrency", 1))

    def take(self):
        count = self._warm_up()
        for number in range(self.order.samples):
            elapsed_ns = self._sample(count)
            self.order.reference.after(number + 1, self.figures.reference_ns)
            # Code may become slower or faster after the warm-up.
            aim = self._aim(count, elapsed_ns)
            if not self.order.iterations and not 0.5 <= aim <= 2:
                count = _scaled(count, aim)

    def _aim(self, count, elapsed_ns):
        """By which factor a sample's iterations should exceed those of a pass that had `count`. Uses the fastest of
        the last three passes, because a busy machine only makes passes longer."""
        self.recent = [*self.recent[-2:], max(elapsed_ns, 1) / count]
        return self.order.sample_ns / (min(self.recent) * count)

    def _warm_up(self):
        """Finds the number of iterations during the warm-up: grows it tenfold while far from the target time, then
        estimates. A pass may take long although little of it is measured."""
        order = self.order
        begin_ns = perf_counter_ns()
        count = order.iterations or 1
        found = bool(order.iterations)
        while not found or perf_counter_ns() - begin_ns < order.warmup_ns:
            pass_ns = perf_counter_ns()
            aim = self._aim(count, self._pass(count)[0])
            if order.iterations:
                continue
            slow = perf_counter_ns() - pass_ns > 5 * order.sample_ns
            found = found or aim <= 1.25 or slow or count == MOST_ITERATIONS
            wanted = _scaled(count, min(10, aim if found else 1.1 * aim))
            count = wanted if found else max(count + 1, wanted)
        return count

    def _sample(self, count):
        elapsed_ns, benches = self._pass(count)
        figures = self.figures
        figures.elapsed_ns.append(elapsed_ns)
        figures.cpu_ns.extend(_cpu_ns(benches))
        figures.iterations.append(count)
        for name, (unit, better, value) in _readings(benches, elapsed_ns).items():
            figures.metrics.setdefault(name, (unit, better, []))[2].append(value)
        answer = next((bench.answer for bench in benches if bench.answer is not None), None)
        if figures.answer is not None and answer != figures.answer:
            raise Misused("AnswerChanged", f"the answer was '{figures.answer}', then '{answer}': "
                                           "it must not depend on the number of iterations")
        figures.answer = answer
        return elapsed_ns

    def _pass(self, count):
        """Calls the function once in every worker: (elapsed_ns, benches)."""
        declared = self.declared
        if declared.before_sample:
            declared.before_sample(self.state)
        workers = self.figures.workers
        benches = [Bench(count, self.state, worker, workers) for worker in range(workers)]
        # A collection that falls into one sample and not the next is not a property of the code, and its duration
        # depends on this process's heap. So collect before.
        was_on = gc.isenabled()
        if not self.order.series:
            gc.collect()
            if not declared.gc:
                gc.disable()
        try:
            if declared.is_async:
                asyncio.run(_all(_call_async(declared, bench, self.values) for bench in benches))
            else:
                _call(declared, benches[0], self.values)
        finally:
            if was_on:
                gc.enable()
        if declared.after_sample:
            declared.after_sample(self.state)
        return _elapsed_ns(benches), benches


async def _all(calls):
    await asyncio.gather(*calls)


def _call(declared, bench, values):
    if declared.owns_loop:
        declared.function(bench, **values)
        return
    call = _ready_to_call(declared, values)
    turns = repeat(None, bench.iterations)
    bench.loops = 1
    bench.begun_cpu_ns = thread_time_ns()
    bench.begun_ns = perf_counter_ns()
    for _ in turns:
        call()
    bench.ended_ns = perf_counter_ns()
    bench.ended_cpu_ns = thread_time_ns()


async def _call_async(declared, bench, values):
    # `bench` provides the number of workers; the function itself has no such parameter.
    values = {name: value for name, value in values.items() if name != "concurrency"}
    if declared.owns_loop:
        await declared.function(bench, **values)
        return
    call = _ready_to_call(declared, values)
    turns = repeat(None, bench.iterations)
    bench.loops = 1
    bench.begun_cpu_ns = thread_time_ns()
    bench.begun_ns = perf_counter_ns()
    for _ in turns:
        await call()
    bench.ended_ns = perf_counter_ns()
    bench.ended_cpu_ns = thread_time_ns()


def _ready_to_call(declared, values):
    """Binds values to the function's parameters by position, which is the fastest call."""
    if not values:
        return declared.function
    names = list(inspect.signature(declared.function).parameters)
    if set(names) == set(values):
        return partial(declared.function, *(values[name] for name in names))
    return partial(declared.function, **values)


def _elapsed_ns(benches):
    """The time from the first start to the last end, without pauses; or the manual time."""
    for bench in benches:
        if bench.loops != 1:
            how = "did not loop" if bench.loops == 0 else "looped several times"
            raise Misused("NoLoop" if bench.loops == 0 else "SecondLoop",
                          f"the benchmark {how} over bench")
        if not bench.ended_ns:
            raise Misused("LeftLoop", "the benchmark left its loop before the end")
    begun_ns = min(bench.begun_ns for bench in benches)
    return max(bench.ended_ns - begun_ns - bench.paused_ns
               if bench.manual_ns is None else round(bench.manual_ns) for bench in benches)


def _cpu_ns(benches):
    """The processor time from the first start to the last end, by the clock of the thread that all share; nothing if
    the loop was paused or timed manually."""
    if any(bench.paused_ns or bench.manual_ns is not None for bench in benches):
        return []
    return [max(bench.ended_cpu_ns for bench in benches) - min(bench.begun_cpu_ns for bench in benches)]


def _readings(benches, elapsed_ns):
    """Further metrics of one pass: the total of rates over all workers, the mean of others."""
    made = {}
    for bench in benches:
        for name, (unit, better, per_second, amount) in bench.readings.items():
            share = amount / (max(elapsed_ns, 1) / 1e9) if per_second else amount / len(benches)
            _, _, value = made.get(name, (unit, better, 0.0))
            made[name] = (unit, better, value + share)
    return made


def _scaled(count, factor):
    return min(MOST_ITERATIONS, max(1, int(count * factor)))
