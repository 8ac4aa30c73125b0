#!/usr/bin/env bash
# Builds the site in target/site: the documents with search, and the playground. Prints how to open it.
#
# REVISION=v1.2.3       the branch, tag or commit to which links to other files of the repository lead. The default is HEAD.
# REPOSITORY=URL        the repository on the Git host. The default is what Cargo.toml says.
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$REPO_DIR"
SITE=target/site
BUILT="${CARGO_TARGET_DIR:-target}/debug"
hack/build-playground.sh
hack/build-programs.sh --workspace --bin pps-site --bin pps-web
"$BUILT/pps-site" --output "$SITE" --playground target/playground \
    --repository "${REPOSITORY:-$(owner_repository)}" --revision "${REVISION:-HEAD}"
say "built in $SITE. To look at it: $BUILT/pps-web serve $SITE"
