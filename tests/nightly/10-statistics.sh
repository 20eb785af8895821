#!/usr/bin/env bash
# 10-statistics.sh: the statistical battery with more replicates, JOBS programs at a time (docs/statistics.md).
#
# The contract of tests/nightly: NIGHTLY_STATE keeps what is done, NIGHTLY_BUILD holds the built tests, NIGHTLY_SECONDS is how long to
# work now; exit 0 finished, 75 to be continued, anything else a failure. A finished program leaves its output as
# ROUND-NAME.log; one that is cut off begins again. Every round has random numbers of its own (SOSMC_TEST_SEED), so that
# running it again is a new experiment.
set -euo pipefail
: "${NIGHTLY_STATE:?names a folder}" "${NIGHTLY_BUILD:?names a built tree}" "${NIGHTLY_SECONDS:=1800}"
mkdir -p "$NIGHTLY_STATE"
round=$(cat "$NIGHTLY_STATE/round" 2>/dev/null || echo 1)
export SOSMC_TEST_TIER=nightly SOSMC_TEST_SEED=$round SOSMC_TEST_SOURCE=$PWD/tests
programs=(support/test_ledger engine/test_resampling_counts engine/test_coverage engine/test_calibration engine/test_score
    kernels/test_geweke engine/test_sampling engine/test_resample engine/test_mmle_data kernels/test_feynman_kac kernels/test_myula
    kernels/test_mymala engine/test_mmle_toy engine/test_objectives judge/test_judge_theta judge/test_judge_pass
    judge/test_judge_verdict)

# One line of markdown of a log: comparisons, the largest deviation, the control that was noticed least.
line_of()
{
    awk -v name="$1" '
        / comparisons, bound /    { made += $1; bound = $4; where = $0; sub(/.*largest /, "", where); largest = where + 0
                                    if (largest >= top) { top = largest; place = where; sub(/^[0-9.]+ /, "", place); gsub(/[|]/, "\\|", place) } }
        /negative control, /      { z = $(NF - 2); if (z < 0) z = -z
                                    if (z == "inf") z = 99
                                    if (!controls++ || z < least) least = z }
        END { if (!made) printf "| %s | | | none | | |\n", name
              else printf "| %s | %d | %.2f | %.2f %s | %d | %.1f |\n", name, made, bound, top, place, controls, least }' "$2"
}

summarise()
{
    {
        echo "Round $round, $1. Largest deviation and weakest control in standard errors (two-sided normal deviates)."
        echo
        echo '| program | comparisons | bound | largest deviation | negative controls | weakest of them |'
        echo '|---|---|---|---|---|---|'
        for program in "${programs[@]}"; do
            log=$NIGHTLY_STATE/$round-${program##*/test_}.log
            [ ! -f "$log" ] || line_of "${program##*/test_}" "$log"
        done
    } >"$NIGHTLY_STATE/summary"
}

# One program, unless it is done; its output becomes ROUND-NAME.log when it passes and failed-ROUND-NAME.log when it does not.
run_one()
{
    local name=${1##*/test_} code=0
    local log=$NIGHTLY_STATE/$round-$name.log left=$((end - $(date +%s)))
    [ ! -f "$log" ] && [ "$left" -gt 0 ] || return 0
    timeout "$left" "$NIGHTLY_BUILD/tests/$1" >"$log.part" 2>&1 || code=$?
    case $code in
        0) mv "$log.part" "$log" ;;
        124) ;;
        *) mv "$log.part" "$NIGHTLY_STATE/failed-$round-$name.log" ;;
    esac
}

export -f run_one
export round end=$(($(date +%s) + NIGHTLY_SECONDS))
rm -f "$NIGHTLY_STATE/failed-$round"-*
printf '%s\n' "${programs[@]}" | xargs -P "${JOBS:-2}" -n 1 bash -c 'run_one "$1"' -
for program in "${programs[@]}"; do
    name=${program##*/test_}
    [ ! -f "$NIGHTLY_STATE/failed-$round-$name.log" ] || { summarise "$name FAILED, see failed-$round-$name.log"; exit 1; }
done
for program in "${programs[@]}"; do
    name=${program##*/test_}
    [ -f "$NIGHTLY_STATE/$round-$name.log" ] || { summarise "to be continued with $name"; exit 75; }
done
summarise 'finished'
echo $((round + 1)) >"$NIGHTLY_STATE/round"
