# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Text of prompts in the memory of `serve` after the requests have ended: none that nothing keeps on purpose. The allocators are told
to overwrite what is freed, so that only what is still kept is found."""
import os
import pathlib
import re
import sys
import unittest

from gateway_process import GatewayProcess, GatewayTestCase, merged
from mock_model import MockModel

RULES = "You repair programs. Read a file before you change it, and run the tests after that. " * 40
OVERWRITE = {"ASAN_OPTIONS": "max_free_fill_size=1073741824:free_fill_byte=190:quarantine_size_mb=0:thread_local_quarantine_size_kb=0",
             "GLIBC_TUNABLES": "glibc.malloc.perturb=190:glibc.malloc.tcache_count=0"}


def places(pid, text):
    """Where a process has a text in its memory: the names of the mappings."""
    found = []
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
            begin, end, mode, name = re.fullmatch(r"(\w+)-(\w+) (\S+) \S+ \S+ \S+\s*(.*)", line).groups()
            if "r" not in mode or "w" not in mode or name.startswith("/"):
                continue
            begin, end = int(begin, 16), int(end, 16)
            if end - begin > 1 << 36:  # a sanitizer's shadow holds no text
                continue
            found += [name or "anonymous"] * occurrences(memory, pid, begin, end, text.encode())
    return found


def occurrences(memory, pid, begin, end, text):
    count = 0
    for chunk_begin, chunk in resident(memory, pid, begin, end):
        count += chunk.count(text)
    return count


def resident(memory, pid, begin, end):
    """Runs of pages that are in memory."""
    page = os.sysconf("SC_PAGE_SIZE")
    with open(f"/proc/{pid}/pagemap", "rb", 0) as pages:
        pages.seek(begin // page * 8)
        flags = pages.read((end - begin) // page * 8)
    run = None
    for i in range(0, len(flags) // 8 + 1):
        is_here = i < len(flags) // 8 and flags[8 * i + 7] & 0xC0
        if is_here and run is None:
            run = i
        if not is_here and run is not None:
            memory.seek(begin + run * page)
            yield begin + run * page, memory.read((i - run) * page)
            run = None


SENTENCES = {"tool": "Planted in the description of a tool.", "system": "Planted in the system prompt:", "question": "Planted in a question?"}


def chat_of(turn, stream):
    return {"model": "mock-small", "temperature": 0, "stream": stream,
            "tools": [{"type": "function", "function": {"name": "read", "description": f"{RULES} {SENTENCES['tool']}"}}],
            "messages": [{"role": "system", "content": f"{RULES} {SENTENCES['system']} session {turn}17. {RULES}"},
                         {"role": "user", "content": f"{RULES} {SENTENCES['question']}"}]}


def message_of(turn, stream):
    chat = chat_of(turn, stream)
    system, question = chat["messages"]
    return {"model": "mock-small", "temperature": 0, "max_tokens": 50, "stream": stream, "system": system["content"], "messages": [question],
            "tools": [{"name": "read", "description": chat["tools"][0]["function"]["description"], "input_schema": {"type": "object"}}]}


def response_of(turn, stream):
    chat = chat_of(turn, stream)
    system, question = chat["messages"]
    return {"model": "mock-small", "temperature": 0, "stream": stream, "store": False, "instructions": system["content"], "input": [question],
            "tools": [{"type": "function", **chat["tools"][0]["function"]}]}


def long_chat_of(turn, stream):
    chat = chat_of(turn, stream)
    chat["messages"].insert(1, {"role": "user", "content": RULES * 100})  # compared on a thread of its own
    return chat


REQUESTS = {"/v1/chat/completions": chat_of, "/v1/messages": message_of, "/v1/responses": response_of, "/v1/chat/completions?long": long_chat_of}


@unittest.skipUnless(sys.platform == "linux", "the memory of a process is read as Linux shows it")
class KeptText(GatewayTestCase):
    def gateway_with(self, settings):
        return self.enterContext(GatewayProcess(merged({"upstream": {"url": self.mock.url}, "log": {"level": "off"}}, settings), environment=OVERWRITE))

    def found(self, gateway):
        """Which of the planted sentences a gateway has in its memory, and how often."""
        return {name: count for name, sentence in SENTENCES.items() if (count := len(places(gateway.process.pid, sentence)))}

    def ask(self, gateway, path, stream, **headers):
        """Two requests whose system prompts part, and others, which use the buffers of connections and threads again."""
        for _ in range(2):
            self.turns = getattr(self, "turns", 9) + 1
            reply = gateway.post(REQUESTS[path](self.turns, stream), path.partition("?")[0], **headers)
            self.assertEqual(reply.status, 200, reply.text)
        self.assertIn("diverges=", reply.headers["X-Afterimage-Prefix"])
        for i in range(4):
            gateway.post({"model": "mock-small", "temperature": 0, "messages": [{"role": "user", "content": f"Something else {i} " + "x" * 20000}]})
        gateway.wait_for(lambda: gateway.metric("afterimage_requests_in_flight") == 0, "the end of all requests")

    def assert_keeps_nothing(self, settings, **headers):
        gateway = self.gateway_with(settings)
        for path in REQUESTS:
            for stream in (False, True):
                with self.subTest(path=path, stream=stream):
                    self.ask(gateway, path, stream, **headers)
                    self.assertEqual(self.found(gateway), {})

    def test_with_answers_off_no_text_of_a_prompt_is_kept(self):
        self.assert_keeps_nothing({"answers": {"enabled": False}})

    def test_no_text_of_a_request_that_says_no_store_is_kept(self):
        self.assert_keeps_nothing({}, Cache_Control="no-store")

    def test_stored_answers_keep_their_questions_and_no_more_until_they_are_erased(self):
        gateway = self.gateway_with({})
        self.ask(gateway, "/v1/chat/completions", False)
        self.assertEqual(set(self.found(gateway)), {"question"})
        self.assertEqual(gateway.admin("POST", "/admin/api/erase", {"tenant": "anonymous"}).status, 200)
        self.assertEqual(self.found(gateway), {})

    def test_keep_text_keeps_what_stands_around_the_place_that_changed_until_it_is_erased(self):
        gateway = self.gateway_with({"answers": {"enabled": False}, "explain": {"keep_text": True}})
        self.ask(gateway, "/v1/chat/completions", False)
        self.assertEqual(self.found(gateway), {"system": 1})
        causes = gateway.admin("GET", "/admin/api/stats").json["requests"]["prefix_causes"]
        (cause,) = [cause for cause in causes if cause.get("part") == "system"]
        self.assertIn(SENTENCES["system"] + " session ", cause["example"]["before"])
        self.assertEqual(gateway.admin("POST", "/admin/api/erase", {"tenant": "anonymous"}).status, 200)
        self.assertEqual(self.found(gateway), {})


if __name__ == "__main__":
    unittest.main()
