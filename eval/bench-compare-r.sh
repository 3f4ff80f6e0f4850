#!/usr/bin/env bash
# Measures the cost of the comparison table. Generates a CSV like that of a full comparison of Node.js
# (999,960 rows, 16,666 cases of 30 + 30 runs, about 113 MB) and times `speedwell as compare.R` on it
# against the original, alternating, so that a busy machine slows both.
#
#   eval/bench-compare-r.sh [ROUNDS]
#
# COMPARE_R   the original compare.R; without it, or without Rscript, ggplot2 and plyr, only Speedwell
# runs
# SPEEDWELL   the program; default: target/release/speedwell, which must have been built
# CASES       number of cases, default 16666
#
# Prints CPU seconds and the largest resident set of every run, then the medians and their ratio.
# Needs GNU time and awk. Stops a run after ten minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

rounds=${1:-3}
cases=${CASES:-16666}
ours=$(eval/built_program.py release)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

source eval/bench-compare.bash

make_csv() { # CASES; deterministic output
  awk -v cases="$1" 'BEGIN {
    print "\"binary\",\"filename\",\"configuration\",\"rate\",\"time\""
    seed = 1
    for (run = 0; run < 30; run++)
      for (side = 0; side < 2; side++)
        for (i = 0; i < cases; i++) {
          seed = (seed * 16807) % 2147483647    # Park and Miller, CACM 31, 1988
          rate = 100000 + (i * 7919) % 900000 + seed / 21474.83647
          printf "\"%s\",\"string_decoder/string-decoder.js\",", side ? "new" : "old"
          printf "\"n=20000 chunkLen=%d inLen=%d encoding='\''utf8'\''\",%.10f,0.%09d\n", \
            i % 128, i, rate, seed % 1000000000
        }
  }'
}

has_original() {
  [ -n "${COMPARE_R:-}" ] && command -v Rscript >/dev/null &&
    Rscript -e 'stopifnot(requireNamespace("ggplot2"), requireNamespace("plyr"))' >/dev/null 2>&1
}

make_csv "$cases" >"$work/in.csv"
echo "$(($(wc -l <"$work/in.csv") - 1)) rows, $cases cases, $(($(wc -c <"$work/in.csv") / 1000000)) MB"
original=false
has_original && original=true
for _ in $(seq "$rounds"); do
  timed speedwell "$ours" as compare.R <"$work/in.csv"
  if $original; then timed Rscript Rscript "$COMPARE_R" <"$work/in.csv"; fi
done

echo "median speedwell: $(median "$work/speedwell" 1) s CPU, $(($(median "$work/speedwell" 2) / 1024)) MiB"
if $original; then
  echo "median Rscript:   $(median "$work/Rscript" 1) s CPU, $(($(median "$work/Rscript" 2) / 1024)) MiB"
  awk -v r="$(median "$work/Rscript" 1)" -v s="$(median "$work/speedwell" 1)" \
    'BEGIN { printf "ratio of CPU:     %.0f\n", r / (s > 0 ? s : 0.01) }'
  if cmp -s "$work/speedwell.txt" "$work/Rscript.txt"; then
    echo "the outputs are identical"
  else
    echo "the outputs differ" >&2
    exit 1
  fi
else
  echo "skipped the original: set COMPARE_R; it needs Rscript with ggplot2 and plyr"
fi
