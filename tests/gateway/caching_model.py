# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The mock model server with a prefix cache and an encoder cache: it computes one prompt after the other, block by block, skips
the blocks that it has, encodes the pictures that it has not, and reports cached tokens. A block is a text of a message or a
media item; of PromptPrefixes, 16 tokens of the prompt as a template renders it."""
import collections
import hashlib
import json
import os
import threading
import time

from mock_model import MockModel

TOKENS = 100  # of each block


class CachingModel(MockModel):
    def __init__(self, port=0, capacity=1000, prefill=0.0, pictures=100, encode=0.0):
        super().__init__(port)
        self.capacity, self.prefill = capacity, prefill  # blocks; seconds for each
        self.pictures, self.encode = pictures, encode  # encoder outputs; seconds for each
        self.blocks, self.outputs = collections.OrderedDict(), collections.OrderedDict()
        self.cache_lock, self.computes = threading.Lock(), threading.Lock()
        self.asked = self.cached = 0  # blocks
        self.seen = self.encoded = 0  # pictures
        self.busy, self.queued = 0.0, 0.0  # seconds: ever, and before a new request
        model = self

        class Handler(self.server.RequestHandlerClass):
            def obey_before_the_head(self):
                self.counts = model.read(self.body)
                super().obey_before_the_head()

            def usage(self, texts):
                cached, asked = self.counts
                return {**super().usage(texts), "prompt_tokens": asked * TOKENS, "prompt_tokens_details": {"cached_tokens": cached * TOKENS}}

        self.server.RequestHandlerClass = Handler

    @staticmethod
    def keys_of(body):
        """(the key of each block, in which everything before it is hashed; the keys of its pictures by their place)."""
        keys, pictures, key = [], {}, ""
        for message in body.get("messages", []):
            content = message.get("content") or ""
            for part in [content] if isinstance(content, str) else content:
                text = json.dumps(part)
                key = hashlib.sha256((key + message["role"] + text).encode()).hexdigest()
                if not isinstance(part, str) and part.get("type") == "image_url":
                    pictures[len(keys)] = hashlib.sha256(text.encode()).hexdigest()
                keys.append(key)
        return keys, pictures

    def cost(self, keys, pictures):
        """(blocks that are cached, pictures to encode, seconds to compute)."""
        cached = 0
        while cached < len(keys) and keys[cached] in self.blocks:
            cached += 1
        encodes = {one for place, one in pictures.items() if place >= cached and one not in self.outputs}
        return cached, len(encodes), self.prefill * (len(keys) - cached) + self.encode * len(encodes)

    def read(self, body):
        """(blocks that were cached, blocks) of a request, which are cached afterwards."""
        keys, pictures = self.keys_of(body)
        with self.cache_lock:
            cached, encodes, seconds = self.cost(keys, pictures)
            self.keep(self.blocks, reversed(keys), self.capacity)
            self.keep(self.outputs, pictures.values(), self.pictures)
            self.asked += len(keys)
            self.cached += cached
            self.seen += len(pictures)
            self.encoded += encodes
            self.busy += seconds
            self.queued += seconds
        with self.computes:  # one prompt after the other
            time.sleep(seconds)
        with self.cache_lock:
            self.queued -= seconds
        return cached, len(keys)

    def forget_counts(self):
        """Counts begin again, and caches are empty."""
        with self.cache_lock:
            self.blocks.clear()
            self.outputs.clear()
            self.asked = self.cached = self.seen = self.encoded = 0
            self.busy = self.queued = 0.0

    @staticmethod
    def keep(cache, keys, capacity):
        for one in keys:
            cache[one] = True
            cache.move_to_end(one)
        while len(cache) > capacity:
            cache.popitem(last=False)


class PromptPrefixes:
    """Reuses the beginning of every prompt that it has read, in blocks of 16 tokens of 4 characters. Everything that templates render
    is part of it: the model, parameters of the template, tools, and messages with reasoning, tool calls and pictures."""

    BLOCK = 64  # characters
    PARAMETERS = ("cache_salt", "chat_template", "chat_template_kwargs", "reasoning_effort")

    def __init__(self, system_first=False):
        """`system_first`: the template writes the tools behind the system prompt, as Qwen's does."""
        self.system_first = system_first
        self.prompts, self.lock = [], threading.Lock()

    def rendered(self, body):
        # Models are computed apart, and so are salts.
        head = "".join(f"{name}={json.dumps(body[name])}\n" for name in ("model", *self.PARAMETERS) if name in body)
        tools = "" if body.get("tool_choice") == "none" else "".join(json.dumps(tool) for tool in body.get("tools", []))
        messages = [self.message(message) for message in body["messages"]]
        at = int(self.system_first and body["messages"][0]["role"] == "system")
        return head + "".join([*messages[:at], tools, *messages[at:]])

    @classmethod
    def message(cls, message):
        content = message.get("content") or ""
        text = f"<{message['role']}>{message.get('reasoning_content', '')}"
        text += "".join(cls.part(part) for part in ([{"type": "text", "text": content}] if isinstance(content, str) else content))
        return text + "".join(json.dumps(call["function"]) for call in message.get("tool_calls") or [])

    @staticmethod
    def part(part):
        """A picture has a thousand tokens."""
        return part["text"] if part["type"] == "text" else hashlib.sha256(json.dumps(part).encode()).hexdigest() * 64

    def read(self, body):
        """(tokens that were cached, tokens) of a request, which is cached afterwards."""
        text = self.rendered(body)
        with self.lock:
            shared = max((len(os.path.commonprefix([text, known])) for known in self.prompts), default=0)
            self.prompts.append(text)
        # The last token is always computed.
        return min(shared, len(text) - 1) // self.BLOCK * self.BLOCK // 4, len(text) // 4


class PrefixModel(MockModel):
    """A mock model server with the cache of PromptPrefixes."""

    def __init__(self, port=0, system_first=False):
        super().__init__(port)
        prefixes = PromptPrefixes(system_first)

        class Handler(self.server.RequestHandlerClass):
            def obey_before_the_head(self):
                self.counts = prefixes.read(self.body)
                super().obey_before_the_head()

            def usage(self, texts):
                cached, asked = self.counts
                return {**super().usage(texts), "prompt_tokens": asked, "prompt_tokens_details": {"cached_tokens": cached}}

        self.server.RequestHandlerClass = Handler
