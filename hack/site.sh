#!/usr/bin/env bash
# Builds the site in target/site: the documents with search, and the playground. Prints how to open it.
#
# REVISION=v1.2.3       the branch, tag or commit to which links to other files of the repository lead. The default is HEAD.
# REPOSITORY=URL        the repository on the Git host. The default is what Cargo.toml says.
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$REPO_DIR"
SITE="${CARGO_TARGET_DIR:-target}/site"
PLAYGROUND=()
if [ -x hack/build-playground.sh ]; then PLAYGROUND=(--playground "$(hack/build-playground.sh)"); fi
hack/build-programs.sh --workspace --bin pps-site
"${CARGO_TARGET_DIR:-target}/debug/pps-site" --output "$SITE" "${PLAYGROUND[@]}" \
    --repository "${REPOSITORY:-$(owner_repository)}" --revision "${REVISION:-HEAD}"
say "open $SITE/index.html. The playground needs a web server: python3 -m http.server --directory $SITE"
