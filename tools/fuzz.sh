#!/usr/bin/env bash
# fuzz.sh [-b BUILD] [-s STATE] [-t SECONDS] [-n RUNS] [-j JOBS] [NAME...]: runs the fuzzers of a build with SOSMC_FUZZ=ON.
#
# Each works for SECONDS (60), or until it has done RUNS executions when -n is given. STATE (BUILD/fuzzing) keeps, for every
# fuzzer, corpus/NAME (inputs that reached something new), crashes/NAME (both are read again next time) and log/NAME, and in
# `results` a line "NAME executions coverage inputs crashes" of this run. A line of words per fuzzer goes to standard output.
# Fails when an input crashed, hung (twice) or took too much memory; its path is printed and the file kept.
set -euo pipefail

usage() { sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2; }

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build-fuzz state= seconds=60 runs= jobs=$(nproc 2>/dev/null || echo 2) one=
while getopts 'b:s:t:n:j:1:' option; do
    case $option in
    b) build=$OPTARG ;;
    s) state=$OPTARG ;;
    t) seconds=$OPTARG ;;
    n) runs=$OPTARG ;;
    j) jobs=$OPTARG ;;
    1) one=$OPTARG ;; # what this script calls itself with: one fuzzer
    *) usage ;;
    esac
done
shift $((OPTIND - 1))
build=$(cd "$build" && pwd)
state=${state:-$build/fuzzing}
mkdir -p "$state"
state=$(cd "$state" && pwd)

# The longest input, and the largest single allocation in MB. The latter is what docs/fuzzing.md promises for files of that
# length, rounded up: a fuzzer stops at the first one above.
limits()
{
    case $1 in
    run_file) echo 4096 64 ;;
    formula | network) echo 1024 8 ;;
    png) echo 1024 220 ;;
    jpeg) echo 2048 80 ;;
    model | arrays | idx) echo 4096 16 ;;
    checkpoint) echo 2048 4 ;;
    *) echo 2048 4 ;;
    esac
}

seeds()
{
    rm -rf "$state/seeds"
    mkdir -p "$state/seeds"
    "$build/fuzz/seeds" "$state/seeds"
    cp "$root"/examples/*.yaml "$state/seeds/run_file/"
    cp "$root"/examples/data/*.csv "$state/seeds/csv/"
    cp "$root"/examples/data/*.png "$state/seeds/png/"
    cp "$root"/examples/data/*.npz "$state/seeds/model/"
}

# The last number behind WORD in the log, 0 when there is none.
number() { { grep -o "$1 *[0-9]*" "$2" || true; } | tail -n 1 | { grep -o '[0-9]*$' || echo 0; }; }

run_one()
{
    local name=$1 log=$state/log/$1.txt length megabytes crashes before status=0
    local corpus=$state/corpus/$1 kept=$state/crashes/$1
    mkdir -p "$corpus" "$kept" "$state/log"
    read -r length megabytes < <(limits "$name")
    local arguments=(-max_len="$length" -malloc_limit_mb="$megabytes" -rss_limit_mb=2048 -timeout=20 -print_final_stats=1
        -max_total_time="$seconds" -seed="${FUZZ_SEED:-1}" -artifact_prefix="$kept/")
    [ -z "$runs" ] || arguments+=(-runs="$runs")
    [ ! -f "$state/seeds/$name.dict" ] || arguments+=(-dict="$state/seeds/$name.dict")
    before=$(date +%s)
    ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=1:quarantine_size_mb=16 UBSAN_OPTIONS=print_stacktrace=1 \
        "$build/fuzz/$name" "${arguments[@]}" "$corpus" "$state/seeds/$name" "$kept" >"$log" 2>&1 || status=$?
    find "$kept" -name 'slow-unit-*' -delete
    # A machine that slept, or a process that was stopped, looks like a hang: only what hangs again alone is one.
    local hung
    for hung in "$kept"/timeout-*; do
        [ -f "$hung" ] || continue
        if "$build/fuzz/$name" -timeout=20 "$hung" >/dev/null 2>&1; then
            rm "$hung"
            ! grep -q 'ERROR: libFuzzer: timeout' "$log" || status=0
        fi
    done
    crashes=$(find "$kept" -type f -newermt "@$((before - 1))" | wc -l)
    [ "$status" = 0 ] || [ "$crashes" -gt 0 ] || crashes=1
    local executions coverage inputs
    executions=$(number 'stat::number_of_executed_units:' "$log")
    coverage=$(number 'cov:' "$log")
    inputs=$(find "$corpus" -type f | wc -l)
    echo "$name $executions $coverage $inputs $crashes" >>"$state/results"
    printf 'fuzz %-11s %9d executions, %5d edges reached, %4d inputs kept, %d crashes\n' "$name:" "$executions" "$coverage" \
        "$inputs" "$crashes"
    [ "$crashes" = 0 ] && return 0
    { grep -E 'ERROR|runtime error|what must hold|SUMMARY' "$log" || tail -n 5 "$log"; } | head -n 4 | sed 's/^/    /'
    find "$kept" -type f -newermt "@$((before - 1))" -printf '    kept: %p\n'
    echo "    log: $log"
}

if [ -n "$one" ]; then
    run_one "$one"
    exit
fi

[ -x "$build/fuzz/seeds" ] || { echo "fuzz.sh: no fuzzers in $build; build them with -DSOSMC_FUZZ=ON" >&2; exit 2; }
if [ $# = 0 ]; then
    set -- $(cd "$root/fuzz" && ls fuzz_*.c | sed 's/^fuzz_//; s/\.c$//')
fi
seeds
: >"$state/results"
printf '%s\n' "$@" | xargs -P "$jobs" -I{} "${BASH_SOURCE[0]}" -b "$build" -s "$state" -t "$seconds" ${runs:+-n "$runs"} -1 {}
awk '{ e += $2; c += $5 } END { printf "fuzz: %d fuzzers, %d executions, %d crashes\n", NR, e, c; exit c > 0 }' "$state/results"
