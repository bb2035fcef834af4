# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Reads an OCI image archive as a registry or a container engine does: every digest, size and reference is checked on the way."""
import gzip
import hashlib
import io
import json
import tarfile

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


class BadLayout(Exception):
    """What is wrong with the archive."""


def expect(holds, what):
    if not holds:
        raise BadLayout(what)


class Image:
    def __init__(self, path):
        with tarfile.open(path) as tar:
            names = tar.getnames()
            expect(len(names) == len(set(names)), "a name occurs twice")
            self.files = {info.name: tar.extractfile(info).read() for info in tar if info.isreg()}
        expect(json.loads(self.files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}, "oci-layout")
        for name, content in self.files.items():
            if name.startswith("blobs/"):
                expect(name == "blobs/sha256/" + hashlib.sha256(content).hexdigest(), f"the name of {name} is not its digest")
        index = json.loads(self.files["index.json"])
        expect(index["schemaVersion"] == 2 and len(index["manifests"]) == 1, "index.json")
        descriptor = index["manifests"][0]
        self.manifest = json.loads(self.blob(descriptor, MANIFEST))
        expect(self.manifest["schemaVersion"] == 2 and self.manifest["mediaType"] == MANIFEST, "the manifest")
        self.config = json.loads(self.blob(self.manifest["config"], CONFIG))
        expect(descriptor["platform"] == {key: self.config[key] for key in ("architecture", "os")}, "the platform")
        self.layers = []
        diffs = self.config["rootfs"]["diff_ids"]
        expect(self.config["rootfs"]["type"] == "layers" and len(diffs) == len(self.manifest["layers"]), "rootfs")
        for layer, diff in zip(self.manifest["layers"], diffs):
            plain = gzip.decompress(self.blob(layer, LAYER))
            expect("sha256:" + hashlib.sha256(plain).hexdigest() == diff, "a diff_id is not the digest of its layer")
            self.layers.append(plain)
        used = {descriptor["digest"], self.manifest["config"]["digest"], *(layer["digest"] for layer in self.manifest["layers"])}
        expect({"blobs/" + digest.replace(":", "/") for digest in used} == {name for name in self.files if name.startswith("blobs/")}, "blobs that nothing names")

    def blob(self, descriptor, media_type):
        expect(descriptor["mediaType"] == media_type, f"{descriptor['mediaType']} is not {media_type}")
        content = self.files.get("blobs/" + descriptor["digest"].replace(":", "/"))
        expect(content is not None, f"{descriptor['digest']} is missing")
        expect(len(content) == descriptor["size"], f"the size of {descriptor['digest']}")
        return content

    def unpack(self, folder):
        for layer in self.layers:
            with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
                tar.extractall(folder, filter="tar" if hasattr(tarfile, "tar_filter") else None)
