package speedwell;

/**
 * Time per iteration of each batch, in picoseconds, to within half a percent: 128 steps per power of two,
 * as in HdrHistogram.
 */
final class Histogram {
  private static final int STEP_BITS = 7;
  private static final int STEPS = 1 << STEP_BITS;

  private final int[] counts = new int[(64 - STEP_BITS + 1) * STEPS];
  private long least = Long.MAX_VALUE;
  long total;

  void add(long ps) {
    int shift = Math.max(64 - Long.numberOfLeadingZeros(ps) - STEP_BITS - 1, 0);
    counts[shift * STEPS + (int) (ps >>> shift)]++;
    total++;
    least = Math.min(least, ps);
  }

  void join(Histogram other) {
    for (int i = 0; i < counts.length; i++) {
      counts[i] += other.counts[i];
    }
    total += other.total;
    least = Math.min(least, other.least);
  }

  /** Returns the minimum and three quantiles; nothing if there was no batch. */
  long[] summary() {
    return total == 0 ? new long[0] : new long[] {least, quantile(5), quantile(25), quantile(50)};
  }

  /** Returns the middle of the bucket below which this percentage of all times lies. */
  private long quantile(int hundredths) {
    long wanted = Math.max((total * hundredths + 99) / 100, 1);
    long seen = 0;
    for (int i = 0; i < counts.length; i++) {
      seen += counts[i];
      if (seen >= wanted) {
        // From the second power of two on, a bucket's index implies the leading bit of its times.
        int shift = Math.max(i / STEPS - 1, 0);
        return ((long) (i - shift * STEPS) << shift) + ((1L << shift) >> 1);
      }
    }
    return 0;
  }
}
