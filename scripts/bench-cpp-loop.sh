#!/usr/bin/env bash
# Compares the cost of speedwell.hpp's loop with that of google/benchmark's: the same bodies, built by
# the same compiler with the same flags, executed in fresh processes in alternation. Prints the median
# and the fastest time per iteration, their ratios, and instructions per iteration as counted by perf
# or valgrind.
#
# An empty body is measured with a clobber in it: without one, the compiler removes google/benchmark's
# loop and keeps ours (docs/guide/cpp.md, "What the loop costs").
#
# Usage: scripts/bench-cpp-loop.sh [RUNS]      needs libbenchmark, otherwise skips. BYTES=N copies N
# bytes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

runs=${1:-101}
compiler=${CXX:-c++}
# Short, so that some processes finish without interruption even on a busy machine.
iterations=200000
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cat >"$folder/theirs.cpp" <<'CPP'
#include <benchmark/benchmark.h>
#include <cstring>
// Both copy between the same addresses of a page; the compiler cannot know the size.
static struct alignas(4096) { char from[BYTES], to[BYTES]; } place;
static volatile std::size_t bytes = BYTES;
static void empty(benchmark::State& state) {
  for (auto _ : state) benchmark::ClobberMemory();
}
static void copy(benchmark::State& state) {
  const std::size_t count = bytes;
  for (auto _ : state) {
    std::memcpy(place.to, place.from, count);
    benchmark::DoNotOptimize(*place.to);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(empty)->Iterations(ITERATIONS);
BENCHMARK(copy)->Iterations(ITERATIONS);
BENCHMARK_MAIN();
CPP

cat >"$folder/ours.cpp" <<'CPP'
#include <speedwell.hpp>
#include <cstring>
// Both copy between the same addresses of a page; the compiler cannot know the size.
static struct alignas(4096) { char from[BYTES], to[BYTES]; } place;
static volatile std::size_t bytes = BYTES;
SPEEDWELL_BENCHMARK(empty) {
  for (auto _ : bench) speedwell::clobber();
}
SPEEDWELL_BENCHMARK(copy) {
  const std::size_t count = bytes;
  for (auto _ : bench) {
    std::memcpy(place.to, place.from, count);
    speedwell::keep(*place.to);
    speedwell::clobber();
  }
}
CPP

flags=(-std=c++17 -O2 -pthread "-DBYTES=${BYTES:-4608}")
for count in "$iterations" 100000 300000; do
  if ! "$compiler" "${flags[@]}" "-DITERATIONS=$count" "$folder/theirs.cpp" -o "$folder/theirs-$count" \
    -lbenchmark 2>"$folder/log"; then
    echo "skipped: google/benchmark is not usable: $(head -n 1 "$folder/log")" >&2
    exit 0
  fi
done
"$compiler" "${flags[@]}" -I crates/adapters/languages/cpp "$folder/ours.cpp" -o "$folder/ours"

# theirs NAME: nanoseconds per iteration.
theirs() {
  # Parse the output afterwards: a reader at the other end of a pipe would disturb the measurement.
  "$folder/theirs-$iterations" "--benchmark_filter=^$1/" --benchmark_format=csv >"$folder/out" 2>/dev/null
  awk -F, '/^"/ { print $3 }' "$folder/out"
}

# ours NAME: nanoseconds per iteration. One sample of as many iterations and no warm-up, as in
# `theirs`.
ours() {
  "$folder/ours" --samples=1 --warmup=0 "--iterations=$iterations" "$1" >"$folder/out" 2>/dev/null
  awk '$3 == "ns" { print $2 }' "$folder/out"
}

fastest() { sort -g | head -n 1; }

median() { sort -g | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'; }

# instructions COMMAND...: user-mode instructions of a process, counted by the processor, else by
# valgrind's simulation; empty if neither is available.
instructions() {
  local count
  count=$(perf stat -x, -e instructions:u -o /dev/stdout "$@" 2>/dev/null | awk -F, '/instructions/ { print $1 }')
  if [[ $count =~ ^[0-9]+$ ]]; then
    echo "$count"
  elif command -v valgrind >/dev/null; then
    valgrind --tool=callgrind --callgrind-out-file=/dev/null --log-file="$folder/valgrind" "$@" >/dev/null 2>&1 || true
    awk '/Collected/ { print $NF }' "$folder/valgrind"
  fi
}

# per_iteration FEW MANY: instructions of one iteration, from processes with 100000 and 300000.
per_iteration() {
  [[ -n $1 && -n $2 ]] && awk -v few="$1" -v many="$2" 'BEGIN { printf "%.2f", (many - few) / 200000 }' || echo '?'
}

count_theirs() { instructions "$folder/theirs-$2" "--benchmark_filter=^$1/"; }
count_ours() { instructions "$folder/ours" --samples=1 --warmup=0 "--iterations=$2" "$1"; }

for name in empty copy; do
  : >"$folder/a"
  : >"$folder/b"
  for ((run = 0; run < runs; run++)); do
    theirs "$name" >>"$folder/a"
    ours "$name" >>"$folder/b"
  done
  echo "$name, $runs processes each: google/benchmark, speedwell.hpp, ratio"
  for which in median fastest; do
    a=$("$which" <"$folder/a") b=$("$which" <"$folder/b")
    awk -v which="$which" -v a="$a" -v b="$b" 'BEGIN {
      printf "  %-26s %9.4f ns %9.4f ns  %.3f\n", which, a, b, b / a }'
  done
  theirs_instructions=$(per_iteration "$(count_theirs "$name" 100000)" "$(count_theirs "$name" 300000)")
  ours_instructions=$(per_iteration "$(count_ours "$name" 100000)" "$(count_ours "$name" 300000)")
  printf '  %-26s %9s    %9s\n' 'instructions' "$theirs_instructions" "$ours_instructions"
done
