package speedwell;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.SynchronousQueue;

/** A thread that keeps its state between runs, and its part of a run. */
final class Worker<S, T> extends Thread {
  /** A shorter batch is doubled, because the clock would dominate. */
  static final long SHORT_BATCH_NS = 50_000;

  /** A longer one is halved, because it would overshoot the end of its window. */
  private static final long LONG_BATCH_NS = 2_000_000;

  private static final int MOST = 1 << 30;

  private final Code.Complete<S, T> code;
  private final S shared;
  private final Control<S, T> control;
  private final BlockingQueue<Object> orders = new SynchronousQueue<>();
  private Run run;
  private Code.Place<S> sharedPlace;
  private Code.Place<T> statePlace;
  private boolean counts;
  private int perBatch = 1;
  private long beginCpuNs;

  volatile boolean busy;
  volatile long total;
  volatile int taken;
  volatile long beginNs;
  volatile long endNs;
  volatile long cpuNs;
  long[] pointNs;
  long[] pointCount;
  Histogram times;
  long lateNs;
  int batch;
  Throwable fault;

  Worker(Code.Complete<S, T> code, S shared, Control<S, T> control) {
    this.code = code;
    this.shared = shared;
    this.control = control;
    setDaemon(true);
  }

  void perform(Run next) throws InterruptedException {
    taken = 0;
    times = new Histogram();
    lateNs = 0;
    fault = null;
    int points = next.timed ? 0 : next.samples + 1;
    pointNs = new long[points];
    pointCount = new long[points];
    busy = true;
    orders.put(next);
  }

  /** Ends the worker and waits for it; one whose code does not return is interrupted and abandoned. */
  void end() throws InterruptedException {
    if (busy) {
      interrupt();
      return;
    }
    orders.put("end");
    join();
  }

  @Override
  public void run() {
    try {
      statePlace = new Code.Place<>(code.begin.begin(shared));
    } catch (Throwable error) {
      control.post(new Control.Begun(error));
      return;
    }
    sharedPlace = new Code.Place<>(shared);
    control.post(new Control.Begun(null));
    try {
      for (Object order = orders.take(); order instanceof Run; order = orders.take()) {
        run = (Run) order;
        performRun();
        batch = perBatch;
        busy = false;
        control.post(order);
      }
    } catch (InterruptedException error) {
      return;
    }
  }

  private void performRun() {
    try {
      if (run.timed) {
        performSamples();
      } else {
        performWindows();
      }
    } catch (Throwable error) {
      fault = error;
      run.failed = true;
    }
  }

  /** Executes one batch and records its time in the histogram. Returns the time at its end. */
  private long oneBatch(int iterations, long beginNs) throws Throwable {
    code.batch.batch(sharedPlace, statePlace, iterations);
    long now = System.nanoTime();
    long tookNs = now - beginNs;
    total += iterations;
    if (counts) {
      times.add(Math.round(tookNs * 1000.0 / iterations));
    }
    if (iterations == perBatch) {
      if (tookNs < SHORT_BATCH_NS && perBatch < MOST) {
        perBatch *= 2;
      } else if (tookNs > LONG_BATCH_NS && perBatch > 1) {
        perBatch /= 2;
      }
    }
    return now;
  }

  private void takePoint(long now, long count, long dueNs) {
    if (run.hasClocks) {
      // Read once per window only, because its cost is part of the measured time.
      long nowCpuNs = Gauges.cpuNowNs();
      beginCpuNs = taken == 0 ? nowCpuNs : beginCpuNs;
      cpuNs = nowCpuNs - beginCpuNs;
    }
    pointNs[taken] = now - run.epochNs;
    pointCount[taken] = count;
    lateNs = Math.max(lateNs, now - dueNs);
    taken++;
    if (taken == run.samples + 1) {
      run.complete.incrementAndGet();
    }
    if (run.stream) {
      control.post(Control.POINT);
    }
  }

  private void performWindows() throws Throwable {
    long firstNs = run.epochNs + run.warmupNs;
    long dueNs = firstNs;
    long before = total;
    long now = System.nanoTime();
    while (now < run.epochNs) {
      Thread.yield();
      now = System.nanoTime();
    }
    if (run.warmupNs == 0) {
      takePoint(run.epochNs, 0, run.epochNs);
      dueNs += run.intervalNs;
    }
    while (!run.ends() && run.complete.get() < run.team.size()) {
      counts = taken > 0 && taken <= run.samples;
      now = oneBatch(perBatch, now);
      if (now >= dueNs && taken <= run.samples) {
        takePoint(now, total - before, dueNs);
        dueNs = firstNs + ((now - firstNs) / run.intervalNs + 1) * run.intervalNs;
      }
    }
  }

  /** One worker's share of a sample: {@code loop} iterations, in batches of which the last may be
   * shorter. */
  private void takeShare(boolean isSample) throws Throwable {
    // Read outside the wall-clock measurement.
    beginCpuNs = Gauges.cpuNowNs();
    long now = System.nanoTime();
    beginNs = now;
    for (long left = run.loop; left > 0 && !run.ends(); ) {
      int iterations = (int) Math.min(perBatch, left);
      // A short final batch measures the clock more than the code.
      counts = isSample && (iterations == perBatch || left == run.loop);
      now = oneBatch(iterations, now);
      left -= iterations;
    }
    endNs = now;
    cpuNs = Gauges.cpuNowNs() - beginCpuNs;
  }

  private void performSamples() throws Throwable {
    while (!run.over) {
      run.gate();
      boolean isSample = run.warm;
      takeShare(isSample);
      run.gate();
      if (this == run.team.get(0)) {
        run.endSample(isSample);
      }
      run.gate();
      if (run.failed) {
        return;
      }
    }
  }
}
