#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""End-to-end tests of afterimage-lab: help texts, every verb, and usage errors."""
import csv
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "cli"))
from program import EXAMPLES, Folder, PROGRAM, SOURCE, call  # noqa: E402

HELP = pathlib.Path(__file__).resolve().parent / "help"


class Help(unittest.TestCase):
    def test_help_texts_match_the_snapshots(self):
        for verb in ["", "experiment", "sweep", "ablation", "pairs", "simulate", "pressure", "certify"]:
            shown = call(*verb.split(), "--help")
            self.assertEqual(shown.returncode, 0)
            golden = HELP / f"{verb or 'afterimage-lab'}.txt"
            self.assertEqual(shown.stdout, golden.read_text(), f"if the change is intended: make docs ({golden.name})")

    def test_its_name_is_in_its_version_and_errors(self):
        self.assertEqual(call("--version").stdout, "afterimage-lab 0.1.0\n")
        for arguments in [["walk"], ["sweep", "--specs", "no/such.json"], ["certify", "--workload", "no/such.jsonl"]]:
            done = call(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertTrue(done.stderr.startswith("afterimage-lab"), done.stderr)


class SimulateSettings(Folder):
    def test_printed_settings_round_trip_and_flags_override_them(self):
        with tempfile.TemporaryDirectory() as name:
            file = pathlib.Path(name) / "cluster.toml"
            file.write_text(call("simulate", "--print-config").stdout)
            printed = call("simulate", "--config", str(file), "--print-config").stdout  # sizes as bytes
            file.write_text(printed)
            self.assertEqual(call("simulate", "--config", str(file), "--print-config").stdout, printed)
            small = ["--config", str(file), "--nodes", "2", "--requests", "300", "--disk-read", "3000000000"]
            self.assertEqual(call("simulate", *small).stdout, call("simulate", *small[2:]).stdout)
            file.write_text("[node]\nengines = -1\n[traffic]\nrequests = 300\n")
            refused = call("simulate", "--config", str(file))
            self.assertEqual(refused.returncode, 2)
            self.assertIn("cluster.toml:2: node.engines: ", refused.stderr)

    def settings(self, text, *more):
        """The printed settings for a settings file and flags, by key; and the completed process."""
        with tempfile.TemporaryDirectory() as name:
            file = pathlib.Path(name) / "cluster.toml"
            file.write_text(text)
            done = call("simulate", "--config", str(file), *more, "--print-config")
        return {line.split(" = ")[0]: line.split(" = ")[1] for line in done.stdout.splitlines() if " = " in line}, done

    def test_flags_lists_and_unset_settings(self):
        for text, more, always, leases in [("", [], "false", "false"),
                                           ("[node]\nload_always = true\n", [], "true", "false"),
                                           ("[node]\nload_always = false\n", [], "false", "false"),
                                           ("[node]\nload_always = false\n", ["--load-always"], "true", "false"),
                                           ("[node]\nload_always = true\n", ["--load-always=false"], "false", "false"),
                                           ("[node]\nload_always = 1\n", ["--no-leases=true"], "true", "true"),
                                           ("[node]\nload_always = true\n[remote]\nno_leases = true\n", [], "true", "true")]:
            with self.subTest(text=text, more=more):
                shown, _ = self.settings(text, *more)
                self.assertEqual((shown["load_always"], shown["no_leases"]), (always, leases))
        shown, _ = self.settings("[cluster]\nnodes = [3, 4]\npolicy = 'lru'\n[traffic]\nskew = 0.5\n[remote]\nlose_shard = 60\n")
        self.assertEqual((shown["nodes"], shown["policy"], shown["skew"], shown["lose_shard"]), ("[3, 4]", '["lru"]', "0.5", "60"))
        self.assertEqual(shown["# add_shard"], "…")
        shown, _ = self.settings("[cluster]\nnodes = [3, 4]\n", "--nodes", "5,6")
        self.assertEqual(shown["nodes"], "[5, 6]")

    def test_all_problems_of_a_settings_file_are_reported(self):
        for text, said in [("[node]\nengines = -1\n[traffic]\nturns = 'x'\n", ["2: node.engines: ", "4: traffic.turns: "]),
                           ("[cluster]\nnodes = 'many'\n", ["2: cluster.nodes: "]),
                           ("[traffic]\nrequests = [1, 2]\n", ["2: traffic.requests: "]),
                           ("[node]\nload_always = 'maybe'\n", ["2: node.load_always: "]),
                           ("[node]\nload-always = true\n", ["2: node.load-always: unknown key"]),
                           ("jobs = 1\n", ["1: jobs: unknown section; the sections are cluster node remote traffic"])]:
            with self.subTest(text=text):
                _, done = self.settings(text)
                self.assertEqual(done.returncode, 2, done.stdout)
                for one in said:
                    self.assertIn("cluster.toml:" + one, done.stderr)


class Experiment(unittest.TestCase):
    def test_no_trap_among_generated_questions_is_served(self):
        done = call("experiment", "--questions", "2000", "--seed", "5", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual((report["questions"], report["unsafe"]), (2000, 0))
        self.assertGreater(sum(trap["asked"] for trap in report["traps"]), 200)
        self.assertEqual([trap for trap in report["traps"] if trap["served"]], [])
        self.assertTrue(all(level["served"] > 0 and level["wrong"] == 0 for level in report["match_levels"]))
        exact = json.loads(call("experiment", "--questions", "2000", "--serve", "exact", "--json").stdout)
        self.assertEqual([level["served"] > 0 for level in exact["match_levels"]], [True, False, False])


class GqaExperiment(Folder):
    """experiment on data sets in files, and on the six synthetic questions."""

    @classmethod
    def setUpClass(cls):
        cls.data = pathlib.Path(tempfile.mkdtemp(prefix="afterimage-gqa-"))
        cls.addClassCleanup(shutil.rmtree, cls.data)
        done = call("experiment", "--write-gqa", cls.data, "--questions", "1000")
        assert done.returncode == 0, done.stderr

    def test_the_synthetic_set_prints_the_original_summary(self):
        done = call("experiment", "--preset", "internvl3.5-2b", "--dataset", "synthetic", "--cache-mode", "live")
        self.assertEqual(done.returncode, 0, done.stderr)
        line = re.compile(r"\[synthetic-embedding-2\] hit \(embedding:prompt\) \| latency=\d+\.\d{3}s \| answer match=True")
        self.assertRegex(done.stdout, line)
        for said in ["Loaded 6 prompts from synthetic.", "Chunk-key uniqueness: 5 unique keys / 6 prompts (20.0% reused >=2x)",
                     "Cache hits: 3 (50.0%)", "Answer match rate: 100.0% (n=6)", "  text:exact: 1 (16.7%)", "  text: 1 (16.7%)",
                     "  exact_text: hit=1 miss=5 skip=0", "is not run", "expects: 3 of 3"]:
            self.assertIn(said, done.stdout)
        self.assertEqual(done.stderr, "")

    def test_a_cache_folder_is_kept_for_the_next_run(self):
        kept = self.folder / "kept"
        command = ["experiment", "--dataset", "gqa", "--data", self.data, "--max-samples", "20", "--cache-mode", "live", "--cache-dir", kept]
        first = call(*command)
        self.assertIn("the caches start empty", first.stdout)
        again = call(*command)
        self.assertRegex(again.stdout, r"the caches start with \d+ answers, \d+ questions with vectors")
        self.assertIn("Cache hits: 20 (100.0%)", again.stdout)
        content = bytearray((kept / "experiment.cache").read_bytes())
        content[len(content) // 2] ^= 1
        (kept / "experiment.cache").write_bytes(content)
        damaged = call(*command)
        self.assertEqual(damaged.returncode, first.returncode, damaged.stderr)
        self.assertIn("is not used, and will be replaced", damaged.stderr)
        self.assertIn("the caches start empty", damaged.stdout)
        self.assertIn("the caches start with", call(*command).stdout)

    def test_a_written_gqa_data_set_runs_with_its_images(self):
        table, lines, summary = (self.folder / name for name in ["t.csv", "s.jsonl", "all.csv"])
        for _ in range(2):
            done = call("experiment", "--dataset", "gqa", "--data", self.data, "--max-samples", "100", "--cache-mode", "live",
                        "--disable-semantic-cache", "--log-csv", table, "--samples-jsonl", lines, "--summary-log", summary)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Images attached: 100 of 100", done.stdout)
        self.assertIn("Served wrong: 0 of ", done.stdout)
        rows = list(csv.DictReader(table.read_text().splitlines(keepends=True)))
        self.assertEqual(len(rows), 100)
        self.assertEqual(list(rows[0])[:13], ["dataset_id", "image_id", "question", "prompt", "chunk_text", "response", "reference",
                                              "is_correct", "latency_seconds", "cache_hit", "cache_source", "techniques_json", "metadata_json"])
        samples = [json.loads(line) for line in lines.read_text().splitlines()]
        self.assertEqual([row["cache_hit"] == "True" for row in rows], [sample["hit"] for sample in samples])
        self.assertGreater(sum(sample["hit"] for sample in samples), 5)
        self.assertTrue(all(sample["is_correct"] for sample in samples))
        both = list(csv.DictReader(summary.read_text().splitlines(keepends=True)))
        self.assertEqual(len(both), 2)
        self.assertEqual(both[0]["data_hash"], both[1]["data_hash"])
        self.assertRegex(both[0]["timestamp"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")

    def test_a_run_that_was_killed_continues(self):
        samples = 48  # take some seconds: what is known is written once a second
        lines = self.folder / "s.jsonl"
        command = ["experiment", "--dataset", "gqa", "--data", self.data, "--max-samples", samples, "--engine", "reference",
                   "--max-tokens", "2", "--samples-jsonl", lines, "--log-csv", self.folder / "t.csv"]  # fmt: skip
        whole = call(*command)
        expected = [json.loads(line) for line in lines.read_text().splitlines()]
        self.assertEqual(len(expected), samples, whole.stderr)
        self.assertIn('"model": "reference"', json.dumps(json.loads(call(*command, "--json").stdout)), "not a model that did not answer")
        kept = samples
        for _ in range(20):  # on a busy machine it may end before it is killed
            lines.unlink()
            running = subprocess.Popen([PROGRAM, *map(str, command)], stdout=subprocess.DEVNULL)
            while running.poll() is None and (not lines.exists() or lines.read_text().count("\n") < 2):
                time.sleep(0.01)
            running.kill()
            running.wait()
            kept = lines.read_text().count("\n")
            if kept < samples:
                break
        self.assertLess(kept, samples, "it always ended before it could be killed")
        done = call(*command, "--resume")
        self.assertIn(f"[info] {kept} of {samples} samples were recorded by the run that was stopped", done.stdout)
        self.assertNotIn(f"| {kept}/{samples} |", done.stdout, "not asked again")
        self.assertIn(f"| {kept + 1}/{samples} |", done.stdout)
        again = [json.loads(line) for line in lines.read_text().splitlines()]
        for line in [*expected, *again]:
            line.pop("latency")
            line["techniques"].pop("kv_cache")  # the engine's own cache starts empty again
        self.assertEqual(expected, again)
        self.assertEqual(len(list(csv.DictReader((self.folder / "t.csv").open(newline="")))), samples)
        other = call(*command, "--resume", "--temperature", "0.5")
        self.assertEqual(other.returncode, 2)
        self.assertIn("other settings", other.stderr)

    def test_served_wrong_answers_exit_1(self):
        done = call("experiment", "--dataset", "gqa", "--data", self.data, "--chunk-source", "image", "--cache-mode", "live", "--json")
        self.assertEqual(done.returncode, 1, done.stderr)
        report = json.loads(done.stdout)
        self.assertGreater(report["wrong_served"], 0)
        self.assertEqual(report["served"], report["cache_hits"])

    def test_flags_override_the_preset_even_with_the_default(self):
        done = call("experiment", "--dataset", "synthetic", "--preset", "qwen3-vl-2b", "--embedding-hook", "none", "--json",
                    "--prompt-template", "<image>\nOne line\n{question}")
        report = json.loads(done.stdout)
        self.assertEqual(report["embedding_hook"], "none")
        self.assertEqual(report["prompt_template"], "<image>\\nOne line\\n{question}")
        self.assertEqual(report["embedding_layers"], ["prompt:384:0.82", "vision:512:0.85"])
        self.assertEqual((report["cache_hit_rate"], report["vetoes"], report["avg_latency_hit"]), (0, True, None), "numbers, not text")

    def test_the_original_command_lines_run_unchanged(self):
        """Those of its README, but for the program's name."""
        commands = {
            "--model facebook/opt-125m --max-samples 64 --chunk-source semantic": 64,
            "--model Qwen/Qwen2.5-VL-7B-Instruct --max-samples 128 --chunk-source group --embedding-layer prompt:384:0.8 "
            "--embedding-layer vision:512:0.82 --embedding-hook prompt_vision": 128,
            "--preset internvl3.5-2b --dataset gqa --max-samples 64 --cache-mode dry-run": 64,
        }
        for command, samples in commands.items():
            for root in (self.data / "images", f"{self.data}/images/", self.data):
                done = self.with_roots("experiment", *command.split(), GQA_IMAGE_ROOT=root)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(f"Loaded {samples} prompts from gqa ({self.data}", done.stdout)
                self.assertIn(f"Images attached: {samples} of {samples}", done.stdout)

    def test_the_original_file_of_experiments_runs_unchanged(self):
        specs = EXAMPLES / "experiments" / "readme.json"
        command = ["sweep", "--specs", specs, "--log-file", self.folder / "sweep_logs.csv", "--samples-dir", self.folder / "sweep_samples"]
        self.assertIn("GQA_IMAGE_ROOT", self.with_roots(*command).stdout, "what is missing")
        done = self.with_roots(*command, "--resume", GQA_IMAGE_ROOT=self.data / "images")
        self.assertEqual(done.returncode, 0, done.stderr)
        with (self.folder / "sweep_logs.csv").open(newline="") as file:
            seen = {row["experiment"]: (row["total_prompts"], row["model"]) for row in csv.DictReader(file)}
        self.assertEqual(seen, {"opt125m-semantic": ("128", "facebook/opt-125m"), "qwen-prompts": ("64", "Qwen/Qwen2.5-VL-7B-Instruct"),
                                "internvl35-2b": ("64", "OpenGVLab/InternVL3_5-2B-Instruct")})  # fmt: skip
        self.assertEqual(len(list((self.folder / "sweep_samples").iterdir())), 3)

    def test_data_is_never_ignored(self):
        self.assertIn("Loaded 8 prompts from gqa", call("experiment", "--data", self.data, "--max-samples", "8").stdout)
        for dataset in ("generated", "synthetic"):
            done = call("experiment", "--dataset", dataset, "--data", self.data)
            self.assertEqual(done.returncode, 2)
            self.assertIn("leave one of them out", done.stderr)

    def with_roots(self, *arguments, **roots):
        clean = {name: value for name, value in os.environ.items() if not name.endswith("_IMAGE_ROOT")}
        return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=240,
                              env={**clean, **{name: str(value) for name, value in roots.items()}})

    def test_image_roots_come_from_the_environment(self):
        records = self.folder / "val_balanced_questions.json"
        shutil.copy(self.data / "val_balanced_questions.json", records)
        arguments = ["experiment", "--dataset", "gqa", "--data", records, "--max-samples", "20"]
        self.assertIn("Images attached: 0 of 20", call(*arguments).stdout)
        for name in ["SEMANTIC_CACHE_IMAGE_ROOT", "GQA_IMAGE_ROOT", "LLAVA_IMAGE_ROOT"]:
            done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=240,
                                  env={**os.environ, name: str(self.data / "images")})
            self.assertIn("Images attached: 20 of 20", done.stdout, name)

    def test_usage_errors_exit_2_and_say_why(self):
        for arguments, said in [(["--dataset", "gqa"], "--data"), (["--dataset", "gqa", "--data", "no/such.json"], "no/such.json"),
                                (["--dataset", "gqa", "--data", self.folder], "val_balanced_questions.json"),
                                (["--dataset", "synthetic", "--embedding-layer", "prompt"], "NAME:DIMENSIONS"),
                                (["--dataset", "synthetic", "--embedding-layer", "prompt:4", "--embedding-hook", "prompt"], "prompt"),
                                (["--dataset", "synthetic", "--embedding-hook", "clip"], "clip"),
                                (["--dataset", "synthetic", "--prompt-template", "<image>"], "{question}"),
                                (["--dataset", "gqa", "--data", self.data, "--split", "val[9]"], "val[9]"),
                                (["--dataset", "llava150k", "--llava-data-url", "https://x/y.json"], "nothing is fetched")]:
            done = call("experiment", *arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(said, done.stderr, arguments)


class SweepFolder(Folder):
    """A data set, and the 32 experiments of the ablation."""

    def setUp(self):
        super().setUp()
        self.data = self.folder / "gqa"
        done = call("experiment", "--write-gqa", self.data, "--questions", "300")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.specs = SOURCE / "examples" / "experiments" / "ablation.json"
        self.names = [one["name"] for one in json.loads(self.specs.read_text())["experiments"]]

    def arguments(self, *more):
        return ["sweep", "--specs", self.specs, "--data", self.data, "--log-file", "log.csv", "--samples-dir", "samples", *more]

    def rows(self):
        with open(self.folder / "log.csv", newline="") as file:
            return list(csv.DictReader(file))


class Sweep(SweepFolder):
    def test_a_python_hook_makes_the_layers(self):
        (self.folder / "hooks").mkdir()
        self.write("hooks/mine.py", b"""
def letters():
    def hook(sample):
        print("said by the hook")
        if sample["dataset_id"] == "broken":
            raise ValueError("this sample is broken")
        counts = [sample["question"].count(chr(97 + i)) for i in range(26)]
        return {"letters": counts, "fusion": counts + [len(sample["image"] or b"") / 1000]}
    return hook
""")
        command = ["experiment", "--dataset", "gqa", "--data", self.data, "--disable-exact-cache", "--disable-semantic-cache",
                   "--no-vetoes", "--chunk-source", "question"]  # fmt: skip
        done = call(*command, "--embedding-layer", "letters:26:0.99", "--embedding-layer", "fusion:27:0.9", "--embedding-hook",
                    "hooks.mine:letters", "--json", cwd=self.folder)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("said by the hook", done.stderr, "and not among the answers")
        self.assertGreater(json.loads(done.stdout)["match_rate"], 0.05)
        for hook, said in [("hooks.mine:numbers", "numbers"), ("hooks.yours:letters", "hooks.yours")]:
            wrong = call(*command, "--embedding-layer", "letters:26", "--embedding-hook", hook, cwd=self.folder)
            self.assertEqual(wrong.returncode, 2)
            self.assertIn(said, wrong.stderr)
            self.assertIn("Python says above why", wrong.stderr)
        other = call(*command, "--embedding-layer", "letters:25", "--embedding-hook", "hooks.mine:letters", cwd=self.folder)
        self.assertIn("the hook made 26 dimensions and not 25", other.stdout)

    def test_layers_are_an_engines_own_states(self):
        def run(vision):
            rows = [
                {"name": "vision", "embedding_layers": [vision], "embedding_hook": "engine"},
                {"name": "fusion", "enable_fusion_cache": True, "similarity_threshold": -1},
                {"name": "again", "enable_fusion_cache": True, "similarity_threshold": -1},
            ]
            defaults = {"model": "m", "engine": "reference", "max_samples": 5, "max_tokens": 2, "images": "similar", "vetoes": False,
                        "enable_semantic_text_cache": False, "enable_exact_text_cache": False}  # fmt: skip
            self.write("states.json", json.dumps({"defaults": defaults, "experiments": rows}).encode())
            log = self.folder / "states.csv"
            log.unlink(missing_ok=True)
            return call("sweep", "--specs", self.folder / "states.json", "--data", self.data, "--log-file", log), log

        wrong, _ = run("vision:7:0.9")
        self.assertEqual(wrong.returncode, 1)
        dimensions = re.search(r"write vision:(\d+)", wrong.stdout)[1]
        done, log = run(f"vision:{dimensions}:-1")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("the same outcome: fusion = again\n", done.stdout)
        with log.open(newline="") as file:
            rows = {row["experiment"]: row for row in csv.DictReader(file)}
        self.assertIn("embedding:vision", rows["vision"]["match_breakdown"])
        self.assertIn("fusion", rows["fusion"]["match_breakdown"])
        self.assertGreater(int(rows["vision"]["wrong_matched"]), 0, "answers about other images are wrong")

    def test_a_torn_row_is_truncated(self):
        log = self.folder / "log.csv"
        one = self.folder / "one.json"
        one.write_text(json.dumps([{"name": "a", "model": "m", "max_samples": 5}]))
        arguments = ["sweep", "--specs", one, "--data", self.data, "--log-file", log]
        self.assertEqual(call(*arguments).returncode, 0)
        whole = log.read_bytes()
        log.write_bytes(whole[:-7])
        done = call(*arguments, "--resume")
        self.assertIn("1 experiments run", done.stdout)
        self.assertEqual(len(self.rows()), 1)

    def test_usage_errors_exit_2_and_run_nothing(self):
        (self.folder / "log.csv").write_text("some,other,columns\r\n")
        done = call(*self.arguments(), cwd=self.folder)
        self.assertEqual(done.returncode, 2)
        self.assertIn("column 1", done.stderr)
        self.assertFalse((self.folder / "samples").exists())
        self.write("bad.json", b'[{"name": "a", "model": "m", "treshold": 1}]')
        done = call("sweep", "--specs", self.folder / "bad.json")
        self.assertEqual(done.returncode, 2)
        self.assertIn("treshold", done.stderr)

    def test_an_unmarked_folder_is_not_purged(self):
        theirs = self.folder / "theirs"
        theirs.mkdir()
        (theirs / "thesis.txt").write_text("years of work")
        self.write("one.json", json.dumps([{"name": "a", "model": "m", "max_samples": 5, "cache_dir": str(theirs), "fusion_cache_dir": "/"}]).encode())
        done = call("sweep", "--specs", self.folder / "one.json", "--data", self.data, "--purge-cache-between-runs", cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("has no marker file", done.stdout)
        self.assertIn("'/' cannot be a cache folder", done.stdout)
        self.assertEqual((theirs / "thesis.txt").read_text(), "years of work")


class Pairs(Folder):
    def test_precision_and_coverage_of_labelled_pairs(self):
        path = self.folder / "pairs.jsonl"
        path.write_text('{"a": "What is  a cat?", "b": "what is a cat", "duplicate": true}\n'
                        '{"a": "Where can I buy lamps?", "b": "Where can I buy lamp?", "duplicate": false}\n'
                        '{"a": "Is this a dog?", "b": "Is this not a dog?", "duplicate": false}\n')
        done = call("pairs", path, "--json")
        self.assertEqual(done.returncode, 0)
        report = json.loads(done.stdout)
        self.assertEqual([level["matched"] for level in report["match_levels"]], [0, 1, 1])
        self.assertAlmostEqual(report["safe"]["precision"], 0.5)
        self.assertAlmostEqual(report["safe"]["coverage"], 2 / 3)
        self.assertIn("Where can I buy lamp?", call("pairs", path, "--show", "5").stdout)

    def test_a_verifier_reads_similar_pairs_only(self):
        asked = []

        class Rerank(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                asked.append(body)
                town = lambda text: text.rstrip("?").split()[-1]
                scores = [4.5 if town(text) == town(body["query"]) else -4.5 for text in body["documents"]]
                said = json.dumps({"results": [{"index": i, "relevance_score": score} for i, score in enumerate(scores)]}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, *_):
                pass

        path = self.folder / "pairs.jsonl"
        lines = [("Who is the mayor of Riga?", "Who is mayor now of Riga?", True), ("Who is the mayor of Riga?", "Who is the mayor of Oulu?", False),
                 ("Who is the mayor of Riga?", "who is the mayor of  Riga", True), ("Who is the mayor of Riga?", "What do cats eat at night?", False)]
        path.write_text("".join(json.dumps({"a": a, "b": b, "duplicate": duplicate}) + "\n" for a, b, duplicate in lines))
        with http.server.HTTPServer(("127.0.0.1", 0), Rerank) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            url = f"http://127.0.0.1:{server.server_port}/v1/rerank"
            done = call("pairs", path, "--verifier", url, "--verifier-model", "m", "--verifier-threshold", "0", "--json")
            table = call("pairs", path, "--verifier", url, "--verifier-threshold=-9")
            server.shutdown()
        self.assertEqual(done.returncode, 0, done.stderr)
        (curve,) = json.loads(done.stdout)["curves"]
        self.assertEqual((curve["verified_at"]["matched"], curve["verified_at"]["duplicates"]), (2, 2))
        self.assertEqual(asked[0], {"model": "m", "query": lines[0][1], "documents": [lines[0][0]], "top_n": 1})
        self.assertNotIn(lines[3][1], [body["query"] for body in asked], "not similar")
        self.assertIn("verified (95 %)", table.stdout)
        self.assertEqual(call("pairs", path, "--verifier", "http://127.0.0.1:1/v1/rerank").returncode, 1)

    def test_invalid_pairs_are_reported(self):
        path = self.folder / "pairs.jsonl"
        path.write_text('{"a": "x", "b": "y", "duplicate": true}\n{"a": "x"}\n')
        done = call("pairs", path)
        self.assertEqual(done.returncode, 1)
        self.assertIn("line 2", done.stdout)
        path.write_text("nothing\n")
        done = call("pairs", path)
        self.assertEqual(done.returncode, 2)
        self.assertIn('"duplicate": true}', done.stderr)
        self.assertEqual(call("pairs", self.folder / "gone").returncode, 2)


class Pressure(Folder):
    def script(self, text):
        self.write("s.txt", text.encode())
        return self.folder / "s.txt"

    def test_a_missed_expectation_exits_1(self):
        done = call("pressure", "--script", self.script("run 1s\nexpect entries >= 1000000\n"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("NOT MET  expect entries >= 1000000", done.stdout)

    def test_invalid_scripts_exit_2_with_the_line(self):
        for text, said in [("run 1s\nmemory lots", "line 2"), ("governor cap 0B", "the cap is 0")]:
            done = call("pressure", "--script", self.script(text))
            self.assertEqual(done.returncode, 2)
            self.assertIn(said, done.stderr)
            self.assertEqual(done.stdout, "")
        self.assertEqual(call("pressure", "--script", self.folder / "gone.txt").returncode, 2)


if __name__ == "__main__":
    unittest.main()
