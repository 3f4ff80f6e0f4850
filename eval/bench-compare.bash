# Measures commands for the scripts bench-compare-*.sh, which source this file. They must set `work`, a temporary folder.

[ -x /usr/bin/time ] || { echo "/usr/bin/time (GNU time) is not installed" >&2; exit 2; }

timed() { # NAME COMMAND...; adds "CPU_SECONDS RSS_KIB" to the file NAME; stops the command after ten minutes
  local name=$1
  shift
  /usr/bin/time -f '%U %S %M' -o "$work/time" timeout 600 "$@" >"$work/$name.txt" 2>"$work/stderr"
  awk '{ printf "%.2f %d\n", $1 + $2, $3 }' "$work/time" >>"$work/$name"
  echo "$name: $(awk '{ printf "%.2f s CPU, %.0f MiB", $1 + $2, $3 / 1024 }' "$work/time")"
}

median() { # FILE COLUMN
  awk -v column="$2" '{ print $column }' "$1" | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}
