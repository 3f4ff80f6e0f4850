#include <benchmark/benchmark.h>
#include <unistd.h>
#include <cstdlib>

static long total(long n) {
  static const char *const hold = std::getenv("HOLD");
  while (hold && access(hold, F_OK) == 0) usleep(10000);
  static const char *const work = std::getenv("WORK");
  static const long factor = work ? std::atol(work) : 1;
  long sum = 0;
  for (long i = 0; i < n * factor; i++) benchmark::DoNotOptimize(sum += i ^ (sum << 1));
  return sum;
}

static void BM_total(benchmark::State &state) {
  for (auto _ : state) benchmark::DoNotOptimize(total(state.range(0)));
}
BENCHMARK(BM_total)->Arg(10)->Arg(20000);

static void BM_fails(benchmark::State &state) {
  state.SkipWithError("bad luck");
  for (auto _ : state) {
  }
}
BENCHMARK(BM_fails);

BENCHMARK_MAIN();
