#!/bin/sh
# A fake sidecar: runs a function of the test program.
# Usage: fake-sidecar.sh --kubeconfig PATH --admin-address ADDRESS
PPS_E2E_TEST_SERVE="$4" exec "$PPS_E2E_TEST_EXE" --exact --ignored harness::sidecar::child_process_that_serves --nocapture
