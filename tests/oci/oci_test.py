# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""deploy/oci/oci_image.py on small folders, and that a damaged archive is found."""
import io
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from layout import BadLayout, Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "deploy/oci/oci_image.py"


class OciImage(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="afterimage-oci-")))
        system, program = self.folder / "system", self.folder / "program"
        (system / "etc").mkdir(parents=True)
        (system / "etc/os-release").write_text("ID=none\n")
        (system / "bin").symlink_to("usr/bin")
        (program / "usr/bin").mkdir(parents=True)
        (program / "usr/bin/afterimage").write_bytes(b"\x7fELF" + bytes(1000))
        (program / "usr/bin/afterimage").chmod(0o755)
        os.mkfifo(program / "pipe")
        self.folders = [system, program]

    def make(self, name="image.tar", epoch=1_700_000_000):
        out = self.folder / name
        subprocess.run([sys.executable, TOOL, out, *self.folders, "--version", "1.2.3", "--epoch", str(epoch)], check=True, capture_output=True)
        return out

    def test_every_digest_size_and_reference_holds(self):
        image = Image(self.make())
        self.assertEqual(len(image.layers), 2)
        self.assertEqual(image.config["os"], "linux")
        settings = image.config["config"]
        self.assertEqual(settings["Entrypoint"], ["/usr/bin/afterimage"])
        self.assertEqual(settings["Labels"]["org.opencontainers.image.version"], "1.2.3")
        self.assertNotIn("root", settings["User"])

    def test_files_keep_modes_and_links_and_pipes_are_left_out(self):
        out = self.folder / "unpacked"
        Image(self.make()).unpack(out)
        self.assertEqual((out / "usr/bin/afterimage").stat().st_mode & 0o777, 0o755)
        self.assertEqual(os.readlink(out / "bin"), "usr/bin")
        self.assertFalse((out / "pipe").exists())

    def test_the_same_folders_give_the_same_bytes(self):
        first = self.make("first.tar").read_bytes()
        for path in (self.folder / "system/etc/os-release", self.folder / "program/usr/bin/afterimage"):
            os.utime(path)  # built again, later
        self.assertEqual(self.make("second.tar").read_bytes(), first)
        (self.folder / "system/etc/os-release").write_text("ID=other\n")
        self.assertNotEqual(self.make("third.tar").read_bytes(), first)

    def test_damage_is_found(self):
        """Each blob with one byte changed, and each of them missing."""
        with tarfile.open(self.make()) as tar:
            members = [(info, tar.extractfile(info).read() if info.isreg() else None) for info in tar]
        blobs = [info.name for info, _ in members if info.isreg() and info.name.startswith("blobs/")]
        self.assertEqual(len(blobs), 4)
        for name in blobs:
            for change in (lambda content: content[:-1] + bytes([content[-1] ^ 1]), lambda content: None):
                damaged = self.folder / "damaged.tar"
                with tarfile.open(damaged, "w") as tar:
                    for info, content in members:
                        changed = change(content) if info.name == name else content
                        if info.isreg() and changed is None:
                            continue
                        tar.addfile(info, io.BytesIO(changed) if info.isreg() else None)
                with self.assertRaises(BadLayout):
                    Image(damaged)

    def test_it_runs_as_the_dockerfile_and_the_chart_say(self):
        settings = Image(self.make()).config["config"]
        dockerfile = (ROOT / "deploy/Dockerfile").read_text()
        self.assertIn(f"USER {settings['User']}\n", dockerfile)
        self.assertIn(f"WORKDIR {settings['WorkingDir']}\n", dockerfile)
        self.assertIn("ENTRYPOINT " + json.dumps(settings["Entrypoint"]), dockerfile)
        self.assertIn("CMD " + json.dumps(settings["Cmd"]) + "\n", dockerfile)
        self.assertIn(f"runAsUser: {settings['User'].split(':')[0]}", "".join(path.read_text() for path in (ROOT / "deploy/helm").rglob("*.yaml")))
        port = tomllib.loads((ROOT / "deploy/afterimage.toml").read_text())["listen"]["port"]
        self.assertIn(f"{port}/tcp", settings["ExposedPorts"])


if __name__ == "__main__":
    unittest.main()
