#!/usr/bin/env bash
# 25-random-runs.sh: 2000 run files made at random a run (tests/cli/test_random_runs.c), by fifties; LONG_STATE/next is the
# number of the next file, so that every run tries others, and LONG_STATE/left how many this one still owes.
set -euo pipefail
: "${LONG_STATE:?}" "${LONG_BUILD:?}" "${LONG_SECONDS:?}"

end=$((SECONDS + LONG_SECONDS)) step=50
mkdir -p "$LONG_STATE"
next=$(cat "$LONG_STATE/next" 2>/dev/null || echo 100001)
left=$(cat "$LONG_STATE/left" 2>/dev/null || echo 2000)
export SOSMC_TEST_SOURCE=$PWD/tests
summary() { echo "- random run files: $((next - 100001)) tried in all, $left left of this run; $1" >"$LONG_STATE/summary"; }
while [ "$left" -gt 0 ]; do
    [ $SECONDS -lt "$end" ] || { summary 'no failure'; exit 75; }
    if ! SOSMC_TEST_RUNS=$step SOSMC_TEST_SEED=$next "$LONG_BUILD/tests/cli/test_random_runs" >"$LONG_STATE/log" 2>&1; then
        summary "a file from $next to $((next + step - 1)) fails, see $LONG_STATE/log"
        exit 1
    fi
    next=$((next + step)) left=$((left - step))
    echo "$next" >"$LONG_STATE/next"
    echo "$left" >"$LONG_STATE/left"
done
summary 'no failure'
rm -f "$LONG_STATE/left"
