package speedwell;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;

/** Shared by all workers of a run. */
final class Run {
  /** A line may be at most 1 MiB long; a point has at most two numbers of 20 digits. */
  private static final int POINTS_OF_A_LINE = 20_000;

  final Command command;
  final boolean timed;
  final boolean stream;
  final long intervalNs;
  final long warmupNs;
  final int samples;
  final long loop;
  final long epochNs;
  final List<Worker<?, ?>> team;
  /** Whether workers read the processor clocks of their threads. */
  final boolean hasClocks;
  volatile boolean stop;
  volatile boolean failed;
  /** For a timed run: whether the warm-up is over, and whether the run is. */
  volatile boolean warm;
  volatile boolean over;
  /** Workers that have all their points. */
  final AtomicInteger complete = new AtomicInteger();
  private final AtomicInteger arrived = new AtomicInteger();
  private final AtomicInteger round = new AtomicInteger();
  private final long[] sampleNs;
  private final long[] sampleCpuNs;
  private int sampled;
  /** Samples between runs of the reference loop; 0: never. */
  private final long reference;
  private final long referenceTurns;
  private final long[] referenceNs;
  private int referred;
  /** The result of the reference loop; storing it keeps the compiler from removing the loop. */
  private static volatile long kept;

  Run(Command command, List<? extends Worker<?, ?>> team) {
    String mode = command.text("mode");
    long count = command.number("samples", 3);
    this.command = command;
    this.team = new ArrayList<>(team);
    boolean isSeries = mode.equals("series");
    timed = isSeries || mode.equals("timed");
    reference = isSeries ? Math.max(command.number("reference", 0), 0) : 0;
    stream = command.text("stream").equals("1");
    intervalNs = command.number("interval_ns", 1_000_000_000);
    warmupNs = command.number("warmup_ns", 0);
    loop = command.number("loop", 1);
    if (!timed && !mode.equals("continuous")) {
      throw new IllegalArgumentException("unsupported mode: expected 'continuous', 'timed' or 'series'");
    }
    if (count < 1 || count > 100_000_000 || intervalNs < 1 || loop < 1 || warmupNs < 0) {
      throw new IllegalArgumentException("a number in 'run' is out of range");
    }
    samples = (int) count;
    sampleNs = new long[timed ? samples : 0];
    // Checked now, because the first check is slow; a continuous run has processor time only on request.
    hasClocks = (timed || command.number("cpu", 0) == 1) && Gauges.haveClocks();
    sampleCpuNs = new long[timed && hasClocks ? samples : 0];
    referenceNs = new long[reference > 0 ? (int) (samples / reference) : 0];
    referenceTurns = reference > 0 ? referenceTurns() : 0;
    warm = warmupNs == 0;
    // Several workers start together, so they are given some time to wake up.
    epochNs = System.nanoTime() + (team.size() > 1 ? 200_000 : 0);
  }

  /** The reference loop: constant work, so that changes of its time are due to the machine. */
  private static long referenceLoopNs(long turns) {
    long begin = System.nanoTime();
    long state = 88172645463325252L;
    for (long turn = 0; turn < turns; turn++) {
      state ^= state << 13;
      state ^= state >>> 7;
      state ^= state << 17;
    }
    kept = state;
    return System.nanoTime() - begin;
  }

  /** Returns how many turns of the reference loop take about 200 µs, once it is compiled. */
  private static long referenceTurns() {
    long turns = 1000;
    for (int round = 0; round < 2000; round++) {
      referenceLoopNs(turns);
      if (round % 100 == 0) {
        // Leave the processor to the compiler.
        LockSupport.parkNanos(1_000_000);
      }
    }
    while (isShort(turns)) {
      turns *= 2;
    }
    return turns;
  }

  /** Whether they take less in one of 20 rounds: preempted and uncompiled rounds take too long. */
  private static boolean isShort(long turns) {
    for (int round = 0; round < 20; round++) {
      if (referenceLoopNs(turns) < 200_000) {
        return true;
      }
    }
    return false;
  }

  boolean ends() {
    return stop || failed;
  }

