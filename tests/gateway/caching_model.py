# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The mock model server with a prefix cache: it prefills one prompt after the other, block by block, skips the blocks that it
has, and reports cached tokens. A block is a text of a message or a media item."""
import collections
import hashlib
import json
import threading
import time

from mock_model import MockModel

TOKENS = 100  # of each block


class CachingModel(MockModel):
    def __init__(self, port=0, capacity=1000, prefill=0.0):
        super().__init__(port)
        self.capacity, self.prefill = capacity, prefill  # blocks; seconds for each
        self.blocks = collections.OrderedDict()
        self.cache_lock = threading.Lock()
        self.asked = self.cached = 0  # blocks
        model = self

        class Handler(self.server.RequestHandlerClass):
            def obey_before_the_head(self):
                self.counts = model.read(self.body)
                super().obey_before_the_head()

            def usage(self, texts):
                cached, asked = self.counts
                return {**super().usage(texts), "prompt_tokens": asked * TOKENS, "prompt_tokens_details": {"cached_tokens": cached * TOKENS}}

        self.server.RequestHandlerClass = Handler

    def read(self, body):
        """(blocks that were cached, blocks) of a request, which are cached afterwards."""
        keys, key = [], ""
        for message in body.get("messages", []):
            content = message.get("content") or ""
            for part in [content] if isinstance(content, str) else content:
                key = hashlib.sha256((key + message["role"] + json.dumps(part)).encode()).hexdigest()
                keys.append(key)
        with self.cache_lock:
            cached = 0
            while cached < len(keys) and keys[cached] in self.blocks:
                cached += 1
            time.sleep(self.prefill * (len(keys) - cached))
            for one in reversed(keys):
                self.blocks[one] = True
                self.blocks.move_to_end(one)
            while len(self.blocks) > self.capacity:
                self.blocks.popitem(last=False)
            self.asked += len(keys)
            self.cached += cached
        return cached, len(keys)
