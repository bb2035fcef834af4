# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""`afterimage serve --engine llama` and Claude Code, whose system prompt begins with a line that changes with every request:
nothing of the prompt behind that line could be resumed."""
import os
import pathlib
import unittest
import unittest.mock

import gateway_process
from gateway_process import CHAT, GatewayProcess, GatewayTestCase

MODELS = pathlib.Path(os.environ.get("AFTERIMAGE_LLAMA_MODEL", "")).parent
RULES = " ".join(f"Rule {number}: when a file is changed, read it again before you say what is in it." for number in range(25))
# A large model under the sanitizers.
PATIENCE = 400


def request(path, line, turns):
    """A request with the `line`-th billing line. `turns` are the texts of the user and the assistant in turn."""
    billing = f"x-anthropic-billing-header: cc_version=2.1.{line}; cc_entrypoint=cli; cch={line * 7919:05x};"
    messages = [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(turns)]
    body = {"model": "m", "temperature": 0}
    if path == "/v1/messages":
        return {**body, "max_tokens": 4, "system": [{"type": "text", "text": billing}, {"type": "text", "text": RULES}], "messages": messages}
    if path == "/v1/responses":
        return {**body, "max_output_tokens": 16, "instructions": f"{billing}\n{RULES}", "input": messages}
    return {**body, "max_tokens": 4, "messages": [{"role": "system", "content": f"{billing}\n{RULES}"}, *messages]}


def resumed(path, usage):
    """The share of the prompt."""
    if path == "/v1/messages":
        return usage["cache_read_input_tokens"] / (usage["input_tokens"] + usage["cache_read_input_tokens"])
    if path == "/v1/responses":
        return usage["input_tokens_details"]["cached_tokens"] / usage["input_tokens"]
    return usage["prompt_tokens_details"]["cached_tokens"] / usage["prompt_tokens"]


class BillingLines(GatewayTestCase):
    @classmethod
    def start(cls):
        cls.kept.enter_context(unittest.mock.patch.object(gateway_process, "PATIENCE", PATIENCE))

    def tearDown(self):
        pass

    def assert_resumes(self, model, paths):
        if not (MODELS / model).exists():
            self.skipTest(f"there is no {MODELS / model}")
        with GatewayProcess({}, arguments=["--engine", "llama", "--model", str(MODELS / model), "--context", "2048"]) as gateway:
            line = 0
            for path in paths:
                first, next_turn = [f"Why {path}?"], [f"Why {path}?", "Because it is.", "And then?"]
                for turns, control, cache in ((first, "", "MISS"), (first, "", "HIT"), (first, "no-cache", "REFRESH"), (next_turn, "", "MISS")):
                    line += 1
                    reply = gateway.post(request(path, line, turns), path, timeout=PATIENCE, **{"Cache-Control": control} if control else {})
                    self.assertEqual((reply.status, reply.cache), (200, cache), reply.text)
                    self.assertTrue(reply.headers["X-Afterimage-Ignored"], "the line is named")
                    if cache == "REFRESH" or turns == next_turn:
                        self.assertGreaterEqual(resumed(path, reply.json["usage"]), 0.95, f"{model}, {path}, {turns}")

    def test_gemma_resumes_the_prompt(self):
        """Its file has no chat template."""
        self.assert_resumes("gemma-3-270m-q4_k_m.gguf", ["/v1/messages"])

    def test_a_small_model_resumes_the_prompt(self):
        self.assert_resumes("dense.gguf", ["/v1/messages", CHAT, "/v1/responses"])

    def test_a_model_with_a_sliding_window_resumes_the_prompt(self):
        self.assert_resumes("sliding.gguf", ["/v1/messages", CHAT, "/v1/responses"])


if __name__ == "__main__":
    unittest.main()
