#!/usr/bin/env bash
# run.sh BUILD: tries an include for every pair of rooms that the table does not allow, and sees each fail; and for every
# *_inside.h from every other room. BUILD/rooms.txt is the table ("room folder sees..."); BUILD/doors has the doors.
set -euo pipefail
build=$1
source=${SOSMC_TEST_SOURCE:?}/..
cc=${CC:-cc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tried=0 wrong=0

# compiles ROOM HEADER: whether a file of the room may include the header
compiles()
{
    local paths=(-I "$source/include")
    for seen in ${sees[$1]}; do paths+=(-I "$build/doors/$seen"); done
    printf '#include "%s"\n' "$2" >"$work/try.c"
    "$cc" -std=gnu11 -fsyntax-only "${paths[@]}" "$work/try.c" 2>/dev/null
}

declare -A folder sees
while read -r room where rest; do
    folder[$room]=$where
    sees[$room]=$rest
done <"$build/rooms.txt"

allowed()
{
    [ "$1" = "$2" ] || [[ " ${sees[$1]} " == *" $2 "* ]]
}

for room in "${!folder[@]}"; do
    for other in "${!folder[@]}"; do
        # any header will do: the folder of the door is what must be out of sight
        header=$(cd "$source/${folder[$other]}" && ls ./*.h 2>/dev/null | grep -v '_inside\.h$' | head -n 1 | sed 's#^\./##' || true)
        inside=$(cd "$source/${folder[$other]}" && ls ./*_inside.h 2>/dev/null | head -n 1 | sed 's#^\./##' || true)
        if [ -n "$header" ] && ! allowed "$room" "$other"; then
            tried=$((tried + 1))
            if compiles "$room" "$other/$header"; then
                echo "a file of $room may include $other/$header; the table does not allow it"
                wrong=$((wrong + 1))
            fi
        fi
        if [ -n "$inside" ] && [ "$room" != "$other" ]; then
            tried=$((tried + 1))
            if compiles "$room" "$other/$inside"; then
                echo "a file of $room may include $other/$inside, which is for $other alone"
                wrong=$((wrong + 1))
            fi
        fi
    done
done
# The control: what the table allows is in sight, or the test would pass for want of any door.
for pair in "runfile files/files.h" "engine base/table.h" "commands run/run.h"; do
    compiles ${pair% *} "${pair#* }" || { echo "a file of ${pair% *} cannot include ${pair#* }, which the table allows"; wrong=$((wrong + 1)); }
done
echo "$tried includes tried that must not compile, $wrong wrong"
[ "$tried" -gt 100 ] && [ "$wrong" -eq 0 ]
