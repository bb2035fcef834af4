# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""No text of a prompt is kept to say later why one missed: the whole memory of a gateway is searched for a sentence of an earlier prompt.
A request that is still being answered has it, which shows that the search finds what is there."""
import os
import threading
import time
import unittest

from caching_model import CachingModel
from gateway_process import GatewayProcess, GatewayTestCase

PLANTED = "The heron at the weir counts seven grey stones before it flies. "
# AddressSanitizer, where it is built in, keeps freed memory and its own large tables: it shall overwrite what is freed.
SANITIZER = {"ASAN_OPTIONS": ":".join(filter(None, (os.environ.get("ASAN_OPTIONS"), "quarantine_size_mb=0", "thread_local_quarantine_size_kb=0",
                                                    "max_free_fill_size=1073741824")))}
LARGEST = 1 << 32  # bytes of a piece of memory: the sanitizer's tables are larger
RULES = "You repair programs. Read a file before you change it, and run the tests after that. " * 60


def times_in_memory(pid, text):
    """How often the text stands in the memory that the process can write to."""
    found = 0
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps, open(f"/proc/{pid}/mem", "rb") as memory:
        for line in maps:
            place, rights = line.split()[:2]
            begin, end = (int(number, 16) for number in place.split("-"))
            if not rights.startswith("rw") or end - begin > LARGEST:
                continue
            memory.seek(begin)
            try:
                found += memory.read(end - begin).count(text.encode())
            except OSError:  # pages of the kernel's
                continue
    return found


class KeptText(GatewayTestCase):
    def ask(self, gateway, number, sentence):
        # The sentence is in the middle: decisions show the first 200 bytes of a question, unless the operator hides them.
        messages = [{"role": "system", "content": RULES + sentence + RULES}, {"role": "user", "content": f"{number}. {RULES}{sentence}{RULES}"}]
        return gateway.post({"model": "mock-small", "messages": messages}, timeout=60)

    def times_found(self, explain):
        """(during the request whose prompt has the sentence, after many others)."""
        model = self.enterContext(CachingModel())
        settings = {"upstream": {"url": model.url}, "answers": {"enabled": False}, "explain": explain, "log": {"level": "off"}}
        gateway = self.enterContext(GatewayProcess(settings, environment=SANITIZER))
        pid = gateway.process.pid
        self.assertEqual(self.ask(gateway, 0, "A first sentence, of which nobody looks for anything. ").status, 200)
        self.assertEqual(times_in_memory(pid, PLANTED), 0)
        model.prefill = 1.0
        asking = threading.Thread(target=self.ask, args=(gateway, 1, PLANTED))
        asking.start()
        until, live = time.monotonic() + 10, 0
        while live == 0 and time.monotonic() < until:
            live = times_in_memory(pid, PLANTED)
        asking.join()
        model.prefill = 0.0
        for number in range(2, 60):  # whose requests take the memory that was freed
            self.assertEqual(self.ask(gateway, number, f"Sentence {number} of another prompt, as long as that of the first one. ").status, 200)
        prefix = gateway.admin("GET", "/admin/api/decisions").json["decisions"][-1]["prefix"]
        self.assertEqual((prefix["part"], prefix["reason"]), ("system", "diverges"), prefix)  # earlier prompts are known
        return live, times_in_memory(pid, PLANTED)

    def test_an_earlier_prompt_is_nowhere_in_memory(self):
        live, left = self.times_found({})
        print(f"the planted sentence is {live} times in memory during its request, {left} times after 58 others")
        self.assertGreater(live, 0)
        self.assertEqual(left, 0)

    def test_an_example_is_kept_where_the_operator_wants_that(self):
        self.assertGreater(self.times_found({"keep_text": True})[1], 0)


if __name__ == "__main__":
    unittest.main()
