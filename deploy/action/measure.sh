#!/usr/bin/env bash
# Asks whether a measurement is valid; exits as `truezero check` or `truezero audit` does:
# 0 valid, 1 not valid, 2 usage or an unreadable path, 3 nothing to judge, 4 no service to ask.
#
# In: BATCH (with TRUEZERO_URL, TRUEZERO_ADMIN_TOKEN) or AUDIT, a path. Out: a table appended to
# GITHUB_STEP_SUMMARY, and valid, score_effective, coverage and rerun to GITHUB_OUTPUT.
# Names and sentences go into the summary only: in the log, a line may be read as a command.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd)"
# An empty input is none; the command would take it for an address.
[ -n "${TRUEZERO_URL:-}" ] || unset TRUEZERO_URL
[ -n "${TRUEZERO_ADMIN_TOKEN:-}" ] || unset TRUEZERO_ADMIN_TOKEN

if [ -n "${BATCH:-}" ] && [ -n "${AUDIT:-}" ] || [ -z "${BATCH:-}${AUDIT:-}" ]; then
  echo "truezero: give one of batch and audit" >&2
  exit 2
fi

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
code=0

if [ -n "${BATCH:-}" ]; then
  truezero check --json -- "$BATCH" > "$work/check" || code=$?
  [ -s "$work/check" ] || exit "$code" # no answer: the command has said why
  truezero batch --json -- "$BATCH" > "$work/batch"
  truezero card show --json "$work/card" -- "$BATCH" || echo null > "$work/card" # the verdict goes before it
  jq --null-input --slurpfile check "$work/check" --slurpfile batch "$work/batch" \
    --slurpfile card "$work/card" --from-file "$here/batch.jq" > "$work/facts"
else
  truezero audit --json -- "$AUDIT" > "$work/audit" || code=$?
  [ -s "$work/audit" ] || exit "$code"
  jq --from-file "$here/audit.jq" "$work/audit" > "$work/facts"
fi

jq --raw-output --from-file "$here/summary.jq" "$work/facts" >> "$GITHUB_STEP_SUMMARY"
jq --raw-output '
  "valid=\(.valid)", "score_effective=\(.score_effective // "")",
  "coverage=\(.coverage // "")", "rerun=\([.rerun[].id] | tojson)"
' "$work/facts" >> "$GITHUB_OUTPUT"
jq --raw-output '
  "truezero: valid: \(.valid), \(.objections | length) objections, " +
  "\(.rerun | length) to run again; see the summary"
' "$work/facts"
exit "$code"
