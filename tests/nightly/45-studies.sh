#!/usr/bin/env bash
# 45-studies.sh: bench/untuned, evidence and calibrate with NIGHTLY_SEEDS (20) seeds, JOBS commands at a time. The contract of
# tests/nightly is in 10-statistics.sh. A command that is finished leaves its table as NAME.txt for as long as the program stays the
# same; one that is cut off begins again. Each leaves a CSV file, which bench/compare.py compares with that of another commit; untuned
# runs seed by seed, into untuned-GROUP.csv. Nothing here fails on a number: docs/trust.md says what the tables should show.
set -euo pipefail
: "${NIGHTLY_STATE:?names a folder}" "${NIGHTLY_BUILD:?names a built tree}" "${NIGHTLY_SECONDS:=1800}" "${NIGHTLY_SEEDS:=20}"
mkdir -p "$NIGHTLY_STATE"
groups='all out_of_sample unusual'
export end=$(($(date +%s) + NIGHTLY_SECONDS))
for bench in untuned evidence calibrate; do
    hash=$(sha256sum "$NIGHTLY_BUILD/bench/$bench" | cut -c1-16)
    [ "$(cat "$NIGHTLY_STATE/$bench.program" 2>/dev/null)" = "$hash" ] || rm -f "$NIGHTLY_STATE/$bench"-*
    echo "$hash" >"$NIGHTLY_STATE/$bench.program"
done

# NAME PROGRAM ARGUMENTS...
studies()
{
    local group kind schedule seed
    for group in $groups; do
        for ((seed = 0; seed < NIGHTLY_SEEDS; seed++)); do
            echo "untuned-$group-$seed untuned --problem $group --first $seed --last $((seed + 1)) --old 0" \
                "--csv $NIGHTLY_STATE/untuned-$group-$seed.part.csv"
        done
    done
    for kind in mixtures tilts; do
        echo "evidence-$kind evidence --$kind --runs $NIGHTLY_SEEDS --particles 4096 --csv $NIGHTLY_STATE/evidence-$kind.csv"
    done
    echo "evidence-modes evidence --runs $NIGHTLY_SEEDS --no-peers --csv $NIGHTLY_STATE/evidence-modes.csv"
    for schedule in constant cosine decaying; do
        echo "calibrate-$schedule calibrate --schedule $schedule --first 0 --last $NIGHTLY_SEEDS" \
            "--csv $NIGHTLY_STATE/calibrate-$schedule.csv"
    done
}

run_one()
{
    local name=$1 program=$2 code=0 log=$NIGHTLY_STATE/$1.txt left=$((end - $(date +%s)))
    shift 2
    [ ! -f "$log" ] && [ "$left" -gt 0 ] || return 0
    timeout "$left" "$NIGHTLY_BUILD/bench/$program" "$@" >"$log.part" 2>&1 || code=$?
    case $code in
        0) mv "$log.part" "$log" ;;
        124) ;;
        *) mv "$log.part" "$NIGHTLY_STATE/$name.failed" ;;
    esac
}
export -f run_one
rm -f "$NIGHTLY_STATE"/*.failed
studies | xargs -P "${JOBS:-2}" -L 1 bash -c 'run_one "$@"' -

# The CSV of a group: its head once, and the lines of the seeds that are finished.
for group in $groups; do
    for ((seed = 0; seed < NIGHTLY_SEEDS; seed++)); do
        [ ! -f "$NIGHTLY_STATE/untuned-$group-$seed.txt" ] || cat "$NIGHTLY_STATE/untuned-$group-$seed.part.csv"
    done | awk 'NR == 1 { head = $0; print } $0 != head' >"$NIGHTLY_STATE/untuned-$group.csv"
done
all=$(studies | wc -l) done=$(find "$NIGHTLY_STATE" -maxdepth 1 -name '*-*.txt' | wc -l)
failed=$(find "$NIGHTLY_STATE" -maxdepth 1 -name '*.failed' -printf '%f ')
echo "$done of $all studies finished, tables and CSVs in $NIGHTLY_STATE; failed: ${failed:-none}" >"$NIGHTLY_STATE/summary"
[ -z "$failed" ] || exit 1
[ "$done" -ge "$all" ] || exit 75
