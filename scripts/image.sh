#!/usr/bin/env bash
# Usage: scripts/image.sh PROGRAM ARCH VERSION COMMIT SECONDS OUT
#
# Writes an image of one layer for Linux to OUT, a tar of an OCI image layout: the program, the certificates of
# authorities, the user waybill (65532) and an empty /tmp. Time zones are in the program. Every time in it is SECONDS since
# 1970. It needs GNU tar, and neither an engine nor a registry: such an image is a tar and four short JSON files.
# CERTIFICATES are those of this machine by default.
set -euo pipefail

program=$1 arch=$2 version=$3 commit=$4 seconds=$5 out=$6
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root layout=$work/layout
created=$(date -u -d "@$seconds" +%Y-%m-%dT%H:%M:%SZ)

# pack DIRECTORY OUT NAME... writes a tar that has the same bytes each time.
pack() { tar --sort=name --mtime="@$seconds" --owner=0 --group=0 --numeric-owner -C "$1" -cf "$2" "${@:3}"; }

digest() { sha256sum "$1" | cut -d ' ' -f 1; }

# blob TYPE FILE moves a file into the layout, and prints its descriptor.
blob() {
  local sum size
  sum=$(digest "$2") size=$(stat -c %s "$2")
  mv "$2" "$layout/blobs/sha256/$sum"
  printf '{"mediaType":"application/vnd.oci.image.%s","digest":"sha256:%s","size":%s}' "$1" "$sum" "$size"
}

mkdir -p "$root/etc/ssl/certs" "$root/usr/local/bin" "$root/tmp" "$layout/blobs/sha256"
install -m 0755 "$program" "$root/usr/local/bin/waybill"
install -m 0644 "${CERTIFICATES:-/etc/ssl/certs/ca-certificates.crt}" "$root/etc/ssl/certs/ca-certificates.crt"
echo 'waybill:x:65532:65532:waybill:/tmp:/sbin/nologin' >"$root/etc/passwd"
echo 'waybill:x:65532:' >"$root/etc/group"
chmod -R u=rwX,go=rX "$root"
chmod 1777 "$root/tmp"
pack "$root" "$work/layer.tar" etc tmp usr
unpacked=$(digest "$work/layer.tar")
gzip -n "$work/layer.tar"
layer=$(blob layer.v1.tar+gzip "$work/layer.tar.gz")

cat >"$work/config.json" <<END
{
  "created": "$created", "architecture": "$arch", "os": "linux",
  "config": {
    "User": "65532:65532", "Entrypoint": ["/usr/local/bin/waybill"], "WorkingDir": "/tmp",
    "Labels": {
      "org.opencontainers.image.source": "https://github.com/waybill-go/waybill",
      "org.opencontainers.image.licenses": "Apache-2.0",
      "org.opencontainers.image.version": "$version",
      "org.opencontainers.image.revision": "$commit"
    }
  },
  "rootfs": {"type": "layers", "diff_ids": ["sha256:$unpacked"]},
  "history": [{"created": "$created", "created_by": "scripts/image.sh"}]
}
END
config=$(blob config.v1+json "$work/config.json")

echo '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":'"$config"',"layers":['"$layer"']}' \
  >"$work/manifest.json"
manifest=$(blob manifest.v1+json "$work/manifest.json")
platform='"platform":{"os":"linux","architecture":"'$arch'"},"annotations":{"org.opencontainers.image.ref.name":"'$version'"}'
echo '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":['"${manifest%\}},$platform}"']}' \
  >"$layout/index.json"
echo '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
chmod -R u=rwX,go=rX "$layout"
pack "$layout" "$out" blobs index.json oci-layout
