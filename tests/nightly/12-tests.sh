#!/usr/bin/env bash
# 12-tests.sh: the tests with the label nightly (tests/tests.cmake), JOBS at a time. The contract of tests/nightly is in
# 10-statistics.sh. A test that passed leaves its output as NAME.log; one that is cut off begins again.
set -euo pipefail
: "${NIGHTLY_STATE:?names a folder}" "${NIGHTLY_BUILD:?names a built tree}" "${NIGHTLY_SECONDS:=1800}"
mkdir -p "$NIGHTLY_STATE"
export end=$(($(date +%s) + NIGHTLY_SECONDS))
names=$(cd "$NIGHTLY_BUILD" && ctest -N -L '^nightly$' | sed -n 's/^ *Test *#[0-9]*: //p')

run_one()
{
    local code=0 log=$NIGHTLY_STATE/$1.log left=$((end - $(date +%s)))
    [ ! -f "$log" ] && [ "$left" -gt 0 ] || return 0
    (cd "$NIGHTLY_BUILD" && timeout "$left" ctest --output-on-failure -R "^$1\$") >"$log.part" 2>&1 || code=$?
    case $code in
        0) mv "$log.part" "$log" ;;
        124) ;;
        *) mv "$log.part" "$NIGHTLY_STATE/failed-$1.log" ;;
    esac
}
export -f run_one
rm -f "$NIGHTLY_STATE"/failed-*.log
printf '%s\n' $names | xargs -r -P "${JOBS:-2}" -n 1 bash -c 'run_one "$1"' -

failed='' waiting=''
for name in $names; do
    if [ -f "$NIGHTLY_STATE/failed-$name.log" ]; then failed+=" $name"
    elif [ ! -f "$NIGHTLY_STATE/$name.log" ]; then waiting+=" $name"
    fi
done
echo "$(wc -w <<<"$names") tests; failed:${failed:- none}; not finished:${waiting:- none}" >"$NIGHTLY_STATE/summary"
[ -z "$failed" ] || exit 1
[ -z "$waiting" ] || exit 75
rm -f "$NIGHTLY_STATE"/*.log
