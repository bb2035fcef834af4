#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Writes an OCI image archive of folders, without a container engine: each folder becomes a layer, in order.

    deploy/oci/oci_image.py OUT.tar FOLDER [FOLDER …] [--version 0.1.0] [--epoch SECONDS]

The same folders give the same bytes: names are sorted, times are not later than --epoch, and blobs are compressed alike. `skopeo copy
oci-archive:OUT.tar docker://registry/afterimage`, `podman load -i OUT.tar` and `ctr images import OUT.tar` read it."""
from __future__ import annotations

import argparse
import datetime
import gzip
import hashlib
import io
import json
import os
import pathlib
import platform
import sys
import tarfile

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
USER = 10001  # as in deploy/Dockerfile and the Helm chart
SETTINGS = {
    "User": f"{USER}:{USER}",
    "ExposedPorts": {"8080/tcp": {}, "8081/tcp": {}},
    "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
    "Entrypoint": ["/usr/bin/afterimage"],
    "Cmd": ["serve", "--config", "/etc/afterimage/afterimage.toml"],
    "Volumes": {"/var/lib/afterimage": {}},
    "WorkingDir": "/var/lib/afterimage",
    "StopSignal": "SIGTERM",
}
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


def layer_of(folder: pathlib.Path, epoch: int) -> tuple[bytes, str]:
    """(the compressed layer, the digest of the layer before that). Sockets and devices are left out."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(folder.rglob("*"), key=lambda one: one.relative_to(folder).parts):
            info = tar.gettarinfo(path, str(path.relative_to(folder)))
            if info is None or not (info.isreg() or info.isdir() or info.issym() or info.islnk()):
                continue
            info.mtime, info.uname, info.gname = min(int(info.mtime), epoch), "", ""
            if info.isreg():
                with path.open("rb") as content:
                    tar.addfile(info, content)
            else:
                tar.addfile(info)
    raw = plain.getvalue()
    return gzip.compress(raw, 6, mtime=0), "sha256:" + hashlib.sha256(raw).hexdigest()


class Blobs:
    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}

    def add(self, content: bytes, media_type: str, **more: object) -> dict[str, object]:
        """Its descriptor."""
        digest = hashlib.sha256(content).hexdigest()
        self.content[f"blobs/sha256/{digest}"] = content
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content), **more}


def as_json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def image(folders: list[pathlib.Path], version: str, epoch: int) -> dict[str, bytes]:
    """The files of the layout by name."""
    created = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    labels = {"org.opencontainers.image.title": "afterimage", "org.opencontainers.image.version": version,
              "org.opencontainers.image.licenses": "Apache-2.0", "org.opencontainers.image.created": created,
              "org.opencontainers.image.description": "Reuse engine for multimodal LLM serving"}
    blobs, layers, diffs = Blobs(), [], []
    for folder in folders:
        content, diff = layer_of(folder, epoch)
        layers.append(blobs.add(content, LAYER))
        diffs.append(diff)
    system = {"architecture": ARCHITECTURES[platform.machine()], "os": "linux"}
    config = blobs.add(as_json({**system, "created": created, "config": {**SETTINGS, "Labels": labels},
                                "rootfs": {"type": "layers", "diff_ids": diffs},
                                "history": [{"created": created, "created_by": f"deploy/oci/build.sh: {folder.name}"} for folder in folders]}),
                       "application/vnd.oci.image.config.v1+json")
    kind = "application/vnd.oci.image.manifest.v1+json"
    manifest = blobs.add(as_json({"schemaVersion": 2, "mediaType": kind, "config": config, "layers": layers, "annotations": labels}), kind,
                         platform=system, annotations={"org.opencontainers.image.ref.name": version,
                                                       "io.containerd.image.name": f"docker.io/library/afterimage:{version}"})
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [manifest]}
    return {"oci-layout": as_json({"imageLayoutVersion": "1.0.0"}), "index.json": as_json(index), **blobs.content}


def write(files: dict[str, bytes], out: pathlib.Path) -> None:
    with tarfile.open(out, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name in ("blobs", "blobs/sha256"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(folder)
        for name, content in sorted(files.items()):
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o644
            tar.addfile(info, io.BytesIO(content))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("folders", type=pathlib.Path, nargs="+")
    parser.add_argument("--version", default="latest")
    parser.add_argument("--epoch", type=int, default=int(os.environ.get("SOURCE_DATE_EPOCH", "0")))
    arguments = parser.parse_args()
    for folder in arguments.folders:
        if not folder.is_dir():
            print(f"oci_image.py: there is no folder {folder}", file=sys.stderr)
            return 2
    write(image(arguments.folders, arguments.version, arguments.epoch), arguments.out)
    print(f"{arguments.out}: {arguments.out.stat().st_size / 1e6:.1f} MB, {len(arguments.folders)} layers")
    return 0


if __name__ == "__main__":
    sys.exit(main())
