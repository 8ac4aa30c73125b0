#!/bin/sh
# Stands in for the sidecar, called as: --kubeconfig PATH --admin-address ADDRESS
# It runs the test program itself, which then serves.
PPS_E2E_TEST_SERVE="$4" exec "$PPS_E2E_TEST_EXE" --exact harness::sidecar::serves_if_told_so --nocapture
