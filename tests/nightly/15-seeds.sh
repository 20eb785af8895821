#!/usr/bin/env bash
# 15-seeds.sh: the Geweke tests of the quick tier with NIGHTLY_SEEDS (100) other seeds, JOBS at a time: none may raise a false alarm, and
# every negative control must be noticed in each. The contract of tests/nightly is in 10-statistics.sh. A seed that is done leaves its
# output as seed-K.log, for as long as the program stays the same; every round has seeds of its own.
set -euo pipefail
: "${NIGHTLY_STATE:?names a folder}" "${NIGHTLY_BUILD:?names a built tree}" "${NIGHTLY_SECONDS:=1800}" "${NIGHTLY_SEEDS:=100}"
mkdir -p "$NIGHTLY_STATE"
export SOSMC_TEST_TIER=quick SOSMC_TEST_SOURCE=$PWD/tests end=$(($(date +%s) + NIGHTLY_SECONDS))
round=$(cat "$NIGHTLY_STATE/round" 2>/dev/null || echo 1)
program=$(sha256sum "$NIGHTLY_BUILD/tests/kernels/test_geweke" | cut -c1-16)
[ "$(cat "$NIGHTLY_STATE/program" 2>/dev/null)" = "$program" ] || rm -f "$NIGHTLY_STATE"/seed-*.log
echo "$program" >"$NIGHTLY_STATE/program"
rm -f "$NIGHTLY_STATE"/failed-*.log

run_one()
{
    local code=0 log=$NIGHTLY_STATE/seed-$1.log left=$((end - $(date +%s)))
    [ ! -f "$log" ] && [ "$left" -gt 0 ] || return 0
    SOSMC_TEST_SEED=$1 timeout "$left" "$NIGHTLY_BUILD/tests/kernels/test_geweke" >"$log.part" 2>&1 || code=$?
    case $code in
        0) mv "$log.part" "$log" ;;
        124) ;;
        *) mv "$log.part" "$NIGHTLY_STATE/failed-$1.log" ;;
    esac
}
export -f run_one
seq $(((round - 1) * NIGHTLY_SEEDS + 1)) $((round * NIGHTLY_SEEDS)) | xargs -P "${JOBS:-2}" -n 1 bash -c 'run_one "$1"' -

count()
{
    find "$NIGHTLY_STATE" -maxdepth 1 -name "$1" | wc -l
}
passed=$(count 'seed-*.log') failed=$(count 'failed-*.log')
weakest=$(find "$NIGHTLY_STATE" -maxdepth 1 -name 'seed-*.log' -exec cat {} + |
    awk '/negative control, / { z = $(NF - 2) + 0; if (!n++ || z < least) least = z } END { print n ? least : "no" }')
echo "round $round: $passed of $NIGHTLY_SEEDS seeds passed, $failed failed; weakest negative control at $weakest standard errors" \
    >"$NIGHTLY_STATE/summary"
[ "$failed" -eq 0 ] || exit 1
[ "$passed" -ge "$NIGHTLY_SEEDS" ] || exit 75
rm -f "$NIGHTLY_STATE"/seed-*.log
echo $((round + 1)) >"$NIGHTLY_STATE/round"
