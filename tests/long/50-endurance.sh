#!/usr/bin/env bash
# A run of a million iterations and one of a million particles: no memory growth, a bounded trace.
set -uo pipefail
mkdir -p "$LONG_STATE"
export SOSMC_TEST_TIER=long SOSMC_PROGRAM=$LONG_BUILD/sosmc SOSMC_TEST_SOURCE=$PWD/tests
timeout "$LONG_SECONDS" "$LONG_BUILD/tests/process/test_endurance" >"$LONG_STATE/log" 2>&1
code=$?
[ $code -eq 124 ] && exit 75
grep 'memory' "$LONG_STATE/log" >"$LONG_STATE/summary"
[ $code -eq 0 ] || { tail -20 "$LONG_STATE/log"; exit 1; }