  /** Barrier: releases all workers at once, or none of them after a failure. */
  void gate() {
    int now = round.get();
    if (arrived.incrementAndGet() == team.size()) {
      arrived.set(0);
      round.incrementAndGet();
      return;
    }
    while (round.get() == now && !failed) {
      Thread.yield();
    }
  }

  /**
   * Done by the first worker while the others wait: records the sample that has ended and decides whether it was
   * the last.
   */
  void endSample(boolean counts) {
    long beginNs = Long.MAX_VALUE;
    long endNs = Long.MIN_VALUE;
    long cpuNs = 0;
    for (Worker<?, ?> worker : team) {
      beginNs = Math.min(beginNs, worker.beginNs);
      endNs = Math.max(endNs, worker.endNs);
      cpuNs += worker.cpuNs;
    }
    if (!ends() && counts) {
      if (sampleCpuNs.length > 0) {
        sampleCpuNs[sampled] = cpuNs;
      }
      sampleNs[sampled++] = endNs - beginNs;
      if (reference > 0 && sampled % reference == 0) {
        referenceNs[referred++] = referenceLoopNs(referenceTurns);
      }
    }
    over = ends() || sampled == samples;
    warm = warm || endNs - epochNs >= warmupNs;
  }

  /** Returns the maximum lateness of a point. */
  long lateNs() {
    long lateNs = 0;
    for (Worker<?, ?> worker : team) {
      lateNs = Math.max(lateNs, worker.lateNs);
    }
    return lateNs;
  }

  /** Returns the {@code sample} event of point {@code k}. */
  Event sample(String job, int k) {
    long atNs = 0;
    long count = 0;
    for (Worker<?, ?> worker : team) {
      atNs = Math.max(atNs, worker.pointNs[k]);
      count += worker.pointCount[k];
    }
    long lateNs = Math.max(atNs - warmupNs - k * intervalNs, 0);
    return new Event("sample", command)
        .with("job", job)
        .with("k", k)
        .with("t_ns", atNs)
        .with("count", count)
        .with("workers", team.size())
        .with("late_ns", lateNs);
  }

  /** Returns the results of the run. */
  List<Event> report(String job) {
    List<Event> events = new ArrayList<>();
    if (timed) {
      tellSamples(job, events);
    } else {
      for (int number = 0; number < team.size(); number++) {
        tellWorker(job, number, events);
      }
    }
    return events;
  }

  private void tellWorker(String job, int number, List<Event> events) {
    Worker<?, ?> worker = team.get(number);
    for (int begin = 0; begin == 0 || begin < worker.taken; begin += POINTS_OF_A_LINE) {
      int end = Math.min(begin + POINTS_OF_A_LINE, worker.taken);
      Event event = new Event("worker", command).with("job", job).with("w", number);
      event.with("epoch_ns", epochNs).with("batch", worker.batch);
      if (begin == 0) {
        event.with("batches", worker.times.total).list("q_ps", worker.times.summary());
        if (hasClocks) {
          event.with("cpu_ns", worker.cpuNs);
        }
      }
      event.list("t_ns", worker.pointNs, begin, end).list("count", worker.pointCount, begin, end);
      events.add(end < worker.taken ? event.with("more", 1) : event);
    }
  }

  private void tellSamples(String job, List<Event> events) {
    Histogram all = new Histogram();
    for (Worker<?, ?> worker : team) {
      all.join(worker.times);
    }
    for (int begin = 0; begin == 0 || begin < sampled; begin += POINTS_OF_A_LINE) {
      int end = Math.min(begin + POINTS_OF_A_LINE, sampled);
      Event event = new Event("timed", command).with("job", job).with("workers", team.size());
      event.with("loop", loop);
      if (begin == 0) {
        event.with("batches", all.total).list("q_ps", all.summary());
        if (referred > 0) {
          event.list("reference_ns", referenceNs, 0, referred);
        }
      }
      event.list("ns", sampleNs, begin, end);
      if (sampleCpuNs.length > 0) {
        event.list("cpu_ns", sampleCpuNs, begin, end);
      }
      events.add(end < sampled ? event.with("more", 1) : event);
    }
  }
}
