#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""What users of clients and frameworks in Python and JavaScript see when the model's server fails behind `serve`: errors_test.py FOLDER [NAME...] [--agents FOLDER].

Runs the chat and the stream of each client, as in clients_test.py, once in each situation, with the client's defaults, and prints the table of docs/errors.md:
how often it asks, after which waits, and what the application gets. --agents adds Codex and Claude Code, which `make test-agents` has installed there. Exit code 1: a client took what had come of an answer for all of it, and said nothing.
"""
import argparse
import concurrent.futures
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

from clients_test import PATIENCE, Client, GatewayProcess, do_case, environment_of, javascript_clients, python_clients

NAMES = ("openai_js", "ai_sdk_openai", "litellm_sdk", "langchain_openai_chat", "pydantic_ai_agent")
# What the model's server does, for the table; the status of its responses; Retry-After; how its stream ends.
SITUATIONS = (
    ("429 without `Retry-After`", 429, None, None),
    ("429, `Retry-After: 7`", 429, 7, None),
    ("429, `Retry-After: 43200`", 429, 43200, None),
    ("503, `Retry-After: 7`", 503, 7, None),
    ("500", 500, None, None),
    ("ends the connection instead of an answer", None, None, None),
    ("an error event within a stream", 200, None, 'data: {"error": {"message": "the model is tired", "type": "server_error", "code": null}}\n\n'),
    ("ends the connection within a stream", 200, None, None),
    ("ends a stream in order, before its answer is complete", 200, None, ""),
    ("ends a stream with `[DONE]`, without a finish reason", 200, None, "data: [DONE]\n\n"),
)
GIVEN_WAITS = {0: 1, 1: 7, 3: 7}  # by situation: what the response names, seconds


class FailingModel:
    """Answers every chat as the situation has it. `asked` has the times."""

    def __init__(self):
        self.situation, self.asked = SITUATIONS[0], []
        model = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def chunk(self, data):
                self.wfile.write(f"{len(data):x}\r\n".encode() + data.encode() + b"\r\n")

            def do_POST(self):
                streams = json.loads(self.rfile.read(int(self.headers["Content-Length"]))).get("stream", False)
                model.asked.append(time.monotonic())
                _, status, retry_after, end = model.situation
                self.close_connection = True
                # Who asks once more without a stream gets nothing either.
                if status is None or (status == 200 and not streams):
                    return
                self.send_response(status)
                if retry_after is not None:
                    self.send_header("Retry-After", str(retry_after))
                if status != 200:
                    body = json.dumps({"error": {"message": "the model is busy", "type": "server_error", "code": None}}).encode()
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                    return
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for delta in ({"role": "assistant", "content": ""}, {"content": "It is "}, {"content": "Rome"}):
                    self.chunk("data: " + json.dumps({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [
                        {"index": 0, "delta": delta, "finish_reason": None}]}) + "\n\n")
                if end is not None:
                    if end:
                        self.chunk(end)
                    self.wfile.write(b"0\r\n\r\n")

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def error_of(output, is_javascript):
    """The name of the error that ended a script; empty: there is none."""
    if is_javascript:
        found = re.search(r"^\s*(?:Uncaught )?(\w*Error)(?: \[(\w+)\])?:", output, re.M)
        return (found[2] or found[1]) if found else ""
    output = output.partition("Exception ignored in:")[0]  # what is said while the interpreter ends
    found = re.findall(r"^((?:\w+\.)*\w*(?:Error|Exception|Behavior))(?::|$)", output, re.M)
    return found[-1].rpartition(".")[2] if found else ""


def seen(client, number, model, gateway, home):
    """The cell of the table."""
    model.situation, model.asked = SITUATIONS[number], []
    streams = SITUATIONS[number][1] == 200
    run = do_case(client, "stream" if streams else "chat", gateway, gateway.port, home)
    waits = [after - before for before, after in zip(model.asked, model.asked[1:])]
    named = GIVEN_WAITS.get(number)
    said = [f"{named} s" if named and named - 0.1 <= wait <= named + 1.4 else "its own" for wait in waits]
    tries = f"{len(said) + 1} tries after {', '.join(said)}" if said else "1 try"
    error = error_of(run.output, client.command[0] == "node")
    if run.failed:
        return f"{tries}: `{error}`" if error else f"{tries}: FAILED {run.output[-300:]}"
    # The AI SDK's streams throw nothing: without an onError they print the error.
    is_told = re.search(r"^\s*message: ", run.output, re.M)
    return f"{tries}: the text that came, and the error to `onError`" if is_told else f"{tries}: A WHOLE ANSWER"


QUESTION = "Where is the capital of Italy?"


def codex(gateway):
    """Its variables of the environment, its arguments, and how its output says an error."""
    provider = f'{{name="local",base_url="{gateway.base_url}",env_key="KEY",wire_api="responses"}}'
    return {"KEY": "key"}, ["codex", "exec", "--skip-git-repo-check", "-m", "m", "-c", "model_provider=local", "-c",
                            f"model_providers.local={provider}", QUESTION], r"^ERROR: (?!Reconnecting)(.+)$"


def claude_code(gateway):
    environment = {"ANTHROPIC_BASE_URL": gateway.base_url.removesuffix("/v1"), "ANTHROPIC_API_KEY": "key", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    return environment, ["claude", "-p", QUESTION, "--model", "m"], r"^(?:API Error: )?(.+)$"


# As npm calls them.
AGENTS = {"codex": ("@openai/codex", codex), "claude_code": ("@anthropic-ai/claude-code", claude_code)}


def agents(folder):
    for name, (package, _) in AGENTS.items():
        version = json.loads((folder / "node_modules" / package / "package.json").read_text())["version"]
        yield Client(name, version, folder / "node_modules/.bin")


def agent_seen(client, number, model, gateway, home):
    model.situation, model.asked = SITUATIONS[number], []
    work = home / client.name
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    environment, command, says_error = AGENTS[client.name][1](gateway)
    # A group of its own: the program is the child of the one that npm has installed.
    agent = subprocess.Popen([str(client.command / command[0]), *command[1:]], cwd=work, env={**environment_of(work), **environment},
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        output, _ = agent.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(agent.pid, signal.SIGKILL)
        agent.communicate()
        return "1 try, and waits as long without an error" if len(model.asked) == 1 else f"more than {len(model.asked)} tries in {PATIENCE} s"
    errors = re.findall(says_error, output, re.M)
    if agent.returncode == 0 or not errors:
        return "A WHOLE ANSWER" if agent.returncode == 0 else f"FAILED {output[-300:]}"
    error = re.sub(r", request id.*|, url: .*|127\.0\.0\.1:\d+: | \(127\.0\.0\.1:\d+\)", "", errors[-1])
    return f"{len(model.asked)} tries: {error}" if len(model.asked) > 1 else f"1 try: {error}"


def column(client, home):
    with FailingModel() as model, GatewayProcess({"upstream": {"url": model.url}}) as gateway:
        cells = []
        for number in range(len(SITUATIONS)):
            look = agent_seen if client.name in AGENTS else seen
            cells.append(look(client, number, model, gateway, home))
            print(f"{client.name}, {SITUATIONS[number][0]}: {cells[-1]}", file=sys.stderr, flush=True)
        return [f"{client.name} {client.version}", *cells]


def main():
    parser = argparse.ArgumentParser(description="Runs clients against serve before a model's server that fails, and prints a table.")
    parser.add_argument("folder", type=pathlib.Path, help="where they are installed")
    parser.add_argument("names", nargs="*", help=f"these instead of {', '.join(NAMES)}")
    parser.add_argument("--agents", type=pathlib.Path, metavar="FOLDER", help="where npm has installed Codex and Claude Code")
    given = parser.parse_args()
    folder, names = given.folder.resolve(), given.names or NAMES
    home = folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    clients = [client for of in (javascript_clients, python_clients) for client in of(folder, lambda name: name in names)]
    clients.sort(key=lambda client: names.index(client.name))
    if given.agents is not None:
        clients += agents(given.agents.resolve())
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        columns = [["the model's server", *(what for what, *_ in SITUATIONS)], *pool.map(lambda client: column(client, home), clients)]
    for place, row in enumerate(zip(*columns)):
        print("| " + " | ".join(row) + " |")
        if place == 0:
            print("|---" * len(row) + "|")
    sys.exit(1 if any("A WHOLE ANSWER" in cell or "FAILED" in cell for of in columns for cell in of) else 0)


if __name__ == "__main__":
    main()
