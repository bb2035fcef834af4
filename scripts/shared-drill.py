#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Runs two processes in two network namespaces that share a cluster, and checks that each item is encoded once.

    scripts/shared-drill.py build/release/afterimage [--workload examples/agents.jsonl] [--size tiny]

Three network namespaces, joined only by virtual cables: one with a cluster of three masters and three replicas, and two
with one process each. Both run the same workload at the same time; then one process runs it again alone. A run without
the servers is measured first, for comparison. Everything is removed when the script ends. Needs root, or a system that
lets users create namespaces; `ip` (iproute2) and redis-server.
Exit code 0: each item was encoded by exactly one process. 1: it was not. 2: cannot run here.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "testing"))
import redis_cluster  # noqa: E402

SERVERS = "10.77.0.1"
INSIDE = "AFTERIMAGE_DRILL_INSIDE"


def cannot(why):
    print(f"shared-drill: {why}", file=sys.stderr)
    sys.exit(2)


def enter():
    """Restarts in new namespaces: network, mounts, and users unless run as root."""
    for tool in ("ip", "unshare"):
        if not shutil.which(tool):
            cannot(f"'{tool}' is not installed: apt-get install iproute2 util-linux")
    if not redis_cluster.installed():
        cannot("redis-server is not installed: run scripts/install-deps.sh test")
    flags = ["--net", "--mount"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--net", "--mount"]
    if subprocess.run(["unshare", *flags, "true"], stderr=subprocess.DEVNULL).returncode != 0:
        cannot("this user may not create network namespaces: run this as root")
    os.environ[INSIDE] = "1"
    os.execvp("unshare", ["unshare", *flags, sys.executable, *sys.argv])


def ip(*arguments):
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        cannot(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def lay_cables():
    """The servers run here; each process has a namespace and one cable to it."""
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
    ip("link", "set", "lo", "up")
    ip("address", "add", f"{SERVERS}/32", "dev", "lo")
    for number, name in enumerate(("one", "two"), 1):
        ip("netns", "add", name)
        ip("link", "add", f"to-{name}", "type", "veth", "peer", "name", "cable", "netns", name)
        ip("address", "add", f"10.77.{number}.1/24", "dev", f"to-{name}")
        ip("link", "set", f"to-{name}", "up")
        for command in (["link", "set", "lo", "up"], ["address", "add", f"10.77.{number}.2/24", "dev", "cable"],
                        ["link", "set", "cable", "up"], ["route", "add", f"{SERVERS}/32", "via", f"10.77.{number}.1"]):
            ip("-n", name, *command)


def begin(namespace, arguments, out, *remote):
    return subprocess.Popen(["ip", "netns", "exec", namespace, str(arguments.program.resolve()), "run", "--size", arguments.size, "--max-tokens", "2", "--load-always",
                             "--workload", str(arguments.workload), "--json", str(out), *remote],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def end(process, out):
    said, _ = process.communicate()
    if process.returncode != 0:
        print(said)
        sys.exit(1)
    return json.loads(out.read_text()), [line for line in said.splitlines() if line.startswith("remote:")]


def drill(arguments):
    lay_cables()
    with tempfile.TemporaryDirectory(prefix="afterimage-drill-") as folder:
        folder = pathlib.Path(folder)
        secret = redis_cluster.secret_file(folder)
        options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0"]
        servers = [redis_cluster.Server(str(folder / f"server-{i}"), *options, host=SERVERS, port=7000 + i) for i in range(6)]
        redis_cluster.form_cluster(servers, masters=3)
        url = "redis://" + ",".join(f"{SERVERS}:{server.port}" for server in servers)
        print(f"a cluster of 3 masters and 3 replicas at {SERVERS}, reached by each process over a cable of its own")
        remote = ["--remote", url, "--secret-file", secret]
        alone, _ = end(begin("one", arguments, folder / "alone.json"), folder / "alone.json")
        both = {name: begin(name, arguments, folder / f"{name}.json", *remote) for name in ("one", "two")}
        for name, process in both.items():
            print(f"  {name}: process {process.pid}, {os.readlink(f'/proc/{process.pid}/ns/net') if process.poll() is None else 'done'}")
        encoded, distinct, prefilled = 0, 0, 0
        for name, process in both.items():
            report, said = end(process, folder / f"{name}.json")
            distinct = report["distinct_media"]
            encoded += report["encoder_calls"]["warm"]
            prefilled += report["prompt_tokens_computed"]["warm"]
            print(f"  {name}: encoded {report['encoder_calls']['warm']} of {distinct}, prefilled {report['prompt_tokens_computed']['warm']} tokens; outputs identical: {report['outputs_identical']}")
            print("\n".join(f"       {line}" for line in said))
        last, _ = end(begin("two", arguments, folder / "last.json", *remote), folder / "last.json")
        for server in servers:
            server.kill()
    print(f"together they encoded {encoded} of {distinct} distinct items, and a later process encoded {last['encoder_calls']['warm']}")
    print(f"together they prefilled {prefilled} tokens, one process without the servers {alone['prompt_tokens_computed']['warm']}, "
          f"the later one {last['prompt_tokens_computed']['warm']}; without reuse each prefills {alone['prompt_tokens_computed']['cold']}")
    return 0 if encoded == distinct and last["encoder_calls"]["warm"] == 0 else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--workload", type=pathlib.Path, default=ROOT / "examples" / "agents.jsonl")
    parser.add_argument("--size", default="tiny")
    arguments = parser.parse_args()
    if INSIDE not in os.environ:
        enter()
    return drill(arguments)


if __name__ == "__main__":
    sys.exit(main())
