"""Answers `monitor`: reports the interpreter's state, at once and then at every interval."""

import gc
import os
import threading
from time import perf_counter_ns

# How often the event loop's lag is measured.
LAG_S = 0.02


class Gauges:
    def __init__(self, host, id, interval_ns):
        self.host = host
        self.id = id
        self.lag_ns = 0
        self.page = os.sysconf("SC_PAGE_SIZE")
        self.show()
        self.entry = host.alarm.again(interval_ns / 1e9, self.show)

    def show(self):
        lag_ns, self.lag_ns = self.lag_ns, 0
        counts = {f"job.{name}": job.progress for name, job in list(self.host.jobs.items())}
        self.host.channel.send(
            "gauge", id=self.id, t_ns=perf_counter_ns(), rss=self._rss(),
            threads=threading.active_count(), gc_collections=_collections("collections"),
            gc_collected=_collections("collected"), event_loop_lag=round(lag_ns / 1e6, 3), **counts)

    def _rss(self):
        with open("/proc/self/statm", "rb") as memory:
            return int(memory.read().split()[1]) * self.page

    async def watch_loop(self):
        """Records how late the event loop resumes."""
        import asyncio

        while True:
            begun_ns = perf_counter_ns()
            await asyncio.sleep(LAG_S)
            self.lag_ns = max(self.lag_ns, perf_counter_ns() - begun_ns - round(LAG_S * 1e9))

    def end(self):
        self.host.alarm.cancel(self.entry)


def _collections(what):
    """Over all generations; PyPy counts differently and is omitted."""
    try:
        return sum(generation[what] for generation in gc.get_stats())
    except (AttributeError, TypeError, KeyError):
        return 0
