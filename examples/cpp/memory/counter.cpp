// One counter for several threads: atomic, or protected by a lock.

#include <speedwell.hpp>

#include <atomic>
#include <mutex>

static std::atomic<long> atomic_count;
static long locked_count;
static std::mutex lock;

SPEEDWELL_BENCHMARK(atomic, speedwell::concurrency({1, 2})) {
  for (auto _ : bench) atomic_count.fetch_add(1);
}

SPEEDWELL_BENCHMARK(locked, speedwell::concurrency({1, 2})) {
  for (auto _ : bench) {
    const std::lock_guard<std::mutex> guard(lock);
    speedwell::keep(++locked_count);
  }
}
