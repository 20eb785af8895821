#!/usr/bin/env bash
# run.sh BUILD: asks the compiler for an include for every pair of rooms that the table does not allow, and each must not be found; and
# for every *_inside.h from every other room. BUILD/rooms.txt is the table ("room folder sees..."); BUILD/doors has the doors.
set -euo pipefail
build=$1
source=${SOSMC_TEST_SOURCE:?}/..
cc=${CC:-cc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tried=0 wrong=0

# sees_of ROOM HEADER...: those of the headers that an include of a file of the room would find
sees_of()
{
    local paths=(-I "$source/include") seen header
    for seen in ${sees[$1]}; do paths+=(-I "$build/doors/$seen"); done
    shift
    for header in "$@"; do printf '#if __has_include("%s")\nfound %s\n#endif\n' "$header" "$header"; done >"$work/try.c"
    "$cc" -std=gnu11 -E -P "${paths[@]}" "$work/try.c" | sed -n 's/^found //p'
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

# Any header of a room will do: the folder of its door is what must be out of sight.
declare -A header inside
for room in "${!folder[@]}"; do
    for path in "$source/${folder[$room]}"/*.h; do
        case $path in
            *'*.h') ;; # there is none
            *_inside.h) inside[$room]=${path##*/} ;;
            *) header[$room]=${path##*/} ;;
        esac
    done
done

for room in "${!folder[@]}"; do
    forbidden=()
    for other in "${!folder[@]}"; do
        [ -z "${header[$other]:-}" ] || allowed "$room" "$other" || forbidden+=("$other/${header[$other]}")
        [ -z "${inside[$other]:-}" ] || [ "$room" = "$other" ] || forbidden+=("$other/${inside[$other]}")
    done
    tried=$((tried + ${#forbidden[@]}))
    for found in $(sees_of "$room" "${forbidden[@]}"); do
        echo "a file of $room may include $found; the table does not allow it, or it is for its own room alone"
        wrong=$((wrong + 1))
    done
done
# The control: what the table allows is in sight, or the test would pass for want of any door.
for pair in "runfile files/files.h" "engine base/table.h" "commands run/run.h"; do
    [ "$(sees_of ${pair% *} "${pair#* }")" = "${pair#* }" ] ||
        { echo "a file of ${pair% *} cannot include ${pair#* }, which the table allows"; wrong=$((wrong + 1)); }
done
echo "$tried includes asked for that must not be found, $wrong wrong"
[ "$tried" -gt 100 ] && [ "$wrong" -eq 0 ]
