# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Ways in which clients lose the prefix cache of a model's server, each said in five places: the response header, the decision, the
page, and the diagnostics of Anthropic's and OpenAI's API. And requests that lose nothing, of which nothing is said.

It prints the table. A way that an API cannot send has a dash there."""
import copy
import json
import re
import unittest

import browser
from caching_model import PrefixModel
from gateway_process import CHAT, GatewayProcess

RULES = "You are a careful assistant who works in a repository. Read before you write, run the tests, and say what you have not done. " * 4
ASK = "Please find out why the build of the parser fails on Tuesdays and fix it. It did not fail before the last release, says the log. " * 4
ANSWER = "It compares the day of the week with a table that lacks one; I added it. The tests of the parser pass, and so does the build. " * 2
RESULT = "int main() { return 0; }  // a program that does nothing at all, and does it well, on every day of the week, Tuesdays too\n" * 8
PICTURES = {"one": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC",
            "encoded again": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAAD0lEQVR4AQEEAPv/AP8AAAMBAQCNHeWCAAAAAElFTkSuQmCC",
            "wider": "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAIAAAB7QOjdAAAADUlEQVR42mP4z8AARAAI/gH/GcBr5wAAAABJRU5ErkJggg=="}


# Requests, as a chat of OpenAI's API.

def says(role, text, **more):
    return {"role": role, "content": text, **more}


def chat(*messages, **more):
    return {"model": "mock-small", "temperature": 0, "messages": list(messages), **more}


def system(text):
    return chat(says("system", text), says("user", ASK))


def holding(value):
    """A system prompt with a value in its middle."""
    return system(f"{RULES}cch={value}; {RULES}")


def tool(name, text="does something useful with the files of a repository, and says what it did"):
    return {"type": "function", "function": {"name": name, "description": text,
                                             "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}}


def offering(*tools, **more):
    return {**system(RULES), "tools": list(tools), **more}


def turns(*answer, more=()):
    return chat(says("system", RULES), says("user", ASK), *answer, says("user", "And the other days?"), *more)


def picture(name, **options):
    return {"type": "image_url", "image_url": {"url": name if name.startswith("http") else "data:image/png;base64," + PICTURES[name], **options}}


def shows(*pictures, text=ASK):
    return {"role": "user", "content": [*pictures, {"type": "text", "text": text}]}


def called(arguments):
    call = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": arguments}}
    return chat(says("system", RULES), says("user", ASK), {"role": "assistant", "content": None, "tool_calls": [call]},
                says("tool", RESULT, tool_call_id="call_1"), says("user", "What next?"), tools=[tool("read")])


A, B, C = tool("read"), tool("write"), tool("search")
AT = len(RULES) + 4
URL = "https://pictures.example/1.png?sig="
THOUGHT = "The user wants the parser fixed, so I read the table of days first."

# Each: the name, the earlier request, the new one, what the header says behind "diverges=".
WAYS = [
    ("nonce in the system prompt", holding("a3f2b1"), holding("9c04de"), f"system@{AT}; looks=nonce"),
    ("date", holding("2026-11-28"), holding("2026-11-29"), f"system@{AT}; looks=date"),
    ("date in words", holding("Sunday, November 29, 2026"), holding("Sunday, November 30, 2026"), f"system@{AT + 17}; looks=date"),
    ("date with seconds", holding("2026-11-29T03:23:05Z"), holding("2026-11-29T03:23:47Z"), f"system@{AT + 10}; looks=time"),
    ("seconds since 1970", holding("1795922585"), holding("1795922601"), f"system@{AT}; looks=time"),
    ("counter of requests", holding("1041"), holding("1042"), f"system@{AT}; looks=counter"),
    ("id of a session", holding("550e8400-e29b-41d4-a716-446655440000"), holding("6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
     f"system@{AT}; looks=id"),
    ("hash of a commit", holding("91534c9b0afbd968365de4f8a1cf2bac90fabd78"), holding("b964c716dffb5a07e6a6e7bc43ff4291d197b81b"),
     f"system@{AT}; looks=hash"),
    ("working directory", holding("alpha"), holding("omega"), f"system@{AT}; looks=text"),
    ("white space", system(f"{RULES}Be brief.\n{RULES}"), system(f"{RULES}Be brief. \n{RULES}"), f"system@{AT - 1}; looks=whitespace"),
    ("line in front", system(RULES), system(f"Build 7 of the agent. {RULES}"), "system@0; looks=text"),
    ("system prompt dropped", system(RULES), chat(says("user", ASK)), "system; change=removed"),
    ("another model", system(RULES), {**system(RULES), "model": "mock-large"}, "model"),
    ("another reasoning_effort", {**system(RULES), "reasoning_effort": "low"}, {**system(RULES), "reasoning_effort": "high"},
     "parameters.reasoning_effort"),
    ("chat_template_kwargs added", system(RULES), {**system(RULES), "chat_template_kwargs": {"enable_thinking": False}},
     "parameters.chat_template_kwargs; change=added"),
    ("no tool is to be called", offering(A), offering(A, tool_choice="none"), "parameters.tool_choice; change=added"),
    ("tools in another order", offering(A, B, C), offering(A, C, B), "tools[1]; change=reordered"),
    ("tool added in front", offering(A, B), offering(C, A, B), "tools[0]; change=added"),
    ("tool left out", offering(A, B, C), offering(A, C), "tools[1]; change=removed"),
    ("date in a tool's description", offering(A, tool("now", "Today is 2026-11-28. It gives the time.")),
     offering(A, tool("now", "Today is 2026-11-29. It gives the time.")), "tools[1]@68; looks=date"),
    ("reasoning dropped between turns", turns(says("assistant", ANSWER, reasoning_content=THOUGHT)), turns(says("assistant", ANSWER)),
     "messages[2]; change=reasoning-dropped"),
    ("tool arguments serialised again", called('{"path":"a.c","line":1}'), called('{"line": 1, "path": "a.c"}'),
     "messages[2]; change=tool-call-rewritten"),
    ("history cut from the front", turns(says("assistant", ANSWER)), chat(says("system", RULES), says("assistant", ANSWER), says("user", "And the other days?")),
     "messages[1]; change=removed"),
    ("message inserted", turns(says("assistant", ANSWER)),
     chat(says("system", RULES), says("user", "Remember the style guide."), says("assistant", "I do."), *turns(says("assistant", ANSWER))["messages"][1:]),
     "messages[1]; change=added"),
    ("answer edited", turns(says("assistant", f"Well 1. {ANSWER}")), turns(says("assistant", f"Well 2. {ANSWER}")),
     "messages[2]@5; looks=counter"),
    ("picture encoded again", chat(shows(picture("one"))), chat(shows(picture("encoded again"))), "media[0]"),
    ("picture in another size", chat(shows(picture("one"))), chat(shows(picture("wider"))), "media[0]; change=resized"),
    ("another detail", chat(shows(picture("one", detail="low"))), chat(shows(picture("one", detail="high"))), "media[0]; change=options"),
    ("pictures in another order", chat(shows(picture("one"), picture("wider"))), chat(shows(picture("wider"), picture("one"))),
     "media[0]; change=reordered"),
    ("address signed again", chat(shows(picture(URL + "abc"))), chat(shows(picture(URL + "def"))), "media[0]; change=readdressed"),
]
CONTROLS = [
    ("the same again", system(RULES), system(RULES), True),
    ("the next turn", system(RULES), turns(says("assistant", ANSWER)), True),
    ("a turn taken back", turns(says("assistant", ANSWER)), system(RULES), True),
    ("the last message goes on", system(RULES), chat(says("system", RULES), says("user", ASK + " Quickly.")), True),
    ("another temperature", system(RULES), {**system(RULES), "temperature": 0.2, "max_tokens": 9}, True),
    ("another tool_choice", offering(A), offering(A, tool_choice="required"), True),
    ("another question", system(RULES), chat(says("system", RULES), says("user", "How long is the Nile?")), False),
    ("another conversation", turns(says("assistant", ANSWER)),
     chat(says("system", RULES), says("user", "How long is the Nile?"), says("assistant", "6650 km"), says("user", "And the Amazon?")), False),
    ("the time behind everything else", chat(says("system", RULES), says("user", ASK + " It is 03:23:05")),
     chat(says("system", RULES), says("user", ASK + " It is 03:24:17")), False),
    ("another prompt altogether", system(RULES), chat(says("user", "Translate to French: the cat sat on the mat.")), False),
]


class CannotSay(Exception):
    """The API has no form for it."""


# The same request in the other two APIs.

def message_of(body):
    body = copy.deepcopy(body)
    made = {"model": body["model"], "max_tokens": body.get("max_tokens", 100), "temperature": body["temperature"], "messages": []}
    for name in ("chat_template_kwargs", "cache_salt"):
        if name in body:
            made[name] = body[name]
    if "reasoning_effort" in body:
        made["output_config"] = {"effort": body["reasoning_effort"]}
    if "tools" in body:
        made["tools"] = [{"name": one["function"]["name"], "description": one["function"]["description"], "input_schema": one["function"]["parameters"]}
                         for one in body["tools"]]
    if "tool_choice" in body:
        made["tool_choice"] = {"type": {"required": "any"}.get(body["tool_choice"], body["tool_choice"])}
    for message in body["messages"]:
        if message["role"] == "system":
            made["system"] = message["content"]
            continue
        made["messages"].append({"role": "assistant" if message["role"] == "assistant" else "user", "content": blocks_of(message)})
    return made


def blocks_of(message):
    if message["role"] == "tool":
        return [{"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}]
    blocks = []
    if "reasoning_content" in message:
        blocks.append({"type": "thinking", "thinking": message["reasoning_content"], "signature": "s"})
    for call in message.get("tool_calls", []):
        blocks.append({"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": json.loads(call["function"]["arguments"])})
    content = message["content"] or []
    for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        if part["type"] == "text":
            blocks.append(part)
            continue
        if "detail" in part["image_url"]:
            raise CannotSay("detail")
        url = part["image_url"]["url"]
        blocks.append({"type": "image", "source": {"type": "url", "url": url} if url.startswith("http") else
                       {"type": "base64", "media_type": "image/png", "data": url.partition(",")[2]}})
    return blocks


def response_of(body):
    body = copy.deepcopy(body)
    made = {name: body[name] for name in ("model", "temperature", "chat_template_kwargs", "tool_choice") if name in body}
    made.update(input=[], store=False)
    if "max_tokens" in body:
        made["max_output_tokens"] = body["max_tokens"]
    if "reasoning_effort" in body:
        made["reasoning"] = {"effort": body["reasoning_effort"]}
    if "tools" in body:
        made["tools"] = [{"type": "function", **one["function"]} for one in body["tools"]]
    for message in body["messages"]:
        if message["role"] == "system":
            made["instructions"] = message["content"]
            continue
        made["input"] += items_of(message)
    return made


def items_of(message):
    if message["role"] == "tool":
        return [{"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]}]
    items = []
    if "reasoning_content" in message:
        items.append({"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": message["reasoning_content"]}]})
    for call in message.get("tool_calls", []):
        items.append({"type": "function_call", "call_id": call["id"], "name": call["function"]["name"], "arguments": call["function"]["arguments"]})
    content = message["content"] or []
    parts = []
    for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        if part["type"] == "text":
            parts.append({"type": "output_text" if message["role"] == "assistant" else "input_text", "text": part["text"]})
        else:
            parts.append({"type": "input_image", "image_url": part["image_url"]["url"], "detail": part["image_url"].get("detail", "auto")})
    if parts:
        items.append({"type": "message", "role": message["role"], "content": parts})
    return items


def in_words(said):
    """What the page says of what the header says: "system@79; looks=time" is "differs at system@79: time"."""
    place, _, more = said.partition("; ")
    return f"differs at {place}: {more.partition('=')[2] or 'changed'}"


# What both APIs have as words (docs/protocols.md).

def message_reason(said):
    kind = re.match("[a-z]+", said)[0]
    return {"model": "model_changed", "tools": "tools_changed", "system": "system_changed", "parameters": "unavailable"}.get(kind, "messages_changed")


def response_reason(said):
    if said.startswith("parameters"):
        return "reasoning_effort_changed" if "reasoning_effort" in said else "unavailable"
    kind = re.match("[a-z]+", said)[0]
    return {"model": "model_changed", "tools": "tools_changed"}.get(kind, "input_changed")


class LostPrefixes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        model = cls.enterClassContext(PrefixModel())
        settings = {"upstream": {"url": model.url, "cache_salt": True}, "answers": {"enabled": False}, "log": {"level": "off"}}
        cls.gateway = cls.enterClassContext(GatewayProcess(settings))
        cls.keys = 0
        cls.page = None
        if not browser.missing():
            cls.page = cls.enterClassContext(browser.Browser())
            cls.page.resize(1360, 1000)
            cls.page.open(f"http://127.0.0.1:{cls.gateway.admin_port}/")

    def both(self, path, earlier, now):
        """The replies to two requests of a new client; the second may be made of the first one's reply."""
        type(self).keys += 1
        key = f"Bearer client-{self.keys}"
        first = self.gateway.post(earlier, path, Authorization=key)
        self.assertEqual(first.status, 200, first.text)
        second = self.gateway.post(now(first.json) if callable(now) else now, path, Authorization=key)
        self.assertEqual(second.status, 200, second.text)
        return second

    def said_of_a_chat(self, earlier, now):
        """(header, decision, page)"""
        reply = self.both(CHAT, earlier, now)
        decision = self.gateway.admin("GET", "/admin/api/decisions?limit=1").json["decisions"][0]
        header = reply.headers["X-Afterimage-Prefix"]
        return header.partition("diverges=")[2], decision["prefix"], self.shown(decision["id"])

    def shown(self, decision):
        """What the page's explanation of a decision says of its prompt."""
        if self.page is None:
            return None
        opener = f"button[data-decision='{decision}']"
        self.page.wait(lambda: self.page.all(opener), "the decision on the page")
        self.page.run("document.querySelector(arguments[0]).click()", opener)
        self.page.wait(lambda: self.page.all("#sheet [data-name=prefix]"), "its explanation")
        said = self.page.text("#sheet [data-name=prefix]")
        self.page.click("#sheet-close")
        self.page.wait(lambda: not self.page.all("#sheet [data-name=prefix]") or not self.page.visible("#sheet"), "the page without it")
        return said

    def said_of_a_message(self, earlier, now):
        try:
            earlier, now = message_of(earlier), message_of(now)
        except CannotSay:
            return None
        reply = self.both("/v1/messages", earlier, lambda first: {**now, "diagnostics": {"previous_message_id": first["id"]}})
        return (reply.json["diagnostics"] or {"cache_miss_reason": None})["cache_miss_reason"]

    def said_of_a_response(self, earlier, now):
        earlier, now = response_of(earlier), response_of(now)
        reply = self.both("/v1/responses", earlier, lambda first: {**now, "prompt_cache_options": {"comparison_response_id": first["id"]}})
        return reply.json["prompt_cache_diagnostics"]

    def test_each_way_to_lose_a_prefix_is_said_right(self):
        rows = []
        for name, earlier, now, expected in WAYS:
            with self.subTest(name):
                header, prefix, page = self.said_of_a_chat(earlier, now)
                message, response = self.said_of_a_message(earlier, now), self.said_of_a_response(earlier, now)
                rows.append((name, header, f"{prefix['part']}, {prefix['change']}, {prefix['looks']}", (page or "").rpartition(" · ")[2],
                             message["type"] if message else "–", response.get("reason", response["type"])))
                self.assertEqual(header, expected)
                self.assertEqual((prefix["reason"], prefix["blame"]), ("diverges", "prompt"), prefix)
                place = prefix["part"] + (f"@{prefix['offset']}" if prefix["offset"] is not None else "")
                words = {"change": "changed", "looks": "none", **dict(one.split("=") for one in expected.split("; ")[1:])}
                self.assertEqual((place, prefix["change"], prefix["looks"]), (expected.split(";")[0], words["change"], words["looks"]))
                self.assertGreater(prefix["lost_by_prompt"], 0)
                if page is not None:
                    self.assertEqual(page.rpartition(" · ")[2], in_words(expected))
                if message is not None:
                    self.assertEqual(message["type"], message_reason(expected))
                    self.assertEqual("cache_missed_input_tokens" in message, message["type"] != "unavailable")
                self.assertEqual(response.get("reason", response["type"]), response_reason(expected))
        self.print_table("lost", rows)

    def test_a_template_that_writes_the_tools_behind_the_system_prompt_changes_none_of_it(self):
        """Of what the system prompt loses the tools are then a part: a server without them has evicted nothing."""
        model = self.enterContext(PrefixModel(system_first=True))
        gateway = self.enterContext(GatewayProcess({"upstream": {"url": model.url, "cache_salt": True}, "answers": {"enabled": False}, "log": {"level": "off"}}))
        many = [tool(f"tool_{i}") for i in range(20)]
        for number, (name, earlier, now, expected) in enumerate(WAYS):
            if expected.startswith(("messages", "media")):
                continue  # behind both
            with self.subTest(name):
                for body in (earlier, now):
                    body = {**body, "tools": body.get("tools", []) + many}
                    reply = gateway.post(body, Authorization=f"Bearer client-{number}")
                    self.assertEqual(reply.status, 200, reply.text)
                prefix = gateway.admin("GET", "/admin/api/decisions?limit=1").json["decisions"][0]["prefix"]
                self.assertEqual((prefix["reason"], prefix["blame"]), ("diverges", "prompt"), prefix)
                self.assertEqual(reply.headers["X-Afterimage-Prefix"].partition("diverges=")[2], expected)

    def test_nothing_is_said_where_nothing_is_lost(self):
        rows = []
        for name, earlier, now, goes_on in CONTROLS:
            with self.subTest(name):
                header, prefix, page = self.said_of_a_chat(earlier, now)
                message, response = self.said_of_a_message(earlier, now), self.said_of_a_response(earlier, now)
                rows.append((name, header or "–", prefix["reason"], "–" if "differs" not in (page or "") else page,
                             message["type"] if message else "null", response.get("reason", response["type"])))
                self.assertEqual(header, "")
                self.assertIn(prefix["reason"], ("kept", "never-seen"))
                self.assertEqual((prefix["part"], prefix["blame"]), (None, "nobody"))
                self.assertNotIn("differs", page or "")
                if goes_on:
                    self.assertIsNone(message)
                    self.assertEqual(response, {"type": "cache_hit"})
                else:  # the client names a prompt that this one does not begin with; it loses next to nothing of it
                    self.assertLess(message["cache_missed_input_tokens"], 16)
                    self.assertLess(response["cache_missed_tokens"], 16)
        self.print_table("kept", rows)

    def print_table(self, what, rows):
        head = (what, "X-Afterimage-Prefix: diverges=", "decision", "page", "Anthropic", "OpenAI")
        widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
        print()
        for row in [head, ["-" * width for width in widths], *rows]:
            print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |")


if __name__ == "__main__":
    unittest.main()
