# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Fetches packages of the Python index that pip is configured for, each checked against its hash."""
import pathlib
import subprocess
import sys


def fetch(hashes, folder):
    """`hashes`: SHA-256 by "name==version". Returns the wheels, by name; ends the program if one cannot be had."""
    requirements = folder / "requirements.txt"
    requirements.write_text("".join(f"{package} --hash=sha256:{sha}\n" for package, sha in hashes.items()))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "-q", "--no-deps", "--require-hashes",
           "-r", requirements, "-d", folder]
    if subprocess.run(pip).returncode != 0:
        sys.exit(f"{pathlib.Path(sys.argv[0]).name}: pip could not fetch the package; see its error above. Is the index reachable (pip config list)?")
    return sorted(folder.glob("*.whl"))
