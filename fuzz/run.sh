#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# fuzz/run.sh BUILD SECONDS: every target of a `fuzz` build, for so many seconds each. New inputs stay in
# BUILD/corpus/; a crash leaves its input there and ends the run.
set -eu
build=$1
seconds=$2
for target in "$build"/fuzz/*_fuzz; do
  name=$(basename "$target" _fuzz)
  mkdir -p "$build/corpus/$name"
  echo "$name: $seconds s"
  "$target" "$build/corpus/$name" "$(dirname "$0")/corpus/$name" -max_total_time="$seconds" \
    -artifact_prefix="$build/corpus/$name." -print_final_stats=1 -verbosity=0
done
