// Splits a line into words. Try it:
//
//   speedwell run text.cpp
//   speedwell compare --variant 'small=-Os' --variant 'fast=-O3' text.cpp

#include <speedwell.hpp>

#include <sstream>
#include <string>

namespace {

std::string line_of(std::size_t words) {
  std::string line;
  for (std::size_t i = 0; i < words; ++i) line += "word" + std::to_string(i) + ' ';
  return line;
}

}  // namespace

// One case for every value. Only the loop is measured; it determines the number of iterations.
SPEEDWELL_BENCHMARK(find, speedwell::param("words", {10, 1000})) {
  const auto line = line_of(bench.get<std::size_t>("words"));
  std::size_t found = 0;
  for (auto _ : bench) {
    found = 0;
    for (std::size_t i = line.find(' '); i != std::string::npos; i = line.find(' ', i + 1)) ++found;
    speedwell::keep(found);
  }
  // A result that differs between two variants is an error: a fast wrong result does not count.
  bench.check(found);
}

SPEEDWELL_BENCHMARK(stream, speedwell::param("words", {10, 1000})) {
  const auto line = line_of(bench.get<std::size_t>("words"));
  std::size_t found = 0;
  for (auto _ : bench) {
    std::istringstream words(line);
    std::string word;
    for (found = 0; words >> word; ++found) {
    }
    speedwell::keep(found);
  }
  bench.check(found);
}
