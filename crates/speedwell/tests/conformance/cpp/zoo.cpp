// Benchmarks for the conformance suite; tests/it/conformance.rs explains each.

#include <speedwell.hpp>

#include <csignal>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>

using namespace std::chrono_literals;

SPEEDWELL_BENCHMARK(kinds, speedwell::param("n", {5, 7}), speedwell::param("share", {.5}),
                    speedwell::param("flag", {true, false}), speedwell::param("q", {"plain"})) {
  std::fputs("measured", stdout);
  for (auto _ : bench) speedwell::clobber();
}

SPEEDWELL_BENCHMARK(echo, speedwell::param("q", {"plain"})) {
  for (auto _ : bench) speedwell::clobber();
  bench.check(bench.get<std::string>("q"));
}

SPEEDWELL_BENCHMARK(answer, speedwell::param("n", {1000})) {
  const auto n = bench.get<long>("n");
  long sum = 0;
  for (auto _ : bench) {
    sum = 0;
    for (long i = 0; i < n; ++i) sum += i;
    speedwell::keep(sum);
  }
  bench.metric("weight", static_cast<double>(64 * n), "B", speedwell::lower);
  bench.check("sum " + std::to_string(sum));
}

SPEEDWELL_BENCHMARK(throws, speedwell::param("n", {1})) {
  for (auto _ : bench) throw std::range_error("bad\tluck");
}

SPEEDWELL_BENCHMARK(dies, speedwell::param("n", {1})) {
  for (auto _ : bench) std::raise(SIGKILL);
}

SPEEDWELL_BENCHMARK(hangs, speedwell::param("n", {1})) {
  for (auto _ : bench) {
    for (;;) std::this_thread::sleep_for(1ms);
  }
}

SPEEDWELL_BENCHMARK(picky, speedwell::param("n", {1, 2}),
                    speedwell::only([](const speedwell::Case& one) { return one.get<int>("n") == 1; })) {
  for (auto _ : bench) speedwell::clobber();
}

SPEEDWELL_BENCHMARK(unready, speedwell::param("n", {1}),
                    speedwell::setup([](const speedwell::Case&) { throw std::runtime_error("no room"); })) {
  for (auto _ : bench) speedwell::clobber();
}

SPEEDWELL_BENCHMARK(sleeps, speedwell::param("ms", {20}),
                    speedwell::teardown([](const speedwell::Case&) {
                      std::fputs("undone", stdout);
                      std::fflush(stdout);
                    })) {
  for (auto _ : bench) std::this_thread::sleep_for(bench.get<int>("ms") * 1ms);
}

SPEEDWELL_BENCHMARK(points, speedwell::param("point", {1})) {
  for (auto _ : bench) speedwell::clobber();
}
