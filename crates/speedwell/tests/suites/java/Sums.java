package tiny;

import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.*;

@State(Scope.Benchmark)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
public class Sums {
  private static final int WORK = Integer.parseInt(System.getenv().getOrDefault("WORK", "1"));

  /** Waits for a file to go away, if a variable names one. */
  @Setup
  public void hold() throws InterruptedException {
    String file = System.getenv("HOLD");
    while (file != null && java.nio.file.Files.exists(java.nio.file.Path.of(file))) Thread.sleep(10);
  }

  @Param({"1000", "1e3"})
  public String size;

  @Benchmark
  public long total() {
    long sum = 0, end = (long) (Double.parseDouble(size) * 20 * WORK);
    for (long i = 0; i < end; i++) sum += i ^ (sum << 1);
    return sum;
  }

  @Benchmark
  public long fails() {
    throw new IllegalStateException("bad luck");
  }
}
