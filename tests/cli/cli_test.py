#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""End-to-end tests of the program: help texts, every verb, and usage errors."""
import fcntl
import gzip
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "golden"))
import disk_segments  # noqa: E402
from program import EXAMPLES, Folder, PROGRAM, SOURCE, TEXT, audio, call, image, png, request  # noqa: E402


class Help(unittest.TestCase):
    def test_help_texts_match_the_snapshots(self):
        for verb in ["", "run", "serve", "bench", "doctor", "explain", "replay", "advise", "fingerprint",
                     "disk", "disk inspect", "disk verify", "disk purge", "admin", "admin stats", "admin media", "admin explain", "admin invalidate", "admin erase", "admin wrong",
                     "admin keys", "admin keys list", "admin keys make", "admin keys rotate", "admin keys disable", "admin keys enable", "admin keys budgets",
                     "admin reload", "admin drain"]:
            shown = call(*verb.split(), "--help")
            self.assertEqual(shown.returncode, 0)
            golden = SOURCE / "tests" / "cli" / "help" / f"{verb.replace(' ', '_') or 'afterimage'}.txt"
            self.assertEqual(shown.stdout, golden.read_text(), f"if the change is intended: make docs ({golden.name})")

    def test_version(self):
        shown = call("--version")
        self.assertEqual((shown.returncode, shown.stdout), (0, "afterimage 0.1.0\n"))

    def test_usage_errors_exit_2_and_say_why(self):
        for arguments, said in [([], "subcommand"), (["walk"], "walk"), (["run"], "--workload"),
                                (["explain", "--workload", "w"], "--request"),
                                (["run", "--workload", "w", "--size", "huge"], "huge"),
                                (["run", "--workload", "w", "--budget", "lots"], "lots"),
                                (["run", "--workload", "w", "--governor", "no/such/group"], "no/such/group"),
                                (["run", "--workload", "no/such/file.jsonl"], "no/such/file.jsonl"),
                                (["run", "--workload", "w", "--max-tokens", "0"], "max-tokens")]:
            done = call(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(said, done.stderr + done.stdout, arguments)

    def test_verbs_of_the_lab_name_its_program(self):
        for verb in ["experiment", "sweep", "pairs", "simulate", "pressure", "certify"]:
            done = call(verb, "--json")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", f"afterimage: this is `afterimage-lab {verb}` now\n"))


class MainJob(unittest.TestCase):
    def test_the_example_workload_encodes_each_item_once_and_answers_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "out.json"
            done = call("run", "--size", "tiny", "--max-tokens", "2", "--workload", EXAMPLES / "agents.jsonl", "--json", out)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("outputs identical: yes", done.stdout)
            self.assertEqual(done.stderr, "", "no progress in a pipe")
            report = json.loads(out.read_text())
        lines = [json.loads(line) for line in (EXAMPLES / "agents.jsonl").read_text().splitlines()]
        parts = [part for line in lines for message in line["messages"] if isinstance(message["content"], list)
                 for part in message["content"] if part["type"] != "text"]
        names = {json.dumps(part, sort_keys=True) for part in parts}
        self.assertEqual(report["requests"], len(lines))
        self.assertEqual(report["media_items"], len(parts))
        self.assertEqual(report["distinct_media"], len(names))
        # The first video is also encoded as a whole, which shows that its parts are exact.
        self.assertEqual(report["encoder_calls"], {"cold": len(parts), "encode_once": len(names) + 1, "warm": len(names) + 1})
        for answer in report["per_request"]:
            if not answer["id"].endswith("-1"):
                self.assertGreater(answer["resumed_from"], 0, f"{answer['id']} continues a conversation")
        self.assertIs(report["outputs_identical"], True)
        for run in ["cold", "warm"]:
            self.assertGreater(report["ttft_ms"][run]["p50"], 0)
            self.assertGreaterEqual(report["ttft_ms"][run]["p99"], report["ttft_ms"][run]["p50"])
        self.assertEqual(set(report["cache"]["seed_names"]), {
            "visual_cache_hits", "visual_cache_misses", "visual_cache_hit_rate",
            "visual_vram_saved_bytes", "visual_cache_entries"})

    def test_fingerprint_equals_sha256(self):
        for name in ["mug.jpg", "bar_chart.png", "clock.webp", "jingle.wav"]:
            file = EXAMPLES / "media" / name
            done = call("fingerprint", "--json", file)
            self.assertEqual(done.returncode, 0, done.stderr)
            shown = json.loads(done.stdout)[0]
            self.assertEqual(shown["sha256"], hashlib.sha256(file.read_bytes()).hexdigest())
        self.assertEqual(json.loads(call("fingerprint", "--json", EXAMPLES / "media" / "clock.webp").stdout)[0]["frames"], 12)


class ServeSettings(Folder):
    def test_a_folder_of_similarity_brings_its_models_and_thresholds(self):
        (self.folder / "similar").mkdir()
        verifier, projection = (self.folder / "similar" / name for name in ("verifier.gguf", "projection.f32"))
        verifier.touch()
        file = self.folder / "similar" / "similarity.toml"
        self.write("a.toml", f'[similarity]\nfolder = "{self.folder}/similar"\n'.encode())
        shown = lambda: call("serve", "--config", self.folder / "a.toml", "--print-config")
        missing = shown()
        self.assertEqual(missing.returncode, 2)
        self.assertIn(str(file), missing.stderr)
        file.write_text("[similarity]\nthreshold = 0.6\nverifier_threshold = 4.5\nverifier_overrules_vetoes = true\nmay_differ = ['what', 'which']\n")
        done = shown()
        self.assertEqual(done.returncode, 0, done.stderr)
        for line in ('mode = "on"', f'embedder = "{self.folder}/similar/embedder.gguf"', f'verifier = "{self.folder}/similar/verifier.gguf"',
                     'projection = ""', "threshold = 0.6", "verifier_threshold = 4.5", "verifier_overrules_vetoes = true", 'may_differ = ["what", "which"]'):  # fmt: skip
            self.assertIn(f"\n{line}\n", done.stdout)
        self.write("printed.toml", done.stdout.encode())
        self.assertEqual(call("serve", "--config", self.folder / "printed.toml", "--print-config").stdout, done.stdout, "what is printed says the same")
        verifier.rename(projection)
        file.write_text("[similarity]\nthreshold = 0.6\nmay_differ = ['what', 'which']\n")
        for line in ('verifier = ""', f'projection = "{projection}"'):
            self.assertIn(f"\n{line}\n", shown().stdout, "it has what is there")
        self.write("a.toml", f'[similarity]\nmode = "shadow"\nfolder = "{self.folder}/similar"\n'.encode())
        self.assertIn('\nmode = "shadow"\n', shown().stdout)
        file.write_text("[similarity]\nthreshold = 7\n")
        self.assertIn(f"{file}:2: similarity.threshold", shown().stderr)


class Bench(Folder):
    def test_an_unreachable_server_is_named_and_nothing_is_measured(self):
        done = call("bench", "--url", "http://127.0.0.1:9", "--report", self.folder / "page.html")
        self.assertEqual(done.returncode, 1)
        self.assertIn("http://127.0.0.1:9", done.stderr)
        self.assertIn("Is a server running there", done.stderr)
        self.assertFalse((self.folder / "page.html").exists())

    def test_a_dry_run_sends_nothing_and_its_trace_is_the_same_load(self):
        trace = self.folder / "load.jsonl"
        done = call("bench", "--url", "http://127.0.0.1:9", "--dry-run", "--requests", "30", "--save-trace", trace)
        self.assertEqual(done.returncode, 0, done.stderr)
        again = call("bench", "--url", "http://127.0.0.1:9", "--dry-run", "--trace", trace)
        self.assertEqual(again.stdout.partition("\n\n")[2], done.stdout.partition("\n\n")[2])
        self.assertEqual(len(trace.read_text().splitlines()), 31)
        trace.write_text(trace.read_text().replace('"session":', '"user":', 1))
        refused = call("bench", "--dry-run", "--trace", trace)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("line 2: unknown field \"user\"", refused.stderr)

    def test_usage_errors_say_what_is_expected(self):
        for arguments, said in [(["--rate", "5", "--clients", "3"], "--clients"), (["--image-size", "4"], "448 or 256-512"),
                                (["--ttft-limit", "3"], "--ttft-limit"), (["--new-images", "2"], "a share"),
                                (["--url", "ftp://x"], "ftp://x"), (["--key-env", "NO_SUCH_KEY"], "NO_SUCH_KEY"),
                                (["--trace", "no/such.jsonl"], "no/such.jsonl")]:
            done = call("bench", *arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(said, done.stderr + done.stdout, arguments)


class RunDisk(Folder):
    """run --disk DIR: a later process loads what an earlier one computed."""

    def run_over(self, disk, *more):
        self.write("other.png", png(64, 48, (30, 30, 200)))
        lines = [request("a", image("good.png"), TEXT), request("b", image("other.png"), TEXT, agent="x"),
                 request("c", image("good.png"), TEXT, TEXT)]
        done, report = self.run_tiny(*lines, more=("--disk", disk, "--load-always", *more))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIs(report["outputs_identical"], True)
        return done, report

    def test_the_second_run_encodes_nothing_and_prefills_only_the_last_tokens(self):
        disk = self.folder / "kept"
        first, cold = self.run_over(disk)
        self.assertIn("disk: 0 entries at start", first.stdout)
        self.assertEqual(cold["encoder_calls"], {"cold": 3, "encode_once": 2, "warm": 2})
        second, warm = self.run_over(disk)
        self.assertEqual(warm["encoder_calls"], {"cold": 3, "encode_once": 2, "warm": 0})
        self.assertEqual(warm["prompt_tokens_computed"]["warm"], warm["requests"])
        self.assertGreater(warm["disk"]["tokens_loaded"], 0)
        self.assertEqual(warm["disk"]["kv_entries_kept"] + warm["disk"]["encoder_outputs_kept"], 0)
        self.assertEqual([(disk / "secret").stat().st_size, (disk / "secret").stat().st_mode & 0o777], [32, 0o600])

    def test_damaged_entries_are_recomputed_and_never_served(self):
        disk = self.folder / "kept"
        self.run_over(disk)
        for segment in disk.glob("segment-*.afi"):
            content = bytearray(segment.read_bytes())
            for at in range(0, len(content), 4096):
                content[at + 100] ^= 1
            segment.write_bytes(content)
        _, report = self.run_over(disk)
        self.assertEqual(report["encoder_calls"]["warm"], 2)
        _, report = self.run_over(disk)
        self.assertEqual(report["encoder_calls"]["warm"], 0, "recomputed entries were stored again")

    def test_killed_processes_leave_a_consistent_disk(self):
        self.run_over(self.folder / "elsewhere")  # writes the workload

        def start(disk):
            return subprocess.Popen([PROGRAM, "run", "--size", "tiny", "--max-tokens", "2", "--workload",
                                     str(self.folder / "w.jsonl"), "--disk", str(disk)],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        began = time.monotonic()
        self.assertEqual(start(self.folder / "whole").wait(), 0)
        whole = time.monotonic() - began
        disk, parts, kills = self.folder / "kept", 8, 0
        for part in range(1, parts + 1):
            process = start(disk)
            try:
                process.wait(timeout=whole * part / (parts + 1))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                kills += 1
        self.assertGreater(kills, 0)
        self.run_over(disk)  # checks that outputs equal those without reuse

    def test_an_encrypted_disk_needs_its_key(self):
        disk, keys = self.folder / "kept", self.folder / "keys"
        keys.write_text("1" * 64 + "\n")
        keys.chmod(0o600)
        sealed = ("--encrypt-key-file", keys)
        self.run_over(disk, *sealed)
        _, report = self.run_over(disk, *sealed)
        self.assertEqual(report["encoder_calls"]["warm"], 0)
        for path in disk.iterdir():
            self.assertEqual(path.stat().st_mode & 0o077, 0, path)
        keys.write_text("2" * 64 + "\n")
        done, report = self.run_over(disk, *sealed)
        self.assertEqual(report["encoder_calls"]["warm"], 2)
        self.assertIn("encrypted under another key", done.stdout)
        keys.chmod(0o644)
        done, _ = self.run_tiny(request("a", TEXT), more=("--disk", disk, *sealed))
        self.assertEqual(done.returncode, 2, "entries are never stored in the clear if they were to be encrypted")
        self.assertIn("chmod 600", done.stderr)

    def test_another_secret_misses(self):
        disk = self.folder / "kept"
        self.run_over(disk)
        (disk / "secret").unlink()
        _, report = self.run_over(disk)
        self.assertEqual(report["encoder_calls"]["warm"], 2)
        self.assertGreater(report["disk"]["entries_before"], 0)

    def test_an_unusable_folder_is_reported_and_the_run_continues(self):
        good = self.folder / "kept"
        self.run_over(good)
        held = os.open(good / "lock", os.O_RDWR)
        self.addCleanup(os.close, held)
        fcntl.flock(held, fcntl.LOCK_EX)
        readable = self.folder / "readable"
        readable.mkdir()
        (readable / "secret").write_bytes(bytes(32))
        (readable / "secret").chmod(0o644)
        for disk, said in [(self.folder / "good.png", "good.png"), (self.folder / "no" / "where", "no/where"),
                           (good, "kept"), (readable, "secret")]:
            done, report = self.run_over(disk)
            self.assertIn("continuing without --disk", done.stderr)
            self.assertIn(said, done.stderr)
            self.assertIsNone(report["disk"])
            self.assertEqual(report["encoder_calls"]["warm"], 2)

    def test_a_small_disk_stays_within_its_budget(self):
        disk = self.folder / "kept"
        _, report = self.run_over(disk, "--disk-budget", "1MiB")
        self.assertLessEqual(report["disk"]["bytes"], 1 << 20)
        on_disk = sum(file.stat().st_blocks * 512 for file in disk.glob("segment-*.afi"))
        self.assertLessEqual(on_disk, 1 << 20)


class Advise(unittest.TestCase):
    MODEL = ("--encoder-size", "1331MiB", "--model-size", "145GiB", "--encoder-layers", "32")

    def advise(self, *arguments):
        done = call("advise", *self.MODEL, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_data_mode_where_it_gains_and_fits(self):
        said = json.loads(self.advise("--gpus", "8", "--headroom", "4GiB", "--images", "3", "--json"))
        self.assertEqual(said["encoder_parallelism"], "data")
        self.assertGreater(said["gain_percent"][1], 0)
        self.assertIsNone(said["encoder_budget"])
        self.assertIn("--mm-encoder-tp-mode data", self.advise("--gpus", "8", "--headroom", "4GiB"))

    def test_weights_where_it_does_not(self):
        for arguments, why in [((), "one device"), (("--gpus", "8"), "more bytes on each device"),
                               (("--gpus", "8", "--headroom", "4GiB", "--no-data-mode"), "no data mode"),
                               (("--gpus", "8", "--headroom", "4GiB", "--images", "10", "--image-size", "256x256"), "no gain")]:
            with self.subTest(why):
                said = self.advise(*arguments)
                self.assertIn("--mm-encoder-tp-mode weights", said)
                self.assertIn(why, said)

    def test_the_encoder_budget_fits_the_largest_item(self):
        self.assertIn("16384 embeddings a step, 16384 in the encoder cache", self.advise("--item-tokens", "16384"))
        refused = call("advise", *self.MODEL, "--item-tokens", "16384", "--disable-chunked-mm-input")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("increase max_num_batched_tokens to at least 16384", refused.stderr)

    def test_wrong_arguments(self):
        for arguments, said in [(("--image-size", "10"), "1024x768"), (("--image-size", "0x9"), "1024x768"), (("--gpus", "0"), "--gpus"),
                                (("--model-size", "1GiB"), "part of --model-size")]:
            done = call("advise", *[x for x in self.MODEL if "--model-size" not in arguments or x not in ("--model-size", "145GiB")], *arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(said, done.stderr)


def first_turns(folder):
    """The first ten requests of the example workload: each agent's first two turns, with one video."""
    lines = (EXAMPLES / "agents.jsonl").read_text().splitlines()[:10]
    shorter = folder / "first_turns.jsonl"
    shorter.write_text("".join(line.replace('"media/', f'"{EXAMPLES}/media/') + "\n" for line in lines))
    return shorter


class GpuMemory(Folder):
    """A GPU as a tier; its driver is the tests' own (storage/device/testing)."""

    def setUp(self):
        super().setUp()
        (self.folder / "libcuda.so.1").symlink_to(os.environ["AFTERIMAGE_FAKE_CUDA"])
        (self.folder / "libnvidia-ml.so.1").symlink_to(os.environ["AFTERIMAGE_FAKE_NVML"])

    def run_on(self, libraries, workload, *more):
        out = self.folder / "out.json"
        done = subprocess.run([PROGRAM, "run", "--size", "tiny", "--max-tokens", "2", "--workload", workload, "--json", out,
                               "--gpu-memory", "64MiB", *more],
                              env=os.environ | {"LD_LIBRARY_PATH": str(libraries)}, capture_output=True, text=True, timeout=240)
        return done, json.loads(out.read_text())

    def one_request(self):
        return self.workload(request("r", image("good.png"), TEXT))

    def test_entries_that_do_not_fit_in_memory_come_back_from_the_gpu(self):
        done, report = self.run_on(self.folder, first_turns(self.folder), "--budget", "256KiB")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"GPU memory: \d+ entr(y|ies) hit, \d+ missed; \d+ put, 0 evicted; [\d.]+ MiB of 64.0 MiB taken")
        self.assertIs(report["outputs_identical"], True)
        self.assertEqual(report["encoder_calls"]["warm"], 10, "one of them shows that a video's parts are exact")
        self.assertGreater(report["gpu"]["hits"], 0)
        self.assertEqual(report["gpu"]["damaged"], 0)

    def test_a_gpu_is_governed_by_nvml_too(self):
        done, report = self.run_on(self.folder, self.one_request(), "--budget", "1MiB", "--governor", "host,nvml:1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIs(report["outputs_identical"], True)
        self.assertIn("governor: proc of", done.stdout)
        # This NVML does not see what is put: a gauge that stands still is not trusted.
        self.assertEqual(report["gpu"]["damaged"], 0)

        def refused(*arguments):
            done = subprocess.run([PROGRAM, "run", "--size", "tiny", "--workload", EXAMPLES / "agents.jsonl", *arguments],
                                  env=os.environ | {"LD_LIBRARY_PATH": str(self.folder)}, capture_output=True, text=True, timeout=240)
            self.assertEqual(done.returncode, 2, done.stdout)
            return done.stderr
        self.assertIn("NVML has no device 7", refused("--gpu-memory", "64MiB", "--governor", "nvml:7"))
        self.assertIn("add --gpu-memory", refused("--governor", "auto,nvml:0"))
        self.assertIn("'vram' is no gauge", refused("--governor", "auto,vram"))

    def test_without_a_gpu_the_run_says_so_and_goes_on(self):
        done, report = self.run_on(self.folder / "nothing", self.one_request())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("continuing without --gpu-memory: 'libcuda.so.1' cannot be loaded", done.stderr)
        self.assertIsNone(report["gpu"])
        done, _ = self.run_on(self.folder, self.one_request(), "--gpu", "7")
        self.assertIn("there is no device 7", done.stderr)


class Governor(Folder):
    """Memory pressure, simulated by the files of a control group."""

    def governed(self, current):
        for name, text in {"memory.current": current, "memory.high": "max", "memory.max": 64 << 20,
                           "memory.stat": "inactive_file 0"}.items():
            self.write(name, f"{text}\n".encode())
        lines = [request(f"r{i}", image("good.png"), TEXT) for i in range(4)]
        return self.run_tiny(*lines, more=("--governor", self.folder))

    def test_without_pressure_everything_is_cached(self):
        done, report = self.governed(8 << 20)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("governor: cgroup of 64.0 MiB", done.stdout)
        self.assertEqual(report["encoder_calls"]["warm"], 1)
        self.assertEqual(report["governor"]["given_back_bytes"], 0)

    def test_without_memory_nothing_is_cached_and_answers_are_equal(self):
        done, report = self.governed(64 << 20)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIs(report["outputs_identical"], True)
        self.assertEqual(report["governor"]["lowest_budget_bytes"], 0)
        self.assertEqual(report["cache"]["used_bytes"], 0)
        self.assertGreater(report["governor"]["refused"], 0)
        self.assertEqual(report["encoder_calls"]["warm"], 4)


class Explain(Folder):
    """explain: why one request resumed where it did."""

    def explain(self, name, *lines, more=()):
        return call("explain", "--size", "tiny", "--workload", self.workload(*lines), "--request", name, *more)

    def test_explains_the_next_turn_by_the_previous_one(self):
        workload = first_turns(self.folder)
        arguments = ["explain", "--size", "tiny", "--workload", workload, "--request", "designer-poster-2"]
        done = call(*arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("designer-poster-2 is request 8 of 10", done.stdout)
        self.assertIn("those of designer-poster-1, all of that prompt", done.stdout)
        self.assertIn("<assistant> Deep blue against warm yellow", done.stdout)
        told = json.loads(call(*arguments, "--json", "-").stdout)
        out = self.folder / "run.json"
        call("run", "--size", "tiny", "--max-tokens", "1", "--workload", workload, "--json", out)
        ran = {r["id"]: r for r in json.loads(out.read_text())["per_request"]}["designer-poster-2"]
        self.assertEqual(told["resumed_from"], ran["resumed_from"], "explain reports what run did")
        self.assertEqual([m["source"] for m in told["media"]], [m["source"] for m in ran["media"]])

    def test_before_the_first_request_nothing_was_cached(self):
        done = self.explain("a", request("a", TEXT), request("b", TEXT))
        self.assertEqual(done.returncode, 0)
        self.assertIn("Nothing was cached yet: it is the first request.", done.stdout)

    def test_an_unknown_id_suggests_similar_ids(self):
        done = self.explain("analist-1", request("analyst-1", TEXT), request("planner", TEXT))
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn('no request "analist-1"', done.stderr)
        self.assertIn('"analyst-1"', done.stderr)

    def test_a_duplicate_id_explains_the_first_and_reports_the_second(self):
        done = self.explain("a", request("a", TEXT), request("a", image("good.png")))
        self.assertEqual(done.returncode, 0)
        self.assertIn("a is request 1 of 1", done.stdout)
        self.assertIn('line 2 was not served: id "a" is already used on line 1', done.stderr)

    def test_invalid_lines_are_reported(self):
        done = self.explain("b", "{", request("b", TEXT))
        self.assertEqual(done.returncode, 0)
        self.assertIn("line 1 was not served: not JSON", done.stderr)
        done = self.explain("c", "{", request("b", TEXT))
        self.assertEqual(done.returncode, 2)
        self.assertIn("line 1 could not be read: not JSON", done.stderr)

    def test_a_request_that_cannot_be_served_is_a_problem(self):
        self.write("bad.png", png(4, 4, claimed=(400, 400)))
        done = self.explain("b", request("a", TEXT), request("b", image("bad.png"), TEXT))
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("bad.png", done.stderr)

    def test_a_missing_workload(self):
        done = call("explain", "--workload", "no/such.jsonl", "--request", "a")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no/such.jsonl", done.stderr)
        done = self.explain("a", "")
        self.assertEqual(done.returncode, 2)
        self.assertIn("holds no requests", done.stderr)

    def test_unwritable_output_is_reported_before_the_work(self):
        done = self.explain("a", request("a", TEXT), more=["--json", "/no/such/folder/out.json"])
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("/no/such/folder/out.json", done.stderr)


class Photos(Folder):
    def test_photos_replace_the_images_of_a_workload(self):
        photos = self.folder / "photos"
        photos.mkdir()
        for n in range(3):
            (photos / f"{n}.png").write_bytes(png(40 + n, 30))
        (photos / "notes.txt").write_text("not a picture")
        done, report = self.run_tiny(request("a", image("x.png"), image("y.png"), TEXT),
                                     request("b", image("x.png"), TEXT), more=["--images", photos])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(report["distinct_media"], 2)
        self.assertIn("0.png stands in for x.png", done.stderr)

    def test_names_are_looked_up_in_the_folder(self):
        photos = self.folder / "photos"
        photos.mkdir()
        (photos / "x.png").write_bytes(png(40, 30))
        done, report = self.run_tiny(request("a", image("deep/x.png"), TEXT), request("b", image("y.png"), TEXT),
                                     more=["--images", photos])
        self.assertEqual(done.returncode, 1)
        self.assertEqual(report["requests"], 1)
        self.assertIn("'y.png' is not in", report["problems"][0]["error"])

    def test_a_folder_without_images_is_an_error(self):
        empty = self.folder / "empty"
        empty.mkdir()
        done, _ = self.run_tiny(request("a", image("good.png"), TEXT), more=["--images", empty])
        self.assertEqual(done.returncode, 2)
        self.assertIn("holds no JPEG, PNG, WebP, GIF", done.stderr)


class BadInput(Folder):
    """One bad request among good ones: it is reported, the others run, the exit code is 1."""

    def check(self, bad, said):
        good = request("good", image("good.png"), TEXT)
        done, report = self.run_tiny(good, bad, request("also good", image("good.png"), TEXT))
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual([r["id"] for r in report["per_request"]], ["good", "also good"])
        self.assertEqual(len(report["problems"]), 1, report["problems"])
        self.assertIn(said, report["problems"][0]["error"])
        self.assertIn(said, done.stdout)
        self.assertTrue(report["outputs_identical"])
        return report["problems"][0]

    def test_missing_file(self):
        self.check(request("bad", image("gone.png"), TEXT), "gone.png")

    def test_malformed_json_is_reported_with_its_line(self):
        self.assertEqual(self.check('{"id": "bad", "messages": [', "not JSON")["line"], 2)

    def test_fields_of_the_wrong_type(self):
        self.check({"id": 7, "messages": []}, '"id" of the line is number')
        self.check({"id": "bad"}, '"messages"')
        self.check(request("bad", {"type": "hologram"}), "hologram")
        self.check({"id": "bad", "messages": [{"role": "wizard", "content": "x"}]}, "wizard")

    def test_a_duplicate_id(self):
        self.check(request("good", TEXT), "is already used on line 1")

    def test_empty_file(self):
        self.write("bad.png", b"")
        self.check(request("bad", image("bad.png"), TEXT), "bad.png")

    def test_truncated_image(self):
        whole = (EXAMPLES / "media" / "mug.jpg").read_bytes()
        self.write("bad.jpg", whole[:len(whole) // 2])
        self.check(request("bad", image("bad.jpg"), TEXT), "bad.jpg")
        self.write("bad.webp", (EXAMPLES / "media" / "street.webp").read_bytes()[:2000])
        self.check(request("bad", image("bad.webp"), TEXT), "bad.webp")
        self.write("cut.png", png(64, 48)[:-30])
        self.check(request("bad", image("cut.png"), TEXT), "cut.png")

    def test_an_image_that_claims_a_huge_size(self):
        self.write("bad.png", png(4, 4, claimed=(60_000, 60_000)))
        self.check(request("bad", image("bad.png"), TEXT), "60000")

    def test_an_image_that_claims_more_pixels_than_it_has(self):
        self.write("bad.png", png(4, 4, claimed=(400, 400)))
        self.check(request("bad", image("bad.png"), TEXT), "bad.png")

    def test_truncated_audio(self):
        whole = (EXAMPLES / "media" / "jingle.wav").read_bytes()
        self.write("bad.wav", whole[:1000])
        self.check(request("bad", audio("bad.wav"), TEXT), "bad.wav")

    def test_mismatched_media_type(self):
        self.check(request("bad", audio("good.png"), TEXT), "declared as \"wav\" but its bytes are PNG")
        self.write("page.png", b"<!DOCTYPE html><html></html>")
        self.check(request("bad", image("page.png"), TEXT), "page.png")
        self.check(request("bad", image("data:image/jpeg;base64,iVBORw0KGgoAAAAN"), TEXT), "bytes are PNG")
        shutil.copy(EXAMPLES / "media" / "jingle.wav", self.folder / "sound.png")
        self.check(request("bad", image("sound.png"), TEXT), "sound.png")

    def test_urls_are_not_fetched(self):
        self.check(request("bad", image("https://example.org/x.png"), TEXT), "not fetched")

    def test_data_urls_are_images(self):
        import base64
        url = "data:image/png;base64," + base64.b64encode(png(32, 32)).decode()
        done, report = self.run_tiny(request("a", image(url), TEXT), request("b", image(url), TEXT))
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(report["encoder_calls"], {"cold": 2, "encode_once": 1, "warm": 1})

    def test_unwritable_output_is_reported_before_the_work(self):
        done = call("run", "--size", "tiny", "--workload", self.workload(request("a", TEXT)), "--json", "/no/such/folder/out.json")
        self.assertEqual(done.returncode, 2)
        self.assertIn("/no/such/folder/out.json", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_an_empty_workload_is_an_error(self):
        done, _ = self.run_tiny("")
        self.assertEqual(done.returncode, 2)
        self.assertIn("holds no requests", done.stderr)

    def test_a_budget_below_one_item_serves_it_uncached(self):
        done, report = self.run_tiny(request("a", image("good.png"), TEXT), request("b", image("good.png"), TEXT),
                                     more=["--budget", "64b"])
        self.assertEqual(done.returncode, 0)
        self.assertIn("served uncached 2 times", done.stdout)
        self.assertEqual(report["encoder_calls"]["warm"], 2)
        self.assertEqual([m["source"] for r in report["per_request"] for m in r["media"]], ["uncached"] * 2)

    def test_tenants_do_not_share(self):
        done, report = self.run_tiny(request("a", image("good.png"), TEXT, tenant="one"),
                                     request("b", image("good.png"), TEXT, tenant="two"),
                                     request("c", image("good.png"), TEXT, tenant="one"))
        self.assertEqual(done.returncode, 0)
        self.assertEqual(report["encoder_calls"], {"cold": 3, "encode_once": 2, "warm": 2})
        self.assertEqual(report["distinct_media"], 2)

    def test_fingerprint_continues_after_a_bad_file(self):
        self.write("bad.png", b"")
        done = call("fingerprint", "--json", self.folder / "bad.png", self.folder / "good.png")
        self.assertEqual(done.returncode, 1)
        shown = json.loads(done.stdout)
        self.assertIn("error", shown[0])
        self.assertEqual(shown[1]["width"], 64)

    def test_fingerprint_gives_a_digest_of_a_file_that_is_not_read(self):
        content = b"8BPS" + bytes(100)
        self.write("layers.psd", content)
        path = self.folder / "layers.psd"
        done = call("fingerprint", path)
        self.assertEqual(done.returncode, 1)
        self.assertIn(hashlib.sha256(content).hexdigest(), done.stdout)
        self.assertIn("a PSD (Photoshop) file, given as an image", done.stderr)
        shown = json.loads(call("fingerprint", "--json", path, self.folder / "none.png").stdout)
        self.assertEqual((shown[0]["sha256"], shown[0]["bytes"]), (hashlib.sha256(content).hexdigest(), 104))
        self.assertNotIn("sha256", shown[1])


class Replay(Folder):
    """Four requests of whole blocks: two identical ones, a different one, and the first again."""
    CHAINS = [[1, 2], [1, 2], [3, 4], [1, 2]]

    def trace(self, name="t.jsonl", lines=None, pack=bytes):
        if lines is None:
            lines = [json.dumps({"timestamp": i, "input_length": 1024, "output_length": 1, "hash_ids": ids})
                     for i, ids in enumerate(self.CHAINS)]
        self.write(name, pack("\n".join(lines).encode()))
        return self.folder / name

    def replay(self, *more):
        done = call("replay", "--capacity", "2", "--json", "-", "--trace", *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return {(r["policy"], r["capacity"]): r for r in json.loads(done.stdout)["results"]}

    def test_policies_are_within_their_bounds(self):
        results = self.replay(self.trace(), "--policy", "lru")
        self.assertEqual([key[0] for key in results], ["lru", "min", "infinite"])
        self.assertEqual([r["token_hit_ratio"] for r in results.values()], [0.25, 0.5, 0.5])
        self.assertEqual(results["lru", "2"]["gap_closed"], 0)

    def test_gzipped_traces_are_read(self):
        packed = self.replay(self.trace("t.jsonl.gz", pack=gzip.compress))
        plain = self.replay(self.trace())
        self.assertEqual([r["token_hit_ratio"] for r in packed.values()], [r["token_hit_ratio"] for r in plain.values()])

    def test_a_bad_line_is_reported_and_the_others_are_replayed(self):
        lines = self.trace().read_text().split("\n")
        done = call("replay", "--trace", self.trace(lines=lines[:2] + ["{}"] + lines[2:]), "--capacity", "2")
        self.assertEqual(done.returncode, 1)
        self.assertIn("line 3 was not replayed: \"timestamp\" is missing", done.stdout)
        self.assertIn("4 requests", done.stdout)

    def test_usage_errors_write_nothing(self):
        trace, out = self.trace(), self.folder / "out.json"
        for more, said in [(["--policy", "oracle"], "\"oracle\"; choose from"),
                           (["--capacity", "5%%"], "\"5%%\" is not a capacity"),
                           (["--capacity", "0"], "\"0\" is not a capacity"),
                           (["--capacity", "2.5"], "\"2.5\" is not a capacity"),
                           (["--format", "qwen"], "the file has no requests; line 1"),
                           (["--hint-error", "2"], "--hint-error"),
                           (["--report", "/no/such/folder/o.html"], "/no/such/folder/o.html"),
                           (["--trace", self.folder / "absent"], "absent"),
                           (["--trace", self.folder / "good.png"], "good.png")]:
            done = call("replay", "--trace", trace, "--json", out, *more)
            self.assertEqual(done.returncode, 2, more)
            self.assertIn(said, done.stderr, more)
            self.assertFalse(out.exists(), more)

    def test_the_report_is_one_self_contained_page(self):
        page = self.folder / "curves.html"
        done = call("replay", "--trace", self.trace(), "--report", page)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(page.read_text().startswith("<!doctype html>"))
        self.assertNotIn("http", page.read_text())
        self.assertEqual([p.name for p in self.folder.iterdir() if "tmp" in p.name], [])

    def test_hints_are_deterministic_and_do_not_affect_policies_that_ignore_them(self):
        trace = self.trace()
        with_hints = self.replay(trace, "--hint-error", "0.1", "--seed", "3")
        for key, result in self.replay(trace).items():
            if key[0] in ("lru", "min", "infinite"):
                self.assertEqual(with_hints[key]["token_hit_ratio"], result["token_hit_ratio"])

    def test_recorded_traces_replay_and_contain_no_content(self):
        recorded = self.folder / "recorded.jsonl"
        said = {"type": "text", "text": "the password is swordfish " * 20}
        done, _ = self.run_tiny(*[request(f"r{i}", image("good.png"), said, agent="otto") for i in range(3)],
                                more=["--record", recorded])
        self.assertEqual(done.returncode, 0, done.stderr)
        for secret in ["swordfish", "otto", "good.png"]:
            self.assertNotIn(secret, recorded.read_text())
        digest = hashlib.sha256((self.folder / "good.png").read_bytes()).hexdigest()
        self.assertEqual(recorded.read_text().count(digest), 3)
        infinite = self.replay(recorded)["infinite", "2"]
        self.assertGreater(infinite["token_hit_ratio"], 0.5)

    def test_the_generated_trace_is_deterministic_and_repeats_media(self):
        make = [sys.executable, EXAMPLES / "make_trace.py", "--requests", "300", "--seed"]
        one, again, two = (subprocess.run([*make, seed], capture_output=True, check=True).stdout for seed in "112")
        self.assertEqual(one, again)
        self.assertNotEqual(one, two)
        self.write("made.jsonl", one)
        results = self.replay(self.folder / "made.jsonl", "--capacity", "10%", "--policy", "lru")
        self.assertEqual({r["trace"] for r in results.values()}, {str(self.folder / "made.jsonl")})
        for policy in ["lru", "min", "infinite"]:
            self.assertGreater(results[policy, "10%"]["item_hits"], 0)
            self.assertGreater(results[policy, "10%"]["compute_saved_ratio"], 0)


class DiskVerb(Folder):
    def setUp(self):
        super().setUp()
        self.store = self.folder / "store"

    def make(self, entries, *then):
        subprocess.run([os.environ["AFTERIMAGE_MAKE_STORE"], self.store, str(entries), *then], check=True, timeout=60)

    def contents(self):
        return {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in self.store.iterdir()}

    def asked(self, *arguments, code=0):
        done = call("disk", *arguments, "--json")
        self.assertEqual(done.returncode, code, done.stderr)
        return json.loads(done.stdout)

    def test_inspect_counts_and_changes_nothing(self):
        self.make(50)
        before = self.contents()
        seen = self.asked("inspect", self.store)
        done = call("disk", "inspect", self.store)
        self.assertEqual(self.contents(), before)
        self.assertEqual(seen["entries"], 50)
        self.assertEqual(seen["classes"]["encoder_output"],
                         {"entries": 25, "bytes_on_disk": 25 * 12288, "seconds_saved_by_a_hit_on_each": 6.25})
        self.assertEqual(seen["bytes"], sum(len(content) for content, _ in before.values()))
        self.assertEqual(sum(s["entries"] for s in seen["segments"]), 50)
        self.assertTrue(all(s["sealed"] for s in seen["segments"]))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("50 entries in 3 segments", done.stdout)
        self.assertIn("encoder_output", done.stdout)

    def test_inspect_reports_torn_entries_after_a_crash(self):
        self.make(50, "die")
        last = sorted(self.store.glob("segment-*"))[-1]
        content = bytearray(last.read_bytes())
        at = content.rfind(b"AFIR")
        content[at + 4096:at + 12288] = bytes(8192)
        last.write_bytes(content)
        seen = self.asked("inspect", self.store)
        self.assertEqual((seen["entries"], seen["torn_entries"], seen["unsealed_segments"]), (49, 1, 1))
        self.assertIn("1 entry torn (9.8 KiB)", call("disk", "inspect", self.store).stdout)
        self.assertEqual(self.asked("verify", self.store)["torn"], 1, "a torn entry is not damage")

    def test_verify_finds_a_flipped_bit_and_its_position(self):
        self.make(50)
        self.assertEqual(self.asked("verify", self.store)["intact"], 50)
        first = min(self.store.glob("segment-*"))
        content = bytearray(first.read_bytes())
        content[4096 + 5000] ^= 4
        first.write_bytes(content)
        found = self.asked("verify", self.store, code=1)
        self.assertEqual((found["intact"], found["damaged"]), (49, 1))
        self.assertEqual((found["bad"][0]["file"], found["bad"][0]["offset"]), (first.name, 4096))
        done = call("disk", "verify", self.store)
        self.assertEqual((done.returncode, done.stderr), (1, ""), "no progress in a pipe")
        self.assertIn(f"{first.name} at 4096", done.stdout)
        self.assertEqual(first.read_bytes(), content, "verify repairs nothing")

    def test_a_store_of_another_version_is_refused_unchanged(self):
        self.make(50)
        store = self.store / "store.afi"
        mine, other = store.read_bytes(), 2 * disk_segments.magic_block(b"AFISTOR1", bytes(16), version=2)
        store.write_bytes(other)
        before = self.contents()
        for verb in [["inspect"], ["verify"], ["purge", "--yes"]]:
            done = call("disk", *verb, self.store)
            self.assertEqual((done.returncode, done.stdout), (2, ""), verb)
            self.assertIn("version 2", done.stderr)
        self.assertEqual(self.contents(), before)
        store.write_bytes(mine)
        self.assertEqual(self.asked("verify", self.store)["intact"], 50)

    def test_verify_does_not_pass_what_it_could_not_verify(self):
        self.make(50)
        (self.store / "store.afi").write_bytes(bytes(8192))
        found = self.asked("verify", self.store, code=1)
        self.assertEqual((found["intact"], found["damaged"], len(found["foreign"])), (0, 0, 3))
        self.assertIn("store.afi is damaged", call("disk", "verify", self.store).stdout)

    def test_purge_needs_yes_and_keeps_foreign_files(self):
        self.make(50)
        (self.store / "holiday.jpg").write_bytes(b"mine")
        (self.store / "segment-00000000000000ff.afi").write_bytes(b"another store's " * 512)
        before = self.contents()
        refused = call("disk", "purge", self.store)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("nothing was removed", refused.stderr)
        self.assertIn("50 entries", refused.stderr)
        self.assertIn("--yes", refused.stderr)
        self.assertEqual(self.contents(), before)
        done = self.asked("purge", self.store, "--yes")
        self.assertEqual(sorted(p.name for p in self.store.iterdir()), ["holiday.jpg", "segment-00000000000000ff.afi"])
        self.assertEqual(done["left_alone"], ["segment-00000000000000ff.afi"])
        self.assertEqual(len(done["removed"]), len(before) - 2)

    def test_a_folder_in_use_or_without_a_store_is_refused_unchanged(self):
        holder = subprocess.Popen([os.environ["AFTERIMAGE_MAKE_STORE"], self.store, "5", "hold"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(holder.wait)
        self.addCleanup(holder.stdout.close)
        self.addCleanup(holder.stdin.close)
        self.assertEqual(holder.stdout.readline(), b"open\n")
        empty = self.folder / "empty"
        empty.mkdir()
        for verb in [["inspect"], ["verify"], ["purge", "--yes"]]:
            for folder, said in [(self.store, "in use by another process"), (empty, "no disk tier"),
                                 (self.folder / "absent", "absent")]:
                done = call("disk", *verb, folder)
                self.assertEqual(done.returncode, 2, (verb, folder))
                self.assertIn(said, done.stderr)
        self.assertEqual(list(empty.iterdir()), [])
        self.assertFalse((self.folder / "absent").exists())


if __name__ == "__main__":
    unittest.main()
