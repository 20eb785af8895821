#!/usr/bin/env bash
# 25-random-runs.sh: 2000 run files made at random a run (tests/run/test_random_runs.c), by fifties, JOBS of these
# at a time; NIGHTLY_STATE/next is the number of the next file, so that every run tries others, and NIGHTLY_STATE/left how many
# this one still owes.
set -euo pipefail
: "${NIGHTLY_STATE:?}" "${NIGHTLY_BUILD:?}" "${NIGHTLY_SECONDS:?}"

end=$((SECONDS + NIGHTLY_SECONDS)) step=50
mkdir -p "$NIGHTLY_STATE"
next=$(cat "$NIGHTLY_STATE/next" 2>/dev/null || echo 100001)
left=$(cat "$NIGHTLY_STATE/left" 2>/dev/null || echo 2000)
export SOSMC_TEST_SOURCE=$PWD/tests SOSMC_TEST_RUNS=$step
summary() { echo "- random run files: $((next - 100001)) tried in all, $left left of this run; $1" >"$NIGHTLY_STATE/summary"; }

while [ "$left" -gt 0 ]; do
    [ $SECONDS -lt "$end" ] || { summary 'no failure'; exit 75; }
    batch=()
    for ((first = next; first < next + left && ${#batch[@]} < ${JOBS:-2}; first += step)); do batch+=("$first"); done
    rm -f "$NIGHTLY_STATE"/log.*
    printf '%s\n' "${batch[@]}" | xargs -P "${#batch[@]}" -I{} sh -c \
        'SOSMC_TEST_SEED={} "$NIGHTLY_BUILD/tests/run/test_random_runs" >"$NIGHTLY_STATE/log.{}" 2>&1 || mv "$NIGHTLY_STATE/log.{}" "$NIGHTLY_STATE/log.failed"'
    if [ -f "$NIGHTLY_STATE/log.failed" ]; then
        summary "a file from $next to $((next + step * ${#batch[@]} - 1)) fails, see $NIGHTLY_STATE/log.failed"
        exit 1
    fi
    next=$((next + step * ${#batch[@]})) left=$((left - step * ${#batch[@]}))
    echo "$next" >"$NIGHTLY_STATE/next"
    echo "$left" >"$NIGHTLY_STATE/left"
done
summary 'no failure'
rm -f "$NIGHTLY_STATE"/left "$NIGHTLY_STATE"/log.*
