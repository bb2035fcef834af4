#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Runs every benchmark with its peers and prints medians and ratios.

    bench/run.py build/release [--json FILE] [--quick] [--disk] [--gateway] [--llama]

Each C++ benchmark runs seven times in an order shuffled with the others of its file, so that drift affects
all of them; Python peers repeat themselves. A ratio is of two medians of the same run. `goal` is the ratio to
reach; machines are noisy, so a missed goal fails nothing.
"""
import argparse
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile

import gateway
import llama

HERE = pathlib.Path(__file__).resolve().parent


class Results:
    """Medians in nanoseconds by name, and the runs behind them."""

    def __init__(self):
        self.runs = {}
        self.index_bytes = {}  # per cached token, by name

    def add(self, name, nanoseconds):
        self.runs.setdefault(name, []).append(nanoseconds)

    def median(self, name):
        return statistics.median(self.runs[name])

    def spread(self, name):
        runs = self.runs[name]
        return f"{show(min(runs))} – {show(max(runs))}"


def show(ns):
    for unit, size in [("s", 1e9), ("ms", 1e6), ("µs", 1e3)]:
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.3g} ns"


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def run_cpp(build, name, results, repetitions, min_time, only=None):
    progress(f"running {name}")
    command = [str(build / "bench" / f"{name}_bench"), "--benchmark_format=json",
               f"--benchmark_repetitions={repetitions}", f"--benchmark_min_time={min_time}",
               "--benchmark_enable_random_interleaving=true"]
    if only:
        command.append(f"--benchmark_filter={only}")
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    report = json.loads(done.stdout)
    scale = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
    for row in report["benchmarks"]:
        if row.get("run_type") == "iteration" and not row.get("error_occurred"):
            # Processor time, so that other work on the machine does not count. Benchmarks with readers that wait for each
            # other use wall-clock time; one that times batches reports its own median.
            name = re.sub("/iterations:.*|/manual_time", "", row["run_name"])
            waits = re.search("/(real|manual)_time(/|$)", row["run_name"]) is not None
            results.add(name, row.get("median_ns", row["real_time" if waits else "cpu_time"] * scale[row["time_unit"]]))
            if "index_bytes_per_token" in row:
                results.index_bytes[name] = row["index_bytes_per_token"]
    return report["context"]


def python_with_numpy():
    for python in [sys.executable, "/usr/bin/python3"]:
        if subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode == 0:
            return python
    return sys.executable


def run_peer(name, results, python=None):
    progress(f"running peer {name}")
    done = subprocess.run([python or python_with_numpy(), str(HERE / "peers" / f"{name}.py")], check=True,
                          capture_output=True, text=True)
    for row, figures in json.loads(done.stdout).items():
        for run in figures["runs"]:
            results.add(row, run)


def run_openssl(results, size):
    progress("running openssl speed")
    try:
        done = subprocess.run(["openssl", "speed", "-mr", "-seconds", "1", "-bytes", str(size), "-evp", "sha256"],
                              check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return
    found = re.search(r"^\+F:\d+:[^:]+:([\d.]+)", done.stdout, re.M)
    if found:
        results.add(f"openssl speed/{size}", size / float(found.group(1)) * 1e9)


def table(title, rows, results):
    """rows: (question, ours, peer, peer's name, goal, whether the goal is a minimum speed-up or a maximum slow-down)"""
    print(f"\n{title}\n")
    print(f"{'':<44}{'ours':>10}{'peer':>10}  {'ratio':>9}  {'goal':<8} peer")
    out = []
    for question, ours, peer, peer_name, goal, faster in rows:
        if ours not in results.runs or peer not in results.runs:
            print(f"{question:<44}{'not measured on this machine':>30}")
            continue
        mine, theirs = results.median(ours), results.median(peer)
        ratio = theirs / mine if faster else mine / theirs
        text = f"{ratio:,.0f}×" if ratio >= 100 else f"{ratio:.2f}×"
        wanted = "" if goal is None else (f"≥ {goal:,}×" if faster else f"≤ {goal}×")
        reached = "" if goal is None else ("" if (ratio >= goal if faster else ratio <= goal) else "  <- falls short")
        print(f"{question:<44}{show(mine):>10}{show(theirs):>10}  {text:>9}  {wanted:<8} {peer_name}{reached}")
        out.append({"question": question, "ours_ns": mine, "peer_ns": theirs, "peer": peer_name,
                    "ratio": ratio, "goal": goal, "goal_is": "faster by" if faster else "within"})
    return out


def rows_encoder_cache():
    rows = []
    for n in [100, 10_000, 1_000_000]:
        for hit, word in [(1, "hit"), (0, "miss")]:
            ours = f"BM_EncoderCacheLookup/entries:{n}/hit:{hit}"
            rows.append((f"look-up, {word}, {n:,} entries", ours, f"seed_lookup_{word}/{n}", "seed (Python)", 20, True))
            rows.append(("", ours, f"BM_BareFlatMapLookup/entries:{n}/hit:{hit}", "bare flat hash map", 2, False))
            rows.append(("", ours, f"BM_BareStdMapLookup/entries:{n}/hit:{hit}", "bare std::unordered_map", 2, False))
    for n in [100, 100_000]:
        rows.append((f"store that evicts, {n:,} entries", f"BM_EncoderCacheStoreEvicting/{n}",
                     f"seed_store_evicting/{n}", "seed (Python)", 1000 if n == 100_000 else None, True))
    for n in [100, 10_000, 1_000_000]:
        rows.append((f"look-up through the lock, {n:,} entries", f"BM_EncodeOnceLookup/{n}",
                     f"seed_lookup_hit/{n}", "seed (Python)", None, True))
    return rows


def rows_digest():
    rows = []
    for size in [64 << 10, 256 << 10, 4 << 20]:
        name = f"SHA-256 of {size >> 10} KiB"
        rows.append((name, f"BM_ContentDigest/{size}", f"BM_OpenSslSha256/{size}", "EVP_Digest, same buffer", 1.05, False))
        rows.append(("", f"BM_ContentDigest/{size}", f"openssl speed/{size}", "openssl speed", 1.05, False))
    return rows


def rows_encryption():
    rows = []
    for size in [64 << 10, 1 << 20, 16 << 20]:
        for where in ["Disk", "Memory"]:
            for call, word in [("Get", "read"), ("Put", "written")]:
                name = f"BM_{call}{where}"
                rows.append((f"16 entries of {size >> 10:,} KiB {word}, {where.lower()}", f"{name}Encrypted/{size}/real_time",
                             f"{name}Plain/{size}/real_time", "the same tier, not encrypted", None, False))
    return rows


def match_name(cached, length, kind=0, washed=0):
    return f"BM_PrefixCacheMatch/cached:{cached}/tokens:{length}/kind:{kind}/washed:{washed}"


def rows_prefix():
    rows = []
    for length in [512, 32768]:
        ours, at = match_name(10000, length), f"/cached:10000/tokens:{length}"
        long = length == 32768
        rows.append((f"match, {length:,} tokens of 10,000 prompts", ours, f"BM_PeerLinearScan{at}",
                     "the seed's linear scan (C++)", 1000 if long else None, True))
        rows.append(("", ours, f"BM_PeerBlockHashMap{at}", "block-hash map, as vLLM's", None, True))
        rows.append(("", ours, f"radix_tree{at}" if not long else "radix_tree/cached:100/tokens:32768",
                     "radix tree in Python, as SGLang's" + (", of 100 prompts" if long else ""), None, True))
        rows.append(("", ours, f"BM_ReadTheCachedOnce{at}", "reading it once, where the index is", 2, False))
        rows.append(("", ours, f"BM_ReadThePromptOnce/tokens:{length}", "reading the prompt once, in cache", None, False))
        rows.append(("the same, under the policy worth", match_name(10000, length).replace("Match/", "MatchUnderWorth/"),
                     ours, "under LRU, as above", None, False))
    rows.append(("match, 512 tokens of 1,000,000 prompts", match_name(1000000, 512), match_name(1000, 512),
                 "itself, of 1,000 prompts", 2, False))
    rows.append(("only reading the compared sequence", "BM_ReadTheCachedOnce/cached:1000000/tokens:512",
                 "BM_ReadTheCachedOnce/cached:1000/tokens:512", "itself, of 1,000 prompts", None, False))
    rows.append(("a match after other work", match_name(1000000, 512, washed=1), match_name(1000, 512, washed=1),
                 "itself, of 1,000 prompts", 2, False))
    rows.append(("", match_name(1000000, 512), "BM_ReadTheCachedOnce/cached:1000000/tokens:512",
                 "reading it once, where the index is", 2, False))
    for cached in [1000, 100000]:
        at = f"BM_PrefillOnceMatch/cached:{cached}/tokens:512/real_time/threads:"
        rows.append((f"two readers, 512 tokens of {cached:,} prompts", at + "2", at + "1", "one reader", None, False))
    rows.append(("keys of 2,048 blocks of 16 tokens", "BM_BlockKeys/16", "BM_FloorKeys/16", "bare XXH3-128", None, False))
    return rows


def prefix_matrix(results):
    print("\nPrefix cache, one match: hit, parting half-way, miss\n")
    lengths = [512, 4096, 32768, 131072]
    print(f"{'cached prompts':>14}" + "".join(f"{f'{length:,} tokens':>30}" for length in lengths))
    sizes = sorted({int(re.search(r"cached:(\d+)", name).group(1))
                    for name in results.runs if name.startswith("BM_PrefixCacheMatch/")})
    for cached in sizes:
        cells = []
        for length in lengths:
            names = [match_name(cached, length, kind) for kind in range(3)]
            there = all(name in results.runs for name in names)
            cells.append(", ".join(show(results.median(name)) for name in names) if there else "")
        print(f"{cached:>14,}" + "".join(f"{cell:>30}" for cell in cells))
    print("\nIndex, bytes a cached token: " + ", ".join(
        f"{results.index_bytes[match_name(cached, length)]:.2f} ({cached:,} × {length:,})"
        for cached, length in [(10000, 512), (1000000, 512), (10000, 4096), (10000, 32768)]
        if match_name(cached, length) in results.runs))
    print("Insert: " + ", ".join(
        f"{show(results.median(name))} ({name.removeprefix('BM_PrefixCacheInsert/')})"
        for name in sorted(results.runs) if name.startswith("BM_PrefixCacheInsert")))


def rows_ledger():
    rows = []
    for kind, ours in [("miss", "BM_LedgerMissLifecycle"), ("hit", "BM_LedgerHitLifecycle")]:
        for n in [32, 1000]:
            rows.append((f"request life cycle, {kind}, {n} entries", f"{ours}/{n}",
                         f"ledger_{kind}_lifecycle/{n}", "vLLM's algorithm (Python)", None, True))
    return rows


def rows_semantic(results):
    rows = []
    for n in [1000, 100_000, 1_000_000]:
        ours = f"BM_AnswerExactHit/{n}"
        rows.append((f"answer by its text, {n:,} answers", ours, f"faiss_lookup/{n}",
                     "FAISS and SQLite, as GPTCache (Python)", None, True))
        rows.append(("", ours, f"BM_BareMapHit/{n}", "bare flat hash map of strings", None, False))
    rows.append(("miss on three match levels, 1,000,000", "BM_AnswerLadderMiss/1000000", "BM_AnswerLadderMiss/1000",
                 "itself, of 1,000 answers", None, False))
    rows.append(("by similarity, 1,000 answers", "BM_SimilarityFind/1000", "BM_BareScan/1000", "bare exact scan", 1.3, False))
    rows.append(("", "BM_SimilarityFind/1000", "faiss_lookup/1000", "FAISS and SQLite (Python)", None, True))
    rows.append(("by similarity, 100,000 answers", "BM_SimilarityFind/100000", "BM_BareHnswlib/100000", "bare hnswlib", 1.3, False))
    rows.append(("", "BM_SimilarityFind/100000", "faiss_lookup/100000", "FAISS and SQLite (Python)", None, True))
    for n, name in [(50_000, "50,000"), (1_000_000, "a million")]:
        if f"BM_SimilarityFind/{n}" not in results.runs:
            continue
        rows.append((f"by similarity, {name} answers", f"BM_SimilarityFind/{n}", f"BM_BareHnswlib/{n}", "bare hnswlib", 1.3, False))
        rows.append((f"nearest vectors, {name}, exact", f"BM_NearestVectorsExact/{n}", f"BM_BareScan/{n}", "bare exact scan", 1.3, False))
    rows.append(("nearest vectors, 20,000", "BM_NearestVectors/20000", "BM_BareHnswlib/20000", "bare hnswlib", 1.3, False))
    rows.append(("replace a vector, 20,000", "BM_VectorReplace/20000", "BM_BareHnswlibReplace/20000",
                 "bare hnswlib", 1.3, False))
    return rows


def unsafe(build, peer):
    """Unsafe answers: which share of the served answers does not answer the question?"""
    progress("counting unsafe answers")
    done = subprocess.run([str(build / "afterimage-lab"), "experiment", "--json"], capture_output=True, text=True)
    ours = json.loads(done.stdout)
    print("\nServed of 12,000 generated questions, and how many of them unsafe\n")
    for level in ours["match_levels"] + [{"match_level": "text", **ours["similarity"], "wrong": ours["similarity"]["unsafe"]}]:
        print(f"{level['match_level']:<44}{level['served']:>10}{level['wrong']:>10}")
    rows = {"afterimage": ours["match_levels"], "similarity": ours["similarity"]}
    with tempfile.TemporaryDirectory(dir=build) as folder:
        subprocess.run([str(build / "afterimage-lab"), "experiment", "--write-gqa", folder], check=True, capture_output=True)
        done = subprocess.run([peer, str(HERE / "peers" / "answers_faiss.py"), folder], capture_output=True, text=True)
    if done.returncode == 0:
        theirs = json.loads(done.stdout)
        print(f"{'GPTCache with defaults, questions on pictures':<44}{theirs['served']:>10}{theirs['unsafe']:>10}")
        rows["faiss"] = theirs
    return rows


def python_with_faiss():
    for python in [sys.executable, "/usr/bin/python3"]:
        if subprocess.run([python, "-c", "import faiss"], capture_output=True).returncode == 0:
            return python
    return None


def parallel_advice(build):
    progress("")
    done = subprocess.run([str(build / "bench" / "parallel_advice")], capture_output=True, text=True, check=True)
    print("\nData-parallel encoder advice on AMD's 27 published workloads\n")
    print(done.stdout, end="")


def disk(build, quick):
    """GB/s, the best of each engine; the ratio is the median of alternating measurements."""
    progress("running disk")
    with tempfile.TemporaryDirectory(dir=build) as folder:
        done = subprocess.run([str(build / "bench" / "disk_bench"), folder, "128" if quick else "512"],
                              capture_output=True, text=True, check=True)
    progress("")
    rows = {}
    for row in json.loads(done.stdout):
        rows.setdefault((row["operation"], row["bytes"], row["engine"]), []).append(row["gb_per_s"])
    print("\nDisk tier and host tier, GB/s, wall clock\n")
    print(f"{'':<30}{'ours':>8}{'bare':>8}  {'ratio':>7}  {'goal':<7}{'of copied':>11}{'rocksdb':>9}{'lmdb':>8}")
    out = []
    for (operation, size, engine), ours in rows.items():
        if engine != "afterimage":
            continue
        if operation.startswith("restart"):
            print(f"{operation:<40}{ours[0]:.3f}")
            out.append({"operation": operation, "entries": size, "seconds": ours[0]})
            continue
        host = operation.startswith("host")
        bare = rows[("host", size, "memcpy")] if host else rows[(operation, size, "raw")]
        ratio = statistics.median(mine / theirs for mine, theirs in zip(ours, bare))
        copied = rows.get((operation, size, "copied"), [])
        of_copied = statistics.median(mine / theirs for mine, theirs in zip(ours, copied)) if copied else None
        peers = {peer: max(rows[(operation, size, peer)]) for peer in ["rocksdb", "lmdb"]
                 if (operation, size, peer) in rows}
        print(f"{operation + f', {size >> 10} KiB':<30}{max(ours):>8.2f}{max(bare):>8.2f}  {ratio:>7.2f}  "
              f"{'' if host else '≥ 0.85':<7}"
              + (f"{of_copied:>11.2f}" if copied else f"{'':>11}")
              + "".join(f"{peers[p]:>{width}.2f}" if p in peers else f"{'':>{width}}"
                        for p, width in [("rocksdb", 9), ("lmdb", 8)]))
        out.append({"operation": operation, "bytes": size, "gb_per_s": ours, "bare_gb_per_s": bare, "ratio": ratio,
                    "of_copied": of_copied, "peers": peers})
    return out


def replay(build, quick):
    """Block uses per second of processor time in a replay, by policy."""
    progress("running replay")
    done = subprocess.run([str(build / "bench" / "replay_bench"), "--benchmark_format=json",
                           f"--benchmark_repetitions={1 if quick else 3}", "--benchmark_min_time=0.1"],
                          check=True, capture_output=True, text=True)
    progress("")
    runs = {}
    for row in json.loads(done.stdout)["benchmarks"]:
        if row.get("run_type") == "iteration":
            runs.setdefault(row["run_name"].removeprefix("BM_Replay/"), []).append(row["items_per_second"])
    goals = {"lru": 1e6, "worth": 0.3e6}
    print("\nTraces replayed, million block uses per second\n")
    for policy, speeds in runs.items():
        speed, goal = statistics.median(speeds), goals.get(policy)
        wanted = "" if goal is None else f"≥ {goal / 1e6:g}"
        print(f"{policy:<30}{speed / 1e6:>8.2f}  {wanted:<8}{'  <- falls short' if goal and speed < goal else ''}".rstrip())
    return [{"policy": policy, "uses_per_second": statistics.median(speeds)} for policy, speeds in runs.items()]


def policies(build, quick):
    """Processor time per request in the eviction policy alone."""
    progress("running policy")
    done = subprocess.run([str(build / "bench" / "policy_bench"), "--benchmark_format=json",
                           f"--benchmark_repetitions={1 if quick else 3}"], check=True, capture_output=True, text=True)
    progress("")
    runs = {}
    for row in json.loads(done.stdout)["benchmarks"]:
        if row.get("run_type") == "iteration":
            _, policy, entries, _ = row["run_name"].split("/")
            runs.setdefault(policy, {}).setdefault(int(entries), []).append(row["cpu_time"])
    print(f"\n{'A request in the eviction policy alone':<40}{'10,000 entries':>16}{'1,000,000':>16}\n")
    for policy, sizes in runs.items():
        print(f"{policy:<40}" + "".join(f"{show(statistics.median(times)):>16}" for times in sizes.values()))
    return [{"policy": policy, "entries": entries, "ns": statistics.median(times)}
            for policy, sizes in runs.items() for entries, times in sizes.items()]


def governor(results):
    """The cost of governing, compared with the machine's limits, because there is no peer."""
    print("\nGovernor\n")
    for question, name in [("a step", "BM_GovernorStep"),
                           ("a tick that reads /proc and finds nothing to do", "BM_KeeperTick"),
                           ("1 GiB returned from the caches to the system", "BM_GiveBackGiB"),
                           ("  the limit: the kernel takes 1 GiB back", "BM_KernelTakesBackGiB")]:
        print(f"{question:<52}{show(results.median(name)):>10}   {results.spread(name)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="a build folder with AFTERIMAGE_BENCH=ON")
    parser.add_argument("--json", type=pathlib.Path, help="also write every run to FILE")
    parser.add_argument("--quick", action="store_true", help="fewer, shorter runs, as a smoke test")
    parser.add_argument("--disk", action="store_true", help="only the disk tier, the device and its peers")
    parser.add_argument("--gateway", action="store_true", help="only the gateway, its limits and its peers")
    parser.add_argument("--llama", action="store_true", help="only the engine llama and llama.cpp's own server")
    arguments = parser.parse_args()
    for only, measure in [("disk", disk), ("gateway", gateway.measure), ("llama", llama.measure)]:
        if getattr(arguments, only):
            rows = measure(arguments.build, arguments.quick)
            if arguments.json:
                arguments.json.write_text(json.dumps({"tables": {only: rows}}, indent=1))
            return
    repetitions, min_time = (3, 0.02) if arguments.quick else (7, 0.1)

    results = Results()
    context = run_cpp(arguments.build, "encoder_cache", results, repetitions, min_time)
    run_peer("seed_encoder_cache", results)
    run_cpp(arguments.build, "digest", results, repetitions, min_time)
    for size in [64 << 10, 256 << 10, 4 << 20]:
        run_openssl(results, size)
    run_cpp(arguments.build, "encoder_ledger", results, repetitions, min_time)
    run_peer("ledger", results)
    # One process per length: it holds caches of all sizes at once, below 6 GB together.
    for length in [512, 32768] if arguments.quick else [512, 4096, 32768, 131072]:
        run_cpp(arguments.build, "prefix", results, 3 if arguments.quick else 5, min_time,
                only=f"Match.*tokens:{length}/kind:0/" if arguments.quick else f"Match.*tokens:{length}/")
        if length == 131072:
            continue  # the peer does not run that long
        run_cpp(arguments.build, "prefix", results, 3, min_time,
                only=f"(ReadThe|LinearScan|BlockHashMap|Insert).*tokens:{length}(/|$)")
    run_cpp(arguments.build, "block_keys", results, 3, min_time)
    run_peer("radix_tree", results)
    run_cpp(arguments.build, "semantic", results, 3, min_time)
    if python_with_faiss() is not None:
        run_peer("answers_faiss", results, python_with_faiss())
    run_cpp(arguments.build, "seal", results, 3, min_time)
    run_cpp(arguments.build, "governor", results, 3, min_time)
    run_cpp(arguments.build, "engine", results, 3, min_time, only="Encode|Prefill|Decode")
    progress("")

    print(f"{context['num_cpus']} cores at {context['mhz_per_cpu']} MHz, {platform.machine()}, Python {platform.python_version()}; "
          f"medians of {repetitions} runs, processor time")
    tables = {"encoder_cache": table("Encoder cache", rows_encoder_cache(), results),
              "digest": table("Content digest", rows_digest(), results),
              "prefix": table("Prefix cache", rows_prefix(), results),
              "ledger": table("Scheduler's ledger", rows_ledger(), results),
              "semantic": table("Answers", rows_semantic(results), results),
              "seal": table("Encryption, compared with the same tier without it", rows_encryption(), results)}
    tables["unsafe"] = unsafe(arguments.build, python_with_faiss() or sys.executable)
    prefix_matrix(results)
    print("\nReference engine, what a hit saves\n")
    for name in sorted(results.runs):
        if name.startswith(("BM_Encode", "BM_Prefill", "BM_Decode")) and "Encoder" not in name and "Once" not in name:
            print(f"{name.removeprefix('BM_'):<44}{show(results.median(name)):>10}   {results.spread(name)}")
    governor(results)
    parallel_advice(arguments.build)
    tables["policies"] = policies(arguments.build, arguments.quick)
    tables["replay"] = replay(arguments.build, arguments.quick)
    tables["disk"] = disk(arguments.build, arguments.quick)
    tables["gateway"] = gateway.measure(arguments.build, arguments.quick)
    tables["llama"] = llama.measure(arguments.build, arguments.quick)
    if arguments.json:
        arguments.json.write_text(json.dumps({"context": context, "tables": tables, "runs": results.runs}, indent=1))


if __name__ == "__main__":
    main()
