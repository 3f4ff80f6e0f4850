#define CATCH_CONFIG_MAIN
#define CATCH_CONFIG_ENABLE_BENCHMARKING
#include <catch2/catch.hpp>
#include <unistd.h>

namespace Catch { namespace Benchmark { namespace Detail {
// Catch2 examines the clock for a second at every start. Instead, a tick takes 30 ns here.
template <>
Environment<FloatDuration<default_clock>> measure_environment<default_clock>() {
  Environment<FloatDuration<default_clock>> environment{};
  environment.clock_resolution.mean = FloatDuration<default_clock>(30);
  environment.clock_cost.mean = FloatDuration<default_clock>(30);
  return environment;
}
}}}  // namespace Catch::Benchmark::Detail

static long total(long n) {
  static const char *const hold = std::getenv("HOLD");
  while (hold && access(hold, F_OK) == 0) usleep(10000);
  static const char *const work = std::getenv("WORK");
  static const long factor = work ? std::atol(work) : 1;
  long sum = 0;
  for (long i = 0; i < n * factor; i++) sum += i ^ (sum << 1);
  return sum;
}

TEST_CASE("sums, [of] all", "[!benchmark]") {
  BENCHMARK("large") { return total(20000); };
  SECTION("inner") {
    BENCHMARK("small") { return total(10); };
  }
}

TEST_CASE("generated") {
  auto n = GENERATE(1, 2, 3);
  BENCHMARK("one of three") { return total(n); };
}

TEST_CASE("no benchmark") { CHECK(total(0) == 0); }

TEST_CASE("fails") {
  BENCHMARK("fine") { return total(10); };
  REQUIRE(total(0) == 4);
}
