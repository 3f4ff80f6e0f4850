// Copying bytes: the library's function, and an equivalent loop.

#include <speedwell.hpp>

#include <cstring>
#include <vector>

SPEEDWELL_BENCHMARK(library, speedwell::param("bytes", {8, 64, 512})) {
  const auto bytes = bench.get<std::size_t>("bytes");
  std::vector<char> from(bytes, 'x'), to(bytes);
  for (auto _ : bench) {
    std::memcpy(to.data(), from.data(), bytes);
    speedwell::keep(to.data());
  }
  bench.bytes(bench.iterations() * bytes);
  bench.check(to.back());
}

SPEEDWELL_BENCHMARK(loop, speedwell::param("bytes", {8, 64, 512})) {
  const auto bytes = bench.get<std::size_t>("bytes");
  std::vector<char> from(bytes, 'x'), to(bytes);
  for (auto _ : bench) {
    for (std::size_t i = 0; i < bytes; ++i) to[i] = from[i];
    speedwell::keep(to.data());
  }
  bench.bytes(bench.iterations() * bytes);
  bench.check(to.back());
}
