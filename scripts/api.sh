#!/usr/bin/env bash
# Usage: scripts/api.sh REF
#
# Compares the exported API of this checkout with that of REF, a tag or commit, and prints what no longer compiles for
# programs that use it. The exit code is 1 if anything is printed. Modules of their own are compared too; packages below
# internal are not. APIDIFF is the program apidiff, which the Makefile builds.
set -euo pipefail
cd "$(dirname "$0")/.."

: "${APIDIFF:?run make api}"
ref=${1:?usage: make api REF=v0.1.0}
root=$PWD
work=$(mktemp -d)
trap 'git -C "$root" worktree remove --force "$work/old"; rm -rf "$work"' EXIT
git worktree add -q --detach "$work/old" "$ref"

for directory in . broker/signalrbroker; do
  [ -f "$work/old/$directory/go.mod" ] || continue
  module=$(cd "$directory" && go list -m)
  (cd "$work/old/$directory" && "$APIDIFF" -m -w "$work/exported" "$module")
  (cd "$directory" && "$APIDIFF" -m -incompatible "$work/exported" "$module") >>"$work/breaks"
done
if [ -s "$work/breaks" ]; then
  echo "What no longer compiles for programs that use $ref:"
  cat "$work/breaks"
  exit 1
fi
echo "Programs that use $ref still compile."
