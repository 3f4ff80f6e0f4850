#define CATCH_CONFIG_MAIN
#define CATCH_CONFIG_ENABLE_BENCHMARKING
#include <catch2/catch.hpp>

static long total(long n) {
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

TEST_CASE("no benchmark") { CHECK(total(0) == 0); }

TEST_CASE("fails") {
  BENCHMARK("fine") { return total(10); };
  REQUIRE(total(0) == 4);
}
