#!/usr/bin/env bash
# Usage: scripts/check-deploy.sh
#
# Checks what deploy/ has by the tools of those who read it: the manifests are put together by kubectl, and the unit is
# verified by systemd-analyze, which also says how far it is open. That names, ports and options are those of the program
# is tested in internal/cli.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

kubectl kustomize deploy/kubernetes >"$work/manifests.yaml"
grep '^kind:' "$work/manifests.yaml"

# In a root of its own the unit finds its program, and no units of this machine.
mkdir -p "$work/root/usr/local/bin" "$work/root/etc/systemd/system"
install -m 0755 /dev/null "$work/root/usr/local/bin/waybill"
cp deploy/systemd/waybill-relay.service "$work/root/etc/systemd/system"
systemd-analyze verify --man=no --recursive-errors=no --root="$work/root" waybill-relay.service
systemd-analyze security --offline=true --no-pager --threshold=20 --root="$work/root" waybill-relay.service | tail -n 1
