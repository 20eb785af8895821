#!/usr/bin/env bash
# 200 kills at random moments, a kill before and a failure of every change of a file, a failure of every allocation.
# JOBS of the three programs at a time; each counts as done once it passed; the seed of the kills is another in every round.
set -uo pipefail
mkdir -p "$NIGHTLY_STATE"
export SOSMC_TEST_TIER=nightly SOSMC_PROGRAM=$NIGHTLY_BUILD/sosmc SOSMC_FAULTS=$NIGHTLY_BUILD/tests/process/faults.so
export SOSMC_TEST_SOURCE=$PWD/tests
round=$(cat "$NIGHTLY_STATE/round" 2>/dev/null || echo 1)
export SOSMC_KILL_SEED=$round
# One program, unless it passed in this round.
run_one()
{
    local left=$((end - $(date +%s)))
    [ ! -f "$NIGHTLY_STATE/$1.done" ] && [ "$left" -gt 10 ] || return 0
    timeout "$left" "$NIGHTLY_BUILD/tests/process/test_$1" >"$NIGHTLY_STATE/$1.log" 2>&1
    case $? in
        0) touch "$NIGHTLY_STATE/$1.done" ;;
        124) ;;
        *) touch "$NIGHTLY_STATE/$1.failed" ;;
    esac
}

export -f run_one
export end=$(($(date +%s) + NIGHTLY_SECONDS))
rm -f "$NIGHTLY_STATE"/*.failed
# The longest first.
printf '%s\n' memory disk kills | xargs -P "${JOBS:-2}" -n 1 bash -c 'run_one "$1"' -
for name in kills disk memory; do
    [ -f "$NIGHTLY_STATE/$name.failed" ] || continue
    tail -20 "$NIGHTLY_STATE/$name.log"
    echo "$name: failed, seed $round" >"$NIGHTLY_STATE/summary"
    exit 1
done
for name in kills disk memory; do [ -f "$NIGHTLY_STATE/$name.done" ] || exit 75; done
sed -n 's/^\([a-z0-9 ]*: \)\{0,1\}\(.*\(kill\|calls\|tries\).*\)$/\1\2/p' "$NIGHTLY_STATE"/{kills,disk,memory}.log |
    grep -v '^\[' >"$NIGHTLY_STATE/summary"
rm -f "$NIGHTLY_STATE"/*.done
echo $((round + 1)) >"$NIGHTLY_STATE/round"
