package speedwell;

import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;

/** What the runtime tells about itself. Loaded on first use, because management takes long to start. */
final class Gauges {
  static final String NAMES = "gc_count:count,gc_time:ms,heap_used:bytes,threads:count";

  private Gauges() {}

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
        .with("threads", ManagementFactory.getThreadMXBean().getThreadCount());
  }
}
