#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Runs unmodified coding agents against `serve`, with nothing but its address and a key: agents_test.py FOLDER [--record].

Each agent does the task of scripted_model.py twice, from the same beginning, with the default settings and once more with
answers.sampled = "replay". It has to finish at the first try, and no request may be refused. FOLDER is where `npm install` has put the agents
of package.json; a table is printed. Exit code 1: an agent did not finish. --record writes the shapes of what they send to shapes/, where a
quick test without the agents finds them.
"""
import argparse
import collections
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "gateway")]
from gateway_process import GatewayProcess  # noqa: E402
from recorded_shapes import Recorder  # noqa: E402
from scripted_model import DONE, FILE, NEW, OLD, TASK, ScriptedModel  # noqa: E402

PATIENCE = 300  # seconds


def claude_code(url):
    environment = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "key", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    return environment, ["claude", "-p", TASK, "--model", "scripted", "--allowedTools", "Read,Edit,Bash"]


def codex(url):
    provider = f'{{name="local",base_url="{url}/v1",env_key="KEY",wire_api="responses"}}'
    return {"KEY": "key"}, ["codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-m", "scripted",
                            "-c", "model_provider=local", "-c", f"model_providers.local={provider}", TASK]


def opencode(url):
    provider = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": f"{url}/v1", "apiKey": "key"}, "models": {"scripted": {}}}
    config = {"provider": {"local": provider}, "permission": {"*": "allow"}}
    return {"OPENCODE_CONFIG_CONTENT": json.dumps(config)}, ["opencode", "run", "-m", "local/scripted", TASK]


def qwen_code(url):
    environment = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "key", "OPENAI_MODEL": "scripted"}
    return environment, ["qwen", "--auth-type", "openai", "--yolo", "-p", TASK]


def pi(url):
    provider = {"baseUrl": f"{url}/v1", "apiKey": "key", "api": "openai-completions", "models": [{"id": "scripted"}]}
    return {".pi/agent/models.json": json.dumps({"providers": {"local": provider}})}, ["pi", "--provider", "local", "--model", "scripted", "-p", TASK]


# An agent's variables of the environment, or files of its home (their names have a slash), and its command.
AGENTS = {"Claude Code": ("@anthropic-ai/claude-code", claude_code), "Codex": ("@openai/codex", codex), "OpenCode": ("opencode-ai", opencode),
          "Qwen Code": ("@qwen-code/qwen-code", qwen_code), "pi": ("@mariozechner/pi-coding-agent", pi)}
Run = collections.namedtuple("Run", "finished seconds requests hits refused said")


def run_once(agent, folder, gateway, place, port):
    """From the same beginning: agents tell the model of their folder, so it has the same name each time."""
    work, home = place / "work", place / "home"
    for one in (work, home):
        shutil.rmtree(one, ignore_errors=True)
        one.mkdir()
    (work / FILE).write_text(f"{OLD} world\n")
    given, command = agent(f"http://127.0.0.1:{port}")
    environment = {name: text for name, text in given.items() if "/" not in name}
    for name in given.keys() - environment.keys():
        (home / name).parent.mkdir(parents=True)
        (home / name).write_text(given[name])
    known = {"PATH": os.environ["PATH"], "HOME": str(home), "NO_PROXY": "127.0.0.1", **environment}
    before, begun = counts(gateway), time.monotonic()
    code, said = ended([str(folder / "node_modules/.bin" / command[0]), *command[1:]], cwd=work, env=known)
    after = counts(gateway)
    finished = code == 0 and DONE in said and (work / FILE).read_text() == f"{NEW} world\n"
    return Run(finished, time.monotonic() - begun, *(now - then for now, then in zip(after, before)), said)


def ended(command, **where):
    """The exit code and the output of an agent; no code: it was killed, with what it had started, when nobody waited any longer."""
    agent = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             start_new_session=True, **where)
    try:
        said, _ = agent.communicate(timeout=PATIENCE)
        return agent.returncode, said
    except subprocess.TimeoutExpired:
        os.killpg(agent.pid, signal.SIGKILL)
        return None, f"no end after {PATIENCE} s: {agent.communicate()[0]}"


def counts(gateway):
    """(requests, hits, refused)"""
    ok = [gateway.metric("afterimage_requests_total", outcome=outcome) for outcome in ("hit", "miss", "bypass", "coalesced")]
    refused = sum(gateway.metric("afterimage_requests_total", code=str(code)) for code in (400, 404, 413, 422, 500, 501, 502))
    return int(sum(ok)), int(ok[0]), int(refused)


def main():
    parser = argparse.ArgumentParser(description="Runs coding agents against serve, and prints a table.")
    parser.add_argument("folder", type=pathlib.Path, help="where npm has installed the agents")
    parser.add_argument("--record", action="store_true", help="write the shapes of their requests to shapes/")
    given = parser.parse_args()
    folder, rows, failed = given.folder.resolve(), [], False
    for name, (package, agent) in AGENTS.items():
        version = json.loads((folder / "node_modules" / package / "package.json").read_text())["version"]
        with contextlib.ExitStack() as kept:
            place = pathlib.Path(kept.enter_context(tempfile.TemporaryDirectory(prefix="agents-")))
            model = kept.enter_context(ScriptedModel(str(place / "work")))
            runs, recorded = [], []
            for sampled in ("per-requester", "replay"):
                with GatewayProcess({"upstream": {"url": model.url}, "answers": {"sampled": sampled}}) as gateway, Recorder(gateway.port) as recorder:
                    runs.append(run_once(agent, folder, gateway, place, recorder.port if given.record and not runs else gateway.port))
                    runs.append(run_once(agent, folder, gateway, place, gateway.port))
                recorded = recorded or recorder.recorded
        first, second, _, replayed = runs
        good = all(run.finished and not run.refused for run in runs)
        failed = failed or not good
        if not good:
            print(f"{name} did not finish, or a request was refused:\n" + "\n".join(run.said[-3000:] for run in runs))
        elif given.record:
            file = HERE / "shapes" / f"{name.lower().replace(' ', '-')}.json"
            requests = [{"path": path, "body": body} for path, body in recorded]
            lines = ",\n".join(json.dumps(request) for request in requests)
            file.write_text(f'{{"agent": "{name} {version}", "requests": [\n{lines}]}}\n')
        rows.append((f"{name} {version}", "yes" if good else "NO", f"{first.requests}", f"{second.hits} of {second.requests}",
                     f"{replayed.hits} of {replayed.requests}", f"{first.seconds:.1f}, {second.seconds:.1f}"))
    print("| agent | finished | requests | hits of the second run | with `replay` | seconds |\n|---|---|---|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
