#!/usr/bin/env bash
# 70-sanitizers.sh: what `make sanitize` leaves out, statistics, under AddressSanitizer and UndefinedBehaviorSanitizer. The contract of
# tests/nightly is in 10-statistics.sh. A round that is cut off begins again with the tests that have not passed.
set -euo pipefail
: "${NIGHTLY_STATE:?names a folder}" "${NIGHTLY_SECONDS:=1800}"
end=$((SECONDS + NIGHTLY_SECONDS)) build=$NIGHTLY_STATE/tree
mkdir -p "$NIGHTLY_STATE"
export ASAN_OPTIONS=allocator_may_return_null=1:handle_segv=2:handle_sigbus=2:handle_sigill=2:handle_sigfpe=2 \
    UBSAN_OPTIONS=print_stacktrace=1
cmake -S . -B "$build" -DSOSMC_SANITIZE='address,undefined' -DSOSMC_BUILD_TESTS=ON -DSOSMC_BUILD_BENCH=OFF >"$NIGHTLY_STATE/build.log"
cmake --build "$build" --parallel "${JOBS:-2}" >>"$NIGHTLY_STATE/build.log"

names=$({ ctest --test-dir "$build" -N -L '^stat$' && ctest --test-dir "$build" -N -R '^theory_'; } |
    sed -n 's/^ *Test *#[0-9]*: //p' | sort -u)
for name in $names; do
    [ ! -f "$NIGHTLY_STATE/$name.log" ] || continue
    left=$((end - SECONDS)) code=0
    [ "$left" -gt 10 ] || { echo "to be continued with $name" >"$NIGHTLY_STATE/summary"; exit 75; }
    timeout "$left" ctest --test-dir "$build" --output-on-failure -R "^$name\$" >"$NIGHTLY_STATE/part" 2>&1 || code=$?
    [ "$code" != 124 ] || { echo "to be continued with $name" >"$NIGHTLY_STATE/summary"; exit 75; }
    [ "$code" = 0 ] || { tail -40 "$NIGHTLY_STATE/part"; echo "$name fails" >"$NIGHTLY_STATE/summary"; exit 1; }
    mv "$NIGHTLY_STATE/part" "$NIGHTLY_STATE/$name.log"
done
echo "$(wc -w <<<"$names") tests without a finding" >"$NIGHTLY_STATE/summary"
rm -f "$NIGHTLY_STATE"/*.log
