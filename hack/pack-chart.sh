#!/usr/bin/env bash
# Packs the Helm chart into FOLDER and prints the path. Unlike `helm package` it produces the same bytes each time.
set -euo pipefail
. "$(dirname "$0")/common.sh"
FOLDER="${1:?no folder given: run hack/pack-chart.sh FOLDER}"
NAME=persistent-pod-state
VERSION="$(sed -n 's/^version: *//p' "$REPO_DIR/charts/$NAME/Chart.yaml")"
WHEN="${SOURCE_DATE_EPOCH:-$(git -C "$REPO_DIR" log -1 --format=%ct 2>/dev/null || echo 0)}"
PACKED="$FOLDER/$NAME-$VERSION.tgz"
mkdir -p "$FOLDER"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$WHEN" --mode=u=rwX,go=rX \
    -C "$REPO_DIR/charts" -cf - "$NAME" | gzip -9n >"$PACKED.new"
mv "$PACKED.new" "$PACKED"
echo "$PACKED"
