#!/usr/bin/env bash
# 25-random-runs.sh: 2000 run files made at random a run (tests/run/test_random_runs.c), by fifties, JOBS of these
# at a time; LONG_STATE/next is the number of the next file, so that every run tries others, and LONG_STATE/left how many
# this one still owes.
set -euo pipefail
: "${LONG_STATE:?}" "${LONG_BUILD:?}" "${LONG_SECONDS:?}"

end=$((SECONDS + LONG_SECONDS)) step=50
mkdir -p "$LONG_STATE"
next=$(cat "$LONG_STATE/next" 2>/dev/null || echo 100001)
left=$(cat "$LONG_STATE/left" 2>/dev/null || echo 2000)
export SOSMC_TEST_SOURCE=$PWD/tests SOSMC_TEST_RUNS=$step
summary() { echo "- random run files: $((next - 100001)) tried in all, $left left of this run; $1" >"$LONG_STATE/summary"; }

while [ "$left" -gt 0 ]; do
    [ $SECONDS -lt "$end" ] || { summary 'no failure'; exit 75; }
    batch=()
    for ((first = next; first < next + left && ${#batch[@]} < ${JOBS:-2}; first += step)); do batch+=("$first"); done
    rm -f "$LONG_STATE"/log.*
    printf '%s\n' "${batch[@]}" | xargs -P "${#batch[@]}" -I{} sh -c \
        'SOSMC_TEST_SEED={} "$LONG_BUILD/tests/run/test_random_runs" >"$LONG_STATE/log.{}" 2>&1 || mv "$LONG_STATE/log.{}" "$LONG_STATE/log.failed"'
    if [ -f "$LONG_STATE/log.failed" ]; then
        summary "a file from $next to $((next + step * ${#batch[@]} - 1)) fails, see $LONG_STATE/log.failed"
        exit 1
    fi
    next=$((next + step * ${#batch[@]})) left=$((left - step * ${#batch[@]}))
    echo "$next" >"$LONG_STATE/next"
    echo "$left" >"$LONG_STATE/left"
done
summary 'no failure'
rm -f "$LONG_STATE"/left "$LONG_STATE"/log.*
