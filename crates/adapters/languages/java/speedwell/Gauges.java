package speedwell;

import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;

/** Metrics of the runtime. Loaded on first use, because management takes some 50 ms to start. */
final class Gauges {
  static final String NAMES = "gc_count:count,gc_time:ms,heap_used:bytes,threads:count";

  private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
  private static final boolean HAVE_CLOCKS = THREADS.isCurrentThreadCpuTimeSupported();

  private Gauges() {}

  /** Returns the processor time of this thread, if the runtime provides it, else 0. Costs a system call. */
  static long cpuNowNs() {
    return HAVE_CLOCKS ? THREADS.getCurrentThreadCpuTime() : 0;
  }

  static boolean haveClocks() {
    return HAVE_CLOCKS;
  }

  static void add(Event event) {
    long count = 0;
    long timeMs = 0;
    for (GarbageCollectorMXBean collector : ManagementFactory.getGarbageCollectorMXBeans()) {
      count += Math.max(collector.getCollectionCount(), 0);
      timeMs += Math.max(collector.getCollectionTime(), 0);
    }
    event
        .with("gc_count", count)
        .with("gc_time", timeMs)
        .with("heap_used", ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed())
        .with("threads", THREADS.getThreadCount());
  }
}
