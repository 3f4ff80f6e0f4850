"""The reference loop: constant work, so that changes of its time are due to the machine."""

from time import thread_time_ns


def _loop_ns(turns):
    begun_ns = thread_time_ns()
    state = 1
    for _ in range(turns):
        state = state * 1103515245 + 12345 & 0x7FFFFFFF
    return thread_time_ns() - begun_ns


class Reference:
    """Runs the loop, about 200 µs long, after every `every` samples; never if that is 0."""

    def __init__(self, every):
        self.every = every
        self.turns = 500
        while every and _loop_ns(self.turns) < 200_000:
            self.turns *= 2

    def after(self, samples, times_ns):
        if self.every and samples % self.every == 0:
            times_ns.append(_loop_ns(self.turns))
