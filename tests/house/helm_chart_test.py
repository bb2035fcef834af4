# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""deploy/helm without helm: values that templates use exist and are used, blocks are balanced, ports and volumes are named once and
referenced, and the default settings are those that the program reads. `helm lint deploy/helm/afterimage` says more, where helm is installed."""
import pathlib
import re
import shutil
import subprocess
import tomllib
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm/afterimage"
TEMPLATES = {path.name: path.read_text() for path in sorted((CHART / "templates").iterdir())}


def value_paths():
    """`image.repository`, … of values.yaml: plain mappings of two spaces, block texts left out."""
    paths, parents, block = [], [], None
    for line in (CHART / "values.yaml").read_text().splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        depth = (len(line) - len(line.lstrip())) // 2
        if block is not None and depth > block:
            continue
        block = None
        name, _, rest = line.strip().partition(":")
        parents = parents[:depth] + [name]
        paths.append(".".join(parents))
        if rest.strip() == "|":
            block = depth
    return paths


def default_settings():
    text = (CHART / "values.yaml").read_text()
    block = re.search(r"(?m)^settings: \|\n((?:  .*\n|\n)+)", text).group(1)
    return tomllib.loads(re.sub(r"(?m)^  ", "", block))


class HelmChart(unittest.TestCase):
    def test_templates_use_values_that_exist_and_all_of_them(self):
        known = set(value_paths())
        used = set(re.findall(r"\.Values\.([A-Za-z.]+)", "\n".join(TEMPLATES.values())))
        self.assertLessEqual(used, known)
        leaves = {path for path in known if not any(other.startswith(path + ".") for other in known)}
        self.assertEqual({leaf for leaf in leaves if not any(leaf == one or leaf.startswith(one + ".") for one in used)}, set())

    def test_blocks_are_balanced(self):
        for name, text in TEMPLATES.items():
            opened = 0
            for action in re.findall(r"\{\{-?\s*(.*?)\s*-?\}\}", text, re.S):
                word = action.split()[0]
                opened += word in ("if", "with", "range", "define")
                opened -= word == "end"
                self.assertGreaterEqual(opened, 0, name)
            self.assertEqual(opened, 0, name)
            self.assertEqual(text.count("{{"), text.count("}}"), name)
            self.assertNotIn("\t", text, name)

    def test_helpers_ports_and_volumes_that_are_named_exist(self):
        everything = "\n".join(TEMPLATES.values())
        self.assertLessEqual(set(re.findall(r'include "([^"]+)"', everything)), set(re.findall(r'define "([^"]+)"', everything)))
        workload = TEMPLATES["statefulset.yaml"]
        ports = set(re.findall(r"- name: (\w+)\n\s+containerPort", workload))
        wanted = set(re.findall(r"targetPort: (\w+)", everything)) | set(re.findall(r"(?m)^\s+port: ([a-z]+)$", workload))
        self.assertLessEqual(wanted, ports)
        mounted = set(re.findall(r"- name: (\w+)\n\s+mountPath", workload))
        self.assertEqual(mounted, {"settings", "data"})
        for volume in mounted:
            self.assertRegex(workload, rf"(?m)^\s+(- )?name: {volume}$")

    def test_default_settings_are_known(self):
        sample = (ROOT / "deploy/afterimage.toml").read_text()
        known = {}
        section = ""
        for line in sample.splitlines():
            if match := re.match(r"\[(\w+)\]", line):
                section = match.group(1)
            elif match := re.match(r"(?:# )?(\w+) = ", line):
                known.setdefault(section, set()).add(match.group(1))
        for section, keys in default_settings().items():
            self.assertLessEqual(set(keys), known[section], section)

    @unittest.skipUnless(shutil.which("helm"), "helm is not installed")
    def test_helm_accepts_it(self):
        subprocess.run(["helm", "lint", "--strict", CHART], check=True)
        subprocess.run(["helm", "template", "test", CHART], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    unittest.main()
