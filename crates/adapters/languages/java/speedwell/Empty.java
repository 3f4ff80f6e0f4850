package speedwell;

/** Overhead without code: an iteration of an empty runner, and the clock's resolution. */
final class Empty {
  private Empty() {}

  /** The loop of the generated code around an empty runner. */
  private static void batch(Code.Place<Object> shared, int iterations) {
    for (int left = iterations; left > 0; left--) {
      Keep.keep(shared.get());
      Keep.keep(0);
    }
  }

  /** A loop is compiled only after it has run for some time. */
  private static final long LEAST_NS = 30_000_000;

  /** Returns the minimum time of an iteration, in picoseconds. */
  static long calibrate(long targetNs) {
    Code.Place<Object> shared = new Code.Place<>(null);
    long beginNs = System.nanoTime();
    double leastPs = Double.POSITIVE_INFINITY;
    int iterations = 1;
    for (long beforeNs = beginNs; beforeNs - beginNs < Math.max(targetNs, LEAST_NS); ) {
      batch(shared, iterations);
      long now = System.nanoTime();
      leastPs = Math.min(leastPs, (now - beforeNs) * 1000.0 / iterations);
      if (now - beforeNs < Worker.SHORT_BATCH_NS && iterations < 1 << 30) {
        iterations *= 2;
      }
      beforeNs = now;
    }
    return Math.round(leastPs);
  }

  static long clockStepNs() {
    long smallest = Long.MAX_VALUE;
    long before = System.nanoTime();
    for (int read = 0; read < 32; read++) {
      long now = System.nanoTime();
      if (now > before) {
        smallest = Math.min(smallest, now - before);
      }
      before = now;
    }
    return smallest == Long.MAX_VALUE ? 0 : smallest;
  }
}
