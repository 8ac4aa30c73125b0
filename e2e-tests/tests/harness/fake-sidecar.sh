#!/bin/sh
# Stands in for the sidecar, called as: --kubeconfig PATH --admin-address ADDRESS
# It is the test program itself, told to serve.
PPS_E2E_TEST_SERVE="$4" exec "$PPS_E2E_TEST_EXE" --exact sidecar::serves_if_told_so --nocapture
