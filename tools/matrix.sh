#!/usr/bin/env bash
# matrix.sh [-s STATE] [-j JOBS] [-p] ['COMPILER FLAGS'...]: the same state whoever compiles the library.
#
# Builds library, golden test and tests/engine/test_combinations.c with each compiler and flags ('gcc -O2' and 'clang-14 -O2'
# unless told), and runs the tests at every vector level: the golden test compares with the stored numbers, and the hash over
# the states of all combinations must be the same for every build and level. -p builds the program too and compares the state
# hashes of three examples, which pass through networks, proximal maps and formulas. Builds stay in STATE (build-matrix).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
state=$root/build-matrix jobs=$(nproc 2>/dev/null || echo 2) program=
while getopts 's:j:p' option; do
    case $option in
    s) state=$OPTARG ;;
    j) jobs=$OPTARG ;;
    p) program=yes ;;
    *) sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2 ;;
    esac
done
shift $((OPTIND - 1))
if [ $# = 0 ]; then
    clang=$(command -v clang-14 || command -v clang || true)
    [ -n "$clang" ] || { echo "matrix.sh: clang is not installed (Debian: apt-get install clang)" >&2; exit 2; }
    set -- 'gcc -O2' "$(basename "$clang") -O2"
fi
mkdir -p "$state"
state=$(cd "$state" && pwd)
export SOSMC_TEST_SOURCE=$root/tests
examples='formula_reward tune_bars_mask deblur'

# The levels this machine runs; plain first.
levels()
{
    echo plain
    grep -qw avx2 /proc/cpuinfo 2>/dev/null && grep -qw fma /proc/cpuinfo && echo avx2
    grep -qw avx512dq /proc/cpuinfo 2>/dev/null && grep -qw avx512vl /proc/cpuinfo && echo avx512
    true
}

build() # FOLDER COMPILER FLAGS...
{
    local folder=$1 compiler=$2 targets='test_engine_golden test_engine_combinations'
    shift 2
    [ -z "$program" ] || targets="$targets sosmc_program"
    cmake -S "$root" -B "$folder" -DCMAKE_C_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE="$*" \
        -DSOSMC_BUILD_TESTS=ON -DSOSMC_BUILD_EXAMPLES=OFF -DSOSMC_BUILD_BENCH=OFF -DSOSMC_BUILD_PROGRAM="${program:+ON}" &&
        cmake --build "$folder" --parallel "$jobs" --target $targets
}

hash_of_combinations() # FOLDER
{
    "$1/tests/engine/test_combinations" 2>&1 | tee "$1/combinations.txt" | sed -n 's/.*state hash of all: //p'
    ! grep -q 'FAILED' "$1/combinations.txt"
}

hash_of_example() # FOLDER EXAMPLE
{
    "$1/sosmc" run "$root/examples/$2.yaml" --quiet --overwrite --set iterations=4 --set particles=20 --set output.report=false \
        --out "$1/run" >&2 && sed -n 's/.*"state_hash": "\([0-9a-f]*\)".*/\1/p' "$1/run/summary.json"
}

status=0
expected=
for variant in "$@"; do
    name=$(echo "$variant" | tr -c 'A-Za-z0-9\n' '_')
    folder=$state/$name
    mkdir -p "$folder"
    # shellcheck disable=SC2086 # flags are words
    if ! build "$folder" $variant >"$folder/build.log" 2>&1; then
        echo "matrix $variant: does not build, see $folder/build.log"
        tail -n 5 "$folder/build.log" | sed 's/^/    /'
        status=1
        continue
    fi
    if ! "$folder/tests/engine/test_golden" >"$folder/golden.txt" 2>&1; then
        echo "matrix $variant: the golden test fails, see $folder/golden.txt"
        status=1
    fi
    for level in $(levels); do
        export SOSMC_SIMD=$level
        hash=$(hash_of_combinations "$folder") || { echo "matrix $variant $level: fails, see $folder/combinations.txt"; status=1; }
        for example in ${program:+$examples}; do
            hash="$hash $(hash_of_example "$folder" "$example")" || { echo "matrix $variant $level: $example fails"; status=1; }
        done
        unset SOSMC_SIMD
        expected=${expected:-$hash}
        if [ "$hash" = "$expected" ] && [ -n "$hash" ]; then
            echo "matrix $variant, $level: $hash"
        else
            echo "matrix $variant, $level: $hash, which is not $expected"
            status=1
        fi
    done
done
exit $status
