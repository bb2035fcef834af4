#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Runs unmodified clients and frameworks against `serve`, with nothing but its address and a key: clients_test.py FOLDER [NAME...].

Each does up to five cases: a chat, a stream, a picture, tools, a schema. Two people at two machines, with one key, do each case with default settings; and
one person does each twice with answers.sampled = "replay". A table is printed: how many requests of the second time were answered from the cache.
FOLDER keeps what is installed. Exit code 1: a case failed.
"""
import argparse
import collections
import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import socketserver
import subprocess
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "gateway")]
from gateway_process import GatewayProcess  # noqa: E402
from schema_model import SchemaModel  # noqa: E402

PATIENCE = 120  # seconds
CASES = ["chat", "stream", "image", "tools", "schema"]
UV = "uv==0.13.9"
Client = collections.namedtuple("Client", "name version command")
Run = collections.namedtuple("Run", "failed requests hits output")


def quietly(command, **more):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}:\n{done.stdout[-3000:]}")
    return done.stdout


def python_clients(folder, is_wanted):
    """A virtual environment for each: they want different versions of each other."""
    uv = folder / "uv/bin/uv"
    if not uv.exists():
        quietly([sys.executable, "-m", "venv", folder / "uv"])
        quietly([folder / "uv/bin/pip", "install", "-q", UV])
    for script in sorted((HERE / "python").glob("*.py")):
        packages = re.search(r"^# packages: (.+)$", script.read_text(), re.M)
        if packages is None or not is_wanted(script.stem):
            continue
        environment, wanted = folder / script.stem, packages[1].split()
        if not (environment / "bin/python").exists():
            quietly([uv, "venv", "-q", "--python", sys.executable, environment])
        quietly([uv, "pip", "install", "-q", "--python", environment / "bin/python", *wanted])
        yield Client(script.stem, wanted[0].split("==")[1], [str(environment / "bin/python"), str(script)])


def javascript_clients(folder, is_wanted):
    if not any(is_wanted(script.stem) for script in (HERE / "javascript").glob("*.mjs")):
        return
    place = folder / "javascript"
    place.mkdir(exist_ok=True)
    for file in (HERE / "javascript").iterdir():  # imports are looked up beside a script
        (place / file.name).write_text(file.read_text())
    quietly(["npm", "install", "--silent", "--no-audit", "--no-fund"], cwd=place)
    for script in sorted(place.glob("*.mjs")):
        package = re.search(r"^// package: (.+)$", script.read_text(), re.M)
        if package is not None and is_wanted(script.stem):
            version = json.loads((place / "node_modules" / package[1] / "package.json").read_text())["version"]
            yield Client(script.stem, version, ["node", str(script)])


def go_clients(folder, is_wanted):
    if not is_wanted("openai_go"):
        return
    program = folder / "openai_go"
    quietly(["go", "build", "-o", program, "."], cwd=HERE / "go")
    version = re.search(r"openai-go/v\d+ v(\S+)", (HERE / "go/go.mod").read_text())[1]
    yield Client("openai_go", version, [str(program)])


def rust_clients(folder, is_wanted):
    if not is_wanted("async_openai"):
        return
    place = folder / "rust"
    shutil.copytree(HERE / "rust", place, dirs_exist_ok=True)  # cargo writes beside the sources
    quietly(["cargo", "build", "-q"], cwd=place)
    version = re.search(r'^async-openai = .*?"=?([\d.]+)"', (HERE / "rust/Cargo.toml").read_text(), re.M)[1]
    yield Client("async_openai", version, [str(place / "target/debug/async_openai_client")])


def java_clients(folder, is_wanted):
    if not is_wanted("openai_java"):
        return
    place, libraries = HERE / "java", folder / "java"
    quietly(["mvn", "-q", "-B", "-f", place / "pom.xml", "dependency:copy-dependencies", f"-DoutputDirectory={libraries}"])
    version = re.search(r"<artifactId>openai-java</artifactId>\s*<version>(.+)</version>", (place / "pom.xml").read_text())[1]
    yield Client("openai_java", version, ["java", "-cp", f"{libraries}/*", str(place / "OpenAiJava.java")])


# Each as its package manager's program that is needed, and what installs and lists its clients.
LANGUAGES = {"python3": python_clients, "npm": javascript_clients, "go": go_clients, "cargo": rust_clients, "mvn": java_clients}


def counts(gateway):
    """(requests, hits)"""
    ok = {outcome: gateway.metric("afterimage_requests_total", outcome=outcome) for outcome in ("hit", "miss", "bypass", "coalesced")}
    return int(sum(ok.values())), int(ok["hit"])


class OtherMachine:
    """Passes connections on to the gateway from another address."""

    def __init__(self, port):
        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                with socket.create_connection(("127.0.0.1", port), source_address=("127.0.0.2", 0)) as gateway:
                    back = threading.Thread(target=pass_on, args=(gateway, self.request))
                    back.start()
                    pass_on(self.request, gateway)
                    back.join()

        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def pass_on(one, other):
    with contextlib.suppress(OSError):
        while data := one.recv(65536):
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)


def environment_of(home):
    return {"PATH": os.environ["PATH"], "HOME": str(home), "NO_PROXY": "127.0.0.1", "PYTHONDONTWRITEBYTECODE": "1"}


def do_case(client, case, gateway, port, home):
    before = counts(gateway)
    try:
        done = subprocess.run([*client.command, case, f"http://127.0.0.1:{port}", "key"], env=environment_of(home), cwd=home, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE)
        failed, output = (done.stdout[-2000:] if done.returncode else None), done.stdout
    except subprocess.TimeoutExpired as slow:
        failed = output = f"no end after {PATIENCE} s: {slow.stdout}"
    after = counts(gateway)
    return Run(failed, after[0] - before[0], after[1] - before[1], output)


def twice(client, cases, settings, moves, home):
    """The second runs of all cases, added up; what failed is printed."""
    runs = []
    with SchemaModel() as model, GatewayProcess({"upstream": {"url": model.url}, **settings}) as gateway, \
            OtherMachine(gateway.port) as elsewhere:
        ports = gateway.port, elsewhere.port if moves else gateway.port
        for case in cases:
            first, second = (do_case(client, case, gateway, port, home) for port in ports)
            for run in (first, second):
                if run.failed:
                    print(f"{client.name}, {case}:\n{run.failed}", flush=True)
            runs.append(second._replace(failed=first.failed or second.failed))
    return Run(any(run.failed for run in runs), sum(run.requests for run in runs), sum(run.hits for run in runs), "")


def main():
    parser = argparse.ArgumentParser(description="Runs clients and frameworks against serve, and prints a table.")
    parser.add_argument("folder", type=pathlib.Path, help="where they are installed")
    parser.add_argument("names", nargs="*", help="only these")
    given = parser.parse_args()
    folder, rows, failed = given.folder.resolve(), [], False
    folder.mkdir(parents=True, exist_ok=True)
    home = folder / "home"
    home.mkdir(exist_ok=True)
    totals = collections.Counter()
    missing = []

    def is_wanted(name):
        return not given.names or name in given.names

    for program, clients in LANGUAGES.items():
        if shutil.which(program) is None:
            missing.append(program)
            continue
        for client in clients(folder, is_wanted):
            if not is_wanted(client.name):
                continue
            cases = json.loads(quietly([*client.command, "cases"]).splitlines()[-1])  # some log before
            people = twice(client, cases, {}, True, home)
            again = twice(client, cases, {"answers": {"sampled": "replay"}}, False, home)
            failed = failed or people.failed or again.failed
            totals.update(people_hits=people.hits, people_requests=people.requests, again_hits=again.hits, again_requests=again.requests)
            rows.append((f"{client.name} {client.version}", ", ".join(cases), "NO" if people.failed or again.failed else "yes",
                         f"{people.hits} of {people.requests}", f"{again.hits} of {again.requests}"))
            print(f"{client.name}: {rows[-1][3]}, {rows[-1][4]}", flush=True)
    rows.append(("all", "", "NO" if failed else "yes", f"{totals['people_hits']} of {totals['people_requests']}",
                 f"{totals['again_hits']} of {totals['again_requests']}"))
    print("\n| client | cases | all done | hits of another person | hits of the same, `replay` |\n|---|---|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    if missing:
        print(f"\nLeft out, since the program is missing: the clients that need {', '.join(missing)}.")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
