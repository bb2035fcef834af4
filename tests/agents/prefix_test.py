#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Coding agents whose system prompt has a line that changes with each request, before a model that reuses the beginning of prompts:
prefix_test.py FOLDER [AGENT…].

Each agent of agents_test.py that is installed in FOLDER does its task twice, as it sends its prompts and with
prompt.stabilise = ["billing-lines", "date-line"]. The model's template writes the system prompt first, then the tools, as Qwen's does. After the second request the decision and the page name the place of the line, and
without it nearly all of the prompt is reused. A table is printed. Exit code 1: an agent did not finish, or one of these is not so.
"""
import contextlib
import json
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "gateway")]
import browser  # noqa: E402
from agents_test import AGENTS, run_once  # noqa: E402
from caching_model import PromptPrefixes  # noqa: E402
from gateway_process import GatewayProcess  # noqa: E402
from recorded_shapes import Clock  # noqa: E402
from scripted_model import ScriptedModel  # noqa: E402


class CachingScriptedModel(ScriptedModel):
    """`read` has (tokens that were cached, tokens) of the requests with tools: of the conversation, not of a title."""

    def __init__(self, folder):
        super().__init__(folder)
        self.prefixes, self.read = PromptPrefixes(system_first=True), []

    def usage(self, body):
        cached, asked = self.prefixes.read(body)
        if body.get("tools"):
            self.read.append((cached, asked))
        return {"prompt_tokens": asked, "completion_tokens": 10, "total_tokens": asked + 10, "prompt_tokens_details": {"cached_tokens": cached}}

    @property
    def reused(self):
        """The share of the prompts' tokens behind the first request, for which nothing can be cached."""
        cached, asked = map(sum, zip(*self.read[1:]))
        return cached / asked


def causes_on_the_page(gateway):
    """What the dashboard says of the prefix cache, a text for each cause."""
    if browser.missing():
        return None
    with browser.Browser() as page:
        page.open(f"http://127.0.0.1:{gateway.admin_port}/")
        page.wait(lambda: page.all("#cause-rows tr"), "a cause")
        return page.each("#cause-rows tr", "(row) => row.textContent")


def session(agent, folder, stabilise):
    """(the run, the share that was reused, the prefixes of its decisions, the causes, and as the page has them)"""
    with contextlib.ExitStack() as kept:
        place = pathlib.Path(kept.enter_context(tempfile.TemporaryDirectory(prefix="agents-")))
        model = kept.enter_context(CachingScriptedModel(str(place / "work")))
        settings = {"upstream": {"url": model.url}, "answers": {"enabled": False}, "explain": {"keep_text": True}, "prompt": {"stabilise": stabilise}}
        gateway = kept.enter_context(GatewayProcess(settings))
        clock = kept.enter_context(Clock(gateway.port))
        run = run_once(agent, folder, gateway, place, clock.port)
        decisions = gateway.admin("GET", "/admin/api/decisions").json["decisions"]
        prefixes = [decision["prefix"] for decision in decisions if decision.get("prefix")]
        causes = gateway.admin("GET", "/admin/api/stats").json["requests"]["prefix_causes"]
        shown = causes_on_the_page(gateway) if causes else []
    return run, model.reused, prefixes, causes, shown


def named_at_the_second_request(prefixes):
    """The place of the line, as the second request of the conversation has it: those of titles are much shorter. None: it has another."""
    longest = max(prefix["bytes"] for prefix in prefixes)
    first, second = [prefix for prefix in prefixes if prefix["bytes"] > longest / 2][:2]
    example = second.get("example", {"before": "", "after": ""})
    is_line = Clock.LINE in example["before"] + example["after"]
    is_right = second["part"] == "system" and second["looks"] in ("time", "date") and second["offset"] < 100 and is_line
    return f"{second['part']}@{second['offset']}; {second['looks']}" if is_right else None


def main():
    folder, chosen = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:] or list(AGENTS)
    rows, failed = [], False
    for name in chosen:
        package, agent = AGENTS[name]
        if not (folder / "node_modules" / package).exists():
            print(f"{name} is not installed in {folder}")
            failed = failed or bool(sys.argv[2:])
            continue
        sent, before, prefixes, causes, shown = session(agent, folder, ["billing-lines"])
        stable, after, _, left, _ = session(agent, folder, ["billing-lines", "date-line"])
        place = named_at_the_second_request(prefixes)
        on_page = shown is None or any(row.startswith("system: ") and Clock.LINE in row for row in shown)
        moved = not any(cause.get("part") == "system" for cause in left)
        good = sent.finished and stable.finished and place is not None and on_page and before < 0.05 and after > 0.9 and moved
        failed = failed or not good
        if not good:
            print(f"{name}: {json.dumps(prefixes, indent=1)}\n{causes}\n{shown}\n{left}\n{sent.said[-2000:]}\n{stable.said[-2000:]}")
        rows.append((name, "yes" if good else "NO", str(sent.requests), place or "not named", f"{before:.1%}", f"{after:.1%}"))
    print("| agent | good | requests | named at the second request | reused, as sent | with `date-line` |\n|---|---|---|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
