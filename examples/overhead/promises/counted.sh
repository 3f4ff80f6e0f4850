#!/bin/sh
# counted.sh TEST: number of instructions that node executes for a round of TEST, on any machine.
#
# Valgrind executes the program on a simulated processor and counts. The cost of starting node cancels out between a
# few rounds and more. One thread compiles, collects garbage and executes, always in the same order, so that the count
# hardly depends on the machine; times of such a process are meaningless. Without following jumps and reading debug
# information, valgrind takes a fifth less time for the same count.
set -eu

few=2 more=5

# executed ROUNDS: instructions of a whole process. Node's stderr is passed on to stderr.
executed() {
  log=$(mktemp)
  valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null --smc-check=all-non-file \
    --vex-guest-chase=no --read-inline-info=no --log-file="$log" node --predictable --hash-seed=1 --random-seed=1 "$test.js" "$1" >/dev/null
  sed -n 's/,//g; s/^==[0-9]*== I *refs: *\([0-9]*\)$/\1/p' "$log"
  rm -f "$log"
}

test=$1
first=$(executed "$few")
second=$(executed "$more")
# Every round is executed twice: for the warm-up, and measured.
awk -v name="$test" -v first="$first" -v second="$second" -v rounds=$((2 * (more - few))) \
  'BEGIN { printf "Instructions(%s): %.0f\n", name, (second - first) / rounds }'
