# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The caching model as vLLM: its prompts are tokens, its KV events name them, and it renders or tokenizes a chat on request."""
import hashlib
import itertools
import json
import threading

from caching_model import CachingModel
from kv_publisher import KvPublisher, removed

BLOCK = 16  # tokens
PICTURE_TOKENS = 40
PLACEHOLDER = 9


class FakeVllm:
    """`renders`: as with --enable-scale-out; else only /tokenize is there, which does not know media."""

    def __init__(self, renders=True, port=0):
        self.renders, self.rendered, self.tokenized = renders, 0, 0
        self.lies = None  # a function of the prompt's tokens, if it lies about them
        self.awake, self.slept_at = threading.Event(), 0  # chats wait until it is awake
        self.awake.set()
        self.cleared = False  # its cache was, and no event has said so yet
        self.late = None  # a list: events are kept there and not published
        self.model, self.publisher = CachingModel(port), KvPublisher(topics=True)
        self.held, self.lock = {}, threading.Lock()
        vllm = self

        class Handler(self.model.server.RequestHandlerClass):
            def do_GET(self):
                if self.path != "/metrics":
                    return super().do_GET()
                text = vllm.metrics().encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def obey_before_the_head(self):
                if not vllm.awake.is_set():
                    self.wait_at(vllm.awake)
                super().obey_before_the_head()

            def do_POST(self):
                path = self.path.split("?")[0]
                if path not in ("/v1/chat/completions/render", "/tokenize"):
                    return super().do_POST()
                said = vllm.told(path, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                text = json.dumps(said or {"error": {"message": "Not Found"}}).encode()
                self.send_response(200 if said else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

        self.model.server.RequestHandlerClass = Handler
        read = self.model.read

        def read_and_publish(body):
            counts = read(body)
            vllm.compute(body)
            return counts
        self.model.read = read_and_publish

    def __enter__(self):
        self.model.__enter__()
        return self

    def __exit__(self, *failed):
        self.publisher.__exit__()
        self.model.__exit__(*failed)

    @property
    def url(self):
        return self.model.url

    def options(self, replay=True):
        return f"events={self.publisher.events}" + (f" replay={self.publisher.replay}" if replay else "")

    def metrics(self):
        """As vLLM 0.32 says it: level 0 and a released KV cache are neither of the two others."""
        states = {"awake": self.awake.is_set(), "weights_offloaded": self.slept_at == 1, "discard_all": self.slept_at == 2}
        lines = [f'vllm:engine_sleep_state{{engine="0",model_name="mock-small",sleep_state="{name}"}} {float(holds)}' for name, holds in states.items()]
        return "\n".join(["# HELP vllm:engine_sleep_state Engine sleep state", "# TYPE vllm:engine_sleep_state gauge", *lines,
                          'vllm:num_requests_running{engine="0",model_name="mock-small"} 0.0', ""])

    def sleep(self, level=1):
        """POST /sleep: /health still says 200, chats wait, and the event of the cleared cache waits for the next step of the engine."""
        self.slept_at = level
        self.awake.clear()
        if level > 0:
            self.wipe()
            self.cleared = True

    def wake_up(self):
        self.slept_at = 0
        self.awake.set()

    def wipe(self):
        """The cache is gone, and no event says so."""
        with self.lock, self.model.cache_lock:
            self.held.clear()
            self.model.blocks.clear()

    @staticmethod
    def tokens_of(body):
        """(token ids; the offset and the identifier of each picture). A token for a role, and for every four bytes of a text."""
        tokens, media = [], []

        def text(said):
            tokens.extend(100 + int.from_bytes(hashlib.sha256(said[at:at + 4].encode()).digest()[:2], "big") for at in range(0, len(said), 4))
        for message in body["messages"]:
            tokens.append({"system": 1, "user": 2, "assistant": 3}[message["role"]])
            content = message["content"]
            for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
                if part["type"] == "text":
                    text(part["text"])
                else:
                    media.append((len(tokens), hashlib.sha256(part["image_url"]["url"].encode()).hexdigest()))
                    tokens.extend([PLACEHOLDER] * PICTURE_TOKENS)
        return [*tokens, 4], media

    def told(self, path, body):
        tokens, media = self.tokens_of(body)
        if self.lies is not None:
            tokens = self.lies(tokens)
        if path == "/tokenize":
            self.tokenized += 1
            return {"tokens": tokens, "count": len(tokens)}
        if not self.renders:
            return None
        assert body["mm_payload"] == "none"
        self.rendered += 1
        features = {"mm_hashes": {"image": [name for _, name in media]}, "kwargs_data": None,
                    "mm_placeholders": {"image": [{"offset": offset, "length": PICTURE_TOKENS} for offset, _ in media]}}
        return {"token_ids": tokens, "features": features if media else None, "cache_salt": body.get("cache_salt")}

    def blocks(self, body):
        """(its hash, its tokens, its extra keys) of each whole block."""
        tokens, media = self.tokens_of(body)
        before, salt = "", body.get("cache_salt")
        for begin in range(0, len(tokens) - BLOCK + 1, BLOCK):
            its = tokens[begin:begin + BLOCK]
            extra = [[name, offset - begin] for offset, name in media if offset < begin + BLOCK and offset + PICTURE_TOKENS > begin]
            if begin == 0 and salt:
                extra.append(salt)
            before = hashlib.sha256(json.dumps([before, its, extra]).encode()).hexdigest()
            yield int(before[:15], 16), its, extra or None

    def compute(self, body):
        """Announces the blocks of this prompt that are new, as vLLM does."""
        with self.lock:
            parent, new = None, []
            for block, tokens, extra in self.blocks(body):
                if block in self.held:
                    parent = block
                    continue
                self.held[block] = True
                new.append((block, tokens, extra))
            events = [{"type": "AllBlocksCleared"}] if self.cleared else []
            self.cleared = False
            if new:
                events.append(self.stored(parent, new))
            if events and self.late is not None:
                self.late.extend(events)
            elif events:
                self.publisher.publish(*events)

    @staticmethod
    def stored(parent, blocks):
        return {"type": "BlockStored", "block_hashes": [block for block, _, _ in blocks], "parent_block_hash": parent,
                "token_ids": list(itertools.chain.from_iterable(tokens for _, tokens, _ in blocks)), "block_size": BLOCK, "lora_id": None,
                "medium": "GPU", "lora_name": None, "extra_keys": [extra for _, _, extra in blocks], "group_idx": 0}

    def evict(self, body, keep=0):
        """Announces that the blocks of this prompt went, from its end, but for the first `keep`."""
        with self.lock:
            gone = [block for block, _, _ in self.blocks(body)][keep:]
            for block in gone:
                self.held.pop(block, None)
            self.publisher.publish(removed(*reversed(gone)))
