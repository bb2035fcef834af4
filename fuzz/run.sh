#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# fuzz/run.sh BUILD SECONDS [JOBS] [TARGET…]: runs the targets of a `fuzz` build (default: all) for SECONDS
# each, JOBS in parallel (default 1). RUNS=n in the environment ends a target after n executions. Logs go to
# BUILD/corpus/TARGET.log, new inputs to BUILD/corpus/TARGET/, and the input of a crash beside them. Prints
# a table at the end; exit code 1 if anything crashed.
set -eu
here=$(dirname "$0")

run_one() {  # BUILD SECONDS TARGET
  own="$1/corpus/$3"
  mkdir -p "$own"
  rm -f "$own".crash-* "$own".oom-* "$own".timeout-* "$own".leak-*
  dictionary="$here/dictionaries/$3.dict"
  [ -f "$dictionary" ] || dictionary=
  # With other threads running, every input looks like a leak, and looking for one takes long.
  case $3 in gateway | http_*) leaks=0 ;; *) leaks=1 ;; esac
  # Stacks of allocations and much memory that is not used again cost time; whoever looks into a crash runs
  # its input without these options.
  ASAN_OPTIONS=malloc_context_size=0:quarantine_size_mb=16 "$1/fuzz/$3_fuzz" "$own" "$here/corpus/$3" -max_total_time="$2" -runs="${RUNS:--1}" -timeout=60 -detect_leaks=$leaks \
    ${dictionary:+-dict="$dictionary"} -artifact_prefix="$own." -print_final_stats=1 \
    >"$own.log" 2>&1 || true
}

if [ "$1" = --one ]; then
  run_one "$2" "$3" "$4"
  exit 0
fi
build=$1
seconds=$2
jobs=${3:-1}
[ $# -gt 3 ] && shift 3 || set -- $(cd "$build/fuzz" && ls -- *_fuzz | sed 's/_fuzz$//')
printf '%s\n' "$@" | xargs -P "$jobs" -I '{}' "$0" --one "$build" "$seconds" '{}'

row='%-18s %12s %10s %9s %7s %8s\n'
printf "$row" target executions 'a second' coverage corpus crashes
total=0
broken=0
for target in "$@"; do
  own="$build/corpus/$target"
  number() { awk -v name="$1" '$1 == name {n = $2} END {print n + 0}' "$own.log"; }
  runs=$(number stat::number_of_executed_units:)
  # A run that ended early has no statistics; its last progress line starts with the count.
  [ "$runs" -gt 0 ] || runs=$(awk '/^#[0-9]/ {n = substr($1, 2)} END {print n + 0}' "$own.log")
  coverage=$(awk '{for (i = 1; i < NF; ++i) if ($i == "cov:") c = $(i + 1)} END {print c + 0}' "$own.log")
  crashes=$(find "$build/corpus" -maxdepth 1 -name "$target.*-*" | wc -l)
  grep -q '^stat::number_of_executed_units' "$own.log" || [ "$crashes" -gt 0 ] || crashes=1
  printf "$row" "$target" "$runs" "$(number stat::average_exec_per_sec:)" "$coverage" \
    "$(find "$own" -type f | wc -l)" "$crashes"
  total=$((total + runs))
  broken=$((broken + crashes))
done
printf "$row" total "$total" '' '' '' "$broken"
[ "$broken" -eq 0 ]
