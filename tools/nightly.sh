#!/usr/bin/env bash
# What is too long for every change: tests/nightly/*.sh, up to NIGHTLY_HOURS (3) a run, continued by the next run where this one ends.
#
#   make nightly                  everything that is not done for these sources
#   make nightly TESTS=kills      the scripts whose names match
#
# A script is called in the repository's root with
#   NIGHTLY_BUILD    a built tree with tests and program
#   NIGHTLY_STATE    a folder of its own, kept between runs
#   NIGHTLY_SECONDS  how long it may work now
# and ends with 0: done, 75: not done, call again next time, anything else: failed. $NIGHTLY_STATE/summary holds its results.
# All state is in build-nightly/. When every script is done, the next run begins a new round; so does a change of the sources.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
hours=${NIGHTLY_HOURS:-3}
pattern=${TESTS:-.}
base=$PWD/build-nightly
export NIGHTLY_BUILD=$base/tree
seconds=$(awk -v h="$hours" 'BEGIN { printf "%d", 3600 * h }')
[ "$seconds" -gt 0 ] || { echo "NIGHTLY_HOURS is '$hours'; expected a number of hours above 0" >&2; exit 2; }
mkdir -p "$base"
exec 8>"$base/lock"
flock -n 8 || { echo "another make nightly is at work in $base" >&2; exit 2; }
begin=$SECONDS

mapfile -t scripts < <(find tests/nightly -name '[0-9]*.sh' | sort | grep -E -- "$pattern")
[ ${#scripts[@]} -gt 0 ] || { echo "no script of tests/nightly matches '$pattern'" >&2; exit 2; }

generator=()
[ -f "$NIGHTLY_BUILD/CMakeCache.txt" ] || { command -v ninja >/dev/null && generator=(-G Ninja); }
cmake -S . -B "$NIGHTLY_BUILD" "${generator[@]}" -DSOSMC_BUILD_TESTS=ON -DSOSMC_BUILD_BENCH=ON "$@" >"$base/configure.log" 2>&1 ||
    { tail -20 "$base/configure.log"; exit 2; }
cmake --build "$NIGHTLY_BUILD" --parallel "${JOBS:-2}" >"$base/build.log" 2>&1 || { tail -30 "$base/build.log"; exit 2; }

# What is done is done for these sources.
sources=$(find CMakeLists.txt bench cmake experiments fuzz include program python src tests -type f 2>/dev/null | sort | xargs sha256sum | sha256sum | cut -c1-16)
mark() { echo "$base/$(basename "$1" .sh).done"; }
is_done() { [ "$(cat "$(mark "$1")" 2>/dev/null)" = "$sources" ]; }
waiting=()
for script in "${scripts[@]}"; do is_done "$script" || waiting+=("$script"); done
if [ ${#waiting[@]} -eq 0 ]; then
    echo "all were done for these sources: a new round"
    for script in "${scripts[@]}"; do rm -f "$(mark "$script")"; done
    waiting=("${scripts[@]}")
fi

declare -A result took
failed=0
left=${#waiting[@]}
for script in "${waiting[@]}"; do
    name=$(basename "$script" .sh)
    export NIGHTLY_STATE=$base/$name
    remaining=$((seconds - (SECONDS - begin)))
    if [ "$remaining" -lt 30 ]; then
        result[$name]='not begun'
        continue
    fi
    # What earlier scripts do not need falls to the later ones.
    export NIGHTLY_SECONDS=$((remaining / left))
    [ "$NIGHTLY_SECONDS" -ge 30 ] || NIGHTLY_SECONDS=30
    left=$((left - 1))
    mkdir -p "$NIGHTLY_STATE"
    printf '== %s, up to %d s\n' "$name" "$NIGHTLY_SECONDS"
    from=$SECONDS
    timeout $((NIGHTLY_SECONDS + 300)) "$script"
    code=$?
    took[$name]=$((SECONDS - from))
    case $code in
        0) result[$name]=passed && echo "$sources" >"$(mark "$script")" ;;
        75) result[$name]='not finished' ;;
        124) result[$name]='FAILED: it overran its time by five minutes' && failed=1 ;;
        *) result[$name]="FAILED: exit code $code" && failed=1 ;;
    esac
done

printf '\n| name | result | seconds | summary |\n|---|---|---|---|\n'
for script in "${scripts[@]}"; do
    name=$(basename "$script" .sh)
    words=$(tr '\n|' ';/' <"$base/$name/summary" 2>/dev/null)
    printf '| %s | %s | %s | %s |\n' "$name" "${result[$name]:-passed before}" "${took[$name]:--}" "${words%;}"
done | tee "$base/table"
exit $failed
