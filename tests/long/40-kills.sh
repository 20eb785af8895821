#!/usr/bin/env bash
# 200 kills at random moments, a kill before and a failure of every change of a file, a failure of every allocation.
# Each of the three programs counts as done once it passed; the seed of the kills is another in every round.
set -uo pipefail
mkdir -p "$LONG_STATE"
export SOSMC_TEST_TIER=long SOSMC_PROGRAM=$LONG_BUILD/sosmc SOSMC_FAULTS=$LONG_BUILD/tests/program/faults.so
export SOSMC_TEST_SOURCE=$PWD/tests
round=$(cat "$LONG_STATE/round" 2>/dev/null || echo 1)
export SOSMC_KILL_SEED=$round
end=$((SECONDS + LONG_SECONDS))
for name in kills disk memory; do
    [ -f "$LONG_STATE/$name.done" ] && continue
    left=$((end - SECONDS))
    [ "$left" -gt 10 ] || exit 75
    timeout "$left" "$LONG_BUILD/tests/program/test_$name" >"$LONG_STATE/$name.log" 2>&1
    code=$?
    [ $code -eq 124 ] && exit 75
    [ $code -eq 0 ] || { tail -20 "$LONG_STATE/$name.log"; echo "$name: failed, seed $round" >"$LONG_STATE/summary"; exit 1; }
    touch "$LONG_STATE/$name.done"
done
sed -n 's/^\([a-z0-9 ]*: \)\{0,1\}\(.*\(kill\|calls\|tries\).*\)$/\1\2/p' "$LONG_STATE"/{kills,disk,memory}.log |
    grep -v '^\[' >"$LONG_STATE/summary"
rm -f "$LONG_STATE"/*.done
echo $((round + 1)) >"$LONG_STATE/round"
