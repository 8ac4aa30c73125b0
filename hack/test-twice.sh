#!/usr/bin/env bash
# `make test`, for a shared machine: up to three end-to-end tests that fail are run again, alone. One that fails again
# fails the run. One that passes then has a defect too, if a rarer one: it is named at the end.
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$REPO_DIR"

LOG="$(mktemp "${TMPDIR:-/tmp}/pps-tests.XXXXXX")"
trap 'explain_end $?; rm -f "$LOG"' EXIT
make test T=--no-fail-fast 2>&1 | tee "$LOG" && exit 0

# Cargo ends with the programs that failed, and each of them with the names of its tests that did.
programs="$(sed -n 's/^    `\(-p .*\)`$/\1/p' "$LOG")"
[ "$programs" = "-p pps-e2e --test e2e" ] || die "tests failed${programs:+: $programs}"
mapfile -t failed < <(awk '/^failures:$/ {names = ""; on = 1} /^test result:/ {on = 0} on && /^    [a-z0-9_:]+$/ {names = names $0 "\n"} END {printf "%s", names}' "$LOG" | sort -u | tr -d ' ')
[ "${#failed[@]}" -ge 1 ] && [ "${#failed[@]}" -le 3 ] || die "${#failed[@]} end-to-end tests failed: ${failed[*]}"

say "these tests failed, and are run again alone: ${failed[*]}"
RUST_TEST_THREADS=1 make e2e-tests T="--test e2e -- --exact ${failed[*]}" 2>&1 | tee "$LOG"
grep -q "^test result: ok\. ${#failed[@]} passed; " "$LOG" || die "not all of them ran the second time"
say "passed only the second time: ${failed[*]}"
