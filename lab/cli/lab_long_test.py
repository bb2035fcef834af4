#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""End-to-end tests of afterimage-lab that compute for a minute each: the whole ablation, killed sweeps, pressure scripts."""
import json
import os
import random
import subprocess
import time
import unittest

import lab_test
from lab_test import EXAMPLES, Folder, PROGRAM, call


class Ablation(Folder):
    def test_one_command_makes_and_runs_an_ablation(self):
        done = call("ablation", self.folder / "a", "--questions", "2000", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads(done.stdout)
        self.assertEqual(len({row["outcome"] for row in rows}), 32, "no two have the same outcome")
        self.assertIn("no two of the 32 experiments had the same outcome", done.stderr)
        self.assertTrue(all(isinstance(row["match_rate"], float) for row in rows))
        self.assertTrue((self.folder / "a" / "report.html").exists())
        again = call("ablation", self.folder / "a", "--questions", "2000")
        self.assertIn("0 experiments run, 32 skipped, 0 failed", again.stdout)


class Sweep(lab_test.SweepFolder):
    def test_the_32_runs_of_the_ablation(self):
        done = call(*self.arguments("--purge-cache-between-runs", "--report", "page.html"), cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "", "no progress in a pipe")
        self.assertIn("=== Running experiment: qwen-exact-only ===", done.stdout)
        self.assertRegex(done.stdout, r"\[done\] internvl-embed-p0.9-v0.9: prompts=\d+ hits=0 \(0.0%\) accuracy=1.000")
        self.assertIn("fusion serves nothing", done.stdout)
        rows = {row["experiment"]: row for row in self.rows()}
        self.assertEqual(list(rows), self.names)
        self.assertEqual(rows["qwen-exact-only"]["match_rate"], rows["qwen-fusion-only"]["match_rate"])
        self.assertGreater(float(rows["qwen-semantic-0.5"]["match_rate"]), float(rows["qwen-exact-only"]["match_rate"]))
        for name in self.names:
            lines = (self.folder / "samples" / f"{name}.jsonl").read_text().splitlines()
            self.assertEqual(len(lines), int(rows[name]["total_prompts"]), name)
        page = (self.folder / "page.html").read_text()
        self.assertIn("qwen-semantic-0.5", page)
        self.assertNotIn("<script", page)
        self.assertEqual(os.listdir(self.folder / "kv_chunks_ablation"), [".afterimage-cache"])
        again = call(*self.arguments("--resume"), cwd=self.folder)
        self.assertIn("[skip] Experiment 'qwen-exact-only' already logged.", again.stdout)
        self.assertIn("0 experiments run, 32 skipped, 0 failed", again.stdout)


class KilledSweep(lab_test.SweepFolder):
    def test_a_killed_sweep_resumes_without_lost_or_duplicate_rows(self):
        random.seed(os.environ.get("AFTERIMAGE_TEST_SEED", "5"))
        for _ in range(6):
            process = subprocess.Popen([PROGRAM, *map(str, self.arguments("--resume"))], cwd=self.folder, stdout=subprocess.DEVNULL)
            time.sleep(random.uniform(0.05, 1.2))
            process.kill()
            process.wait()
            for row in self.rows() if (self.folder / "log.csv").exists() else []:
                if row["data_hash"] is not None and len(row["data_hash"]) == 64:
                    self.assertTrue((self.folder / "samples" / f"{row['experiment']}.jsonl").exists())
        done = call(*self.arguments("--resume"), cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([row["experiment"] for row in self.rows()], self.names)
        for row in self.rows():
            lines = (self.folder / "samples" / f"{row['experiment']}.jsonl").read_text().splitlines()
            self.assertEqual(len([json.loads(line) for line in lines]), int(row["total_prompts"]))


class PressureScripts(Folder):
    def test_the_governor_meets_the_example_scripts_and_the_seed_fails(self):
        seeds = {}
        for script in sorted((EXAMPLES / "pressure").glob("*.txt")):
            done = call("pressure", "--script", script, "--json")
            self.assertEqual(done.returncode, 0, f"{script.name}\n{done.stdout}{done.stderr}")
            report = json.loads(done.stdout)
            self.assertTrue(report["fine"] and report["expectations"], script.name)
            self.assertEqual((report["governor"]["oom"], report["governor"]["violations"]), (0, 0), script.name)
            self.assertTrue(report["governor"]["admission_open"], script.name)
            seeds[script.stem] = report["seed"]
        self.assertGreater(seeds["bursts"]["oom"], 0)
        self.assertGreater(seeds["hover"]["transitions"], 20, "flaps")
        self.assertEqual(seeds["hog"]["entries"], 0, "everything evicted under steady pressure")
        self.assertFalse(seeds["sticky"]["admission_open"], "admission stays closed")


if __name__ == "__main__":
    unittest.main()
