#!/usr/bin/env bash
# Measures the cost of `speedwell as compare.py` and `speedwell compare` against the original.
# Generates pairs of result files like those of a program with many benchmarks and alternates the
# tools, so that a busy machine slows both.
#
#   eval/bench-compare-py.sh [ROUNDS]
#
# COMPARE_PY  the original; default: the one of Debian's package libbenchmark-tools
# PYTHON      a Python with scipy; default: /usr/bin/python3
# SPEEDWELL   the program; default: target/release/speedwell, which must have been built
# NAMES       number of benchmarks, with 10 repetitions each, for Speedwell alone: default 10000
# SHARED      number of benchmarks for both tools, because the original takes quadratic
# time: default 1000
#
# Prints CPU seconds and the largest resident set of every run, then the medians and their ratios.
# Needs GNU time and awk. Stops a run after ten minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

rounds=${1:-3}
names=${NAMES:-10000}
shared=${SHARED:-1000}
ours=$(eval/built_program.py release)
original=${COMPARE_PY:-/usr/share/benchmark/compare.py}
python=${PYTHON:-/usr/bin/python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

source eval/bench-compare.bash

make_json() { # NAMES SEED; deterministic output
  awk -v names="$1" -v seed="$2" 'BEGIN {
    print "{\n  \"context\": {\n    \"num_cpus\": 2,\n    \"json_schema_version\": 1\n  },\n  \"benchmarks\": ["
    for (i = 0; i < names; i++)
      for (repetition = 0; repetition < 10; repetition++) {
        seed = (seed * 16807) % 2147483647    # Park and Miller, CACM 31, 1988
        time = (i % 97 + 3) * (1 + seed / 2147483647e1)
        printf "%s    {\n      \"name\": \"BM_function_%d/%d\",\n", i + repetition ? ",\n" : "", i / 10, 8 * (i % 10)
        printf "      \"family_index\": %d,\n      \"per_family_instance_index\": %d,\n", i / 10, i % 10
        printf "      \"run_name\": \"BM_function_%d/%d\",\n      \"run_type\": \"iteration\",\n", i / 10, 8 * (i % 10)
        printf "      \"repetitions\": 10,\n      \"repetition_index\": %d,\n      \"threads\": 1,\n", repetition
        printf "      \"iterations\": 1000000,\n      \"real_time\": %.16e,\n", time
        printf "      \"cpu_time\": %.16e,\n      \"time_unit\": \"ns\"\n    }", time * 0.99
      }
    print "\n  ]\n}"
  }'
}

has_original() {
  [ -f "$original" ] && "$python" -c 'import scipy.stats' 2>/dev/null
}

started() { # TIMES COMMAND...; mean CPU seconds of one start
  local times=$1
  shift
  /usr/bin/time -f '%U %S' -o "$work/time" timeout 600 sh -c 'n=$0; while [ "$n" -gt 0 ]; do "$@" >/dev/null; n=$((n - 1)); done' \
    "$times" "$@"
  awk -v n="$times" '{ printf "%.4f", ($1 + $2) / n }' "$work/time"
}

ratio() { # OF TO
  awk -v of="$1" -v to="$2" 'BEGIN { printf "%.0f", of / (to > 0 ? to : 0.01) }'
}

pair=("$work/old.json" "$work/new.json")
make_json "$names" 1 >"${pair[0]}"
make_json "$names" 2 >"${pair[1]}"
both=("$work/old-shared.json" "$work/new-shared.json")
make_json "$shared" 1 >"${both[0]}"
make_json "$shared" 2 >"${both[1]}"
echo "$names benchmarks x 10 repetitions: 2 x $(($(wc -c <"${pair[0]}") / 1000000)) MB"
for _ in $(seq "$rounds"); do
  timed stand-in "$ours" as compare.py benchmarks "${pair[@]}"
  timed compare "$ours" compare "${pair[@]}" --db "$work/none.db"
done
for name in stand-in compare; do
  echo "$name, median: $(median "$work/$name" 1) s CPU, $(($(median "$work/$name" 2) / 1024)) MiB"
done

if ! has_original; then
  echo "skipped the original: it needs compare.py and a Python with scipy (see COMPARE_PY and PYTHON)"
  exit
fi
echo "$shared benchmarks x 10 repetitions, both tools:"
for _ in $(seq "$rounds"); do
  timed speedwell "$ours" as compare.py benchmarks "${both[@]}"
  timed compare.py "$python" "$original" benchmarks "${both[@]}"
done
one=$(started 50 "$ours" as compare.py --help)
other=$(started 3 "$python" "$original" --help)
echo "ratio of CPU:      $(ratio "$(median "$work/compare.py" 1)" "$(median "$work/speedwell" 1)")"
echo "start, --help:     $one s CPU against $other s CPU, ratio $(ratio "$other" "$one")"
if cmp -s "$work/speedwell.txt" "$work/compare.py.txt"; then
  echo "the outputs are identical"
else
  echo "the outputs differ" >&2
  exit 1
fi
