#!/usr/bin/env bash
# A run of a million iterations and one of a million particles: no memory growth, a bounded trace.
set -uo pipefail
mkdir -p "$NIGHTLY_STATE"
export SOSMC_TEST_TIER=nightly SOSMC_PROGRAM=$NIGHTLY_BUILD/sosmc SOSMC_TEST_SOURCE=$PWD/tests
timeout "$NIGHTLY_SECONDS" "$NIGHTLY_BUILD/tests/process/test_endurance" >"$NIGHTLY_STATE/log" 2>&1
code=$?
[ $code -eq 124 ] && exit 75
grep 'memory' "$NIGHTLY_STATE/log" >"$NIGHTLY_STATE/summary"
[ $code -eq 0 ] || { tail -20 "$NIGHTLY_STATE/log"; exit 1; }
