#!/usr/bin/env bash
# 20-fuzz.sh: 10^6 executions of every fuzzer a run, over as many calls as that takes; 10^7 in all is the sum to reach.
#
# NIGHTLY_STATE keeps the build of the fuzzers, their corpora, `total/NAME` (all executions ever) and `run/NAME` (those of this
# run, which ends when each has 10^6). One fuzzer at a time gets a share of the time that is left, the least advanced first.
set -euo pipefail
: "${NIGHTLY_STATE:?}" "${NIGHTLY_SECONDS:?}"

goal=${FUZZ_GOAL:-1000000} sum=10000000
build=$NIGHTLY_STATE/build total=$NIGHTLY_STATE/total run=$NIGHTLY_STATE/run end=$((SECONDS + NIGHTLY_SECONDS)) jobs=$(nproc)
clang=$(command -v clang-14 || command -v clang || true)
mkdir -p "$total" "$run"
if [ -z "$clang" ]; then
    echo "fuzzing skipped: clang is not installed (Debian: apt-get install clang)" >"$NIGHTLY_STATE/summary"
    exit 0
fi
cmake -S . -B "$build" -DCMAKE_C_COMPILER="$clang" -DSOSMC_FUZZ=ON -DSOSMC_BUILD_TESTS=OFF -DSOSMC_BUILD_EXAMPLES=OFF \
    -DSOSMC_BUILD_BENCH=OFF >"$NIGHTLY_STATE/build.log" 2>&1
cmake --build "$build" --parallel "$jobs" --target fuzzers >>"$NIGHTLY_STATE/build.log" 2>&1

names=$(cd fuzz && ls fuzz_*.c | sed 's/^fuzz_//; s/\.c$//')
count() { cat "$1" 2>/dev/null || echo 0; }

# Adds what the last call of fuzz.sh did.
note()
{
    while read -r name executions coverage inputs crashes; do
        echo $(($(count "$run/$name") + executions)) >"$run/$name"
        echo $(($(count "$total/$name") + executions)) >"$total/$name"
        echo "$coverage $inputs $crashes" >"$NIGHTLY_STATE/reached.$name"
    done <"$NIGHTLY_STATE/fuzzing/results"
}

summary()
{
    local name
    for name in $names; do
        read -r coverage inputs crashes 2>/dev/null <"$NIGHTLY_STATE/reached.$name" || coverage=0 inputs=0 crashes=0
        printf -- '- fuzz %s: %d of %d executions of this run, %d of %d in all; %d edges, %d inputs; %d crashes\n' "$name" \
            "$(count "$run/$name")" "$goal" "$(count "$total/$name")" "$sum" "$coverage" "$inputs" "$crashes"
    done >"$NIGHTLY_STATE/summary"
}

failed=0
while [ $SECONDS -lt $((end - 5)) ] && [ $failed = 0 ]; do
    waiting=$(for name in $names; do
        n=$(count "$run/$name")
        [ "$n" -ge "$goal" ] || echo "$n $name"
    done | sort -n | head -n "$jobs" | cut -d' ' -f2)
    [ -n "$waiting" ] || break
    share=$((end - SECONDS))
    [ $share -le 120 ] || share=120
    # A seed of its own for every stretch: the same one would take the same turns.
    FUZZ_SEED=$((1 + $(cat "$total"/* 2>/dev/null | awk '{ s += $1 } END { print s % 2000000000 }'))) \
        tools/fuzz.sh -b "$build" -s "$NIGHTLY_STATE/fuzzing" -t "$share" -n "$goal" $waiting || failed=1
    note
    summary
done
summary
[ $failed = 0 ] || exit 1
for name in $names; do [ "$(count "$run/$name")" -ge "$goal" ] || exit 75; done
rm -f "$run"/*
