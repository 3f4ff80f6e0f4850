#!/usr/bin/env bash
# What the loop of speedwell.hpp costs beside that of google/benchmark: the same bodies, built by the
# same compiler with the same flags, executed in fresh processes that take turns. Prints medians of
# the time per iteration, their ratio, and instructions per iteration where perf can count them.
#
# An empty body is measured with a clobber in it: without one, google/benchmark's loop is removed by
# the compiler, and ours is kept (docs/cpp.md, "What the loop costs").
#
# Usage: scripts/bench-cpp-loop.sh [RUNS]      needs libbenchmark; skips without it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

runs=${1:-21}
compiler=${CXX:-c++}
iterations=20000000
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cat >"$folder/theirs.cpp" <<'CPP'
#include <benchmark/benchmark.h>
#include <cstring>
#include <vector>
static void empty(benchmark::State& state) {
  for (auto _ : state) benchmark::ClobberMemory();
}
static void copy(benchmark::State& state) {
  std::vector<char> from(BYTES, 'x'), to(BYTES);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), from.size());
    benchmark::DoNotOptimize(to.data());
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
#include <vector>
SPEEDWELL_BENCHMARK(empty) {
  for (auto _ : bench) speedwell::clobber();
}
SPEEDWELL_BENCHMARK(copy) {
  std::vector<char> from(BYTES, 'x'), to(BYTES);
  for (auto _ : bench) {
    std::memcpy(to.data(), from.data(), from.size());
    speedwell::keep(to.data());
    speedwell::clobber();
  }
}
CPP

flags=(-std=c++17 -O2 -pthread "-DBYTES=${BYTES:-2048}" )
for count in "$iterations" 100000 300000; do
  if ! "$compiler" "${flags[@]}" "-DITERATIONS=$count" "$folder/theirs.cpp" -o "$folder/theirs-$count" \
    -lbenchmark 2>"$folder/log"; then
    echo "skipped: google/benchmark cannot be used: $(head -n 1 "$folder/log")" >&2
    exit 0
  fi
done
"$compiler" "${flags[@]}" -I harness/cpp "$folder/ours.cpp" -o "$folder/ours"

# theirs NAME: nanoseconds per iteration.
theirs() {
  "$folder/theirs-$iterations" "--benchmark_filter=^$1/" --benchmark_format=csv 2>/dev/null |
    awk -F, '/^"/ { print $3 }'
}

# ours NAME: the same. One sample of so many iterations and no warm-up, as there.
ours() {
  "$folder/ours" --samples=1 --warmup=0 "--iterations=$iterations" "$1" 2>/dev/null |
    awk '$3 == "ns" { print $2 }'
}

median() { sort -g | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'; }

# instructions COMMAND...: how many a process executes in user mode, counted by the processor, else
# by valgrind's simulation of it; nothing without both.
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

# per_iteration FEW MANY: instructions of one iteration, from processes with 100000 and with 300000.
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
  a=$(median <"$folder/a") b=$(median <"$folder/b")
  awk -v name="$name" -v a="$a" -v b="$b" -v runs="$runs" 'BEGIN {
    printf "%-6s google/benchmark %.4f ns, speedwell.hpp %.4f ns, ratio %.3f (medians of %d processes each)\n",
      name, a, b, b / a, runs }'
  theirs_instructions=$(per_iteration "$(count_theirs "$name" 100000)" "$(count_theirs "$name" 300000)")
  ours_instructions=$(per_iteration "$(count_ours "$name" 100000)" "$(count_ours "$name" 300000)")
  echo "       instructions per iteration: $theirs_instructions and $ours_instructions"
done
