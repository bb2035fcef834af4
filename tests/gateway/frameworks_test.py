# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""LangChain's and LlamaIndex's OpenAI classes, unmodified, on `afterimage serve --engine llama`: make test-frameworks."""
import os
import pathlib
import sys
import unittest

from gateway_process import GatewayProcess, GatewayTestCase, calling

HERE = pathlib.Path(__file__).resolve().parent
MODEL = pathlib.Path(os.environ.get("AFTERIMAGE_LLAMA_MODEL", HERE / "no model"))


@unittest.skipUnless(MODEL.exists(), "the program is built without llama.cpp")
class Frameworks(GatewayTestCase):
    SETTINGS = {}

    @classmethod
    def start(cls):
        cls.gateway = cls.kept.enter_context(GatewayProcess({}, arguments=[
            "--engine", "llama", "--model", str(MODEL), "--context", "1024",
            "--chat-template", (HERE / "clients/tools.jinja").read_text()]))
        cls.calls = calling(cls.gateway)
        cls.where = {"base_url": cls.gateway.base_url, "api_key": "key"}

    def test_langchain(self):
        from langchain_core.messages import HumanMessage, ToolMessage
        from langchain_core.tools import tool
        from langchain_openai import ChatOpenAI, OpenAIEmbeddings
        from pydantic import BaseModel

        @tool
        def lamp(on: bool) -> str:
            """Switches a lamp."""
            return "on" if on else "off"

        class Lamp(BaseModel):
            on: bool

        model = ChatOpenAI(model="dense", temperature=0.7, seed=1, max_tokens=200, **self.where)
        whole = model.invoke("the river", max_tokens=8)
        self.assertEqual(whole.usage_metadata["output_tokens"], 8)
        self.assertEqual("".join(piece.content for piece in model.stream("the river", max_tokens=8)), whole.content)
        asked = [HumanMessage("the lamp")]
        called = model.bind_tools([lamp], tool_choice="required").invoke(asked, logit_bias=self.calls)
        [call] = called.tool_calls
        answer = lamp.invoke(call["args"])
        after = model.bind_tools([lamp]).invoke([*asked, called, ToolMessage(answer, tool_call_id=call["id"])], max_tokens=8)
        self.assertGreater(after.usage_metadata["input_tokens"], called.usage_metadata["input_tokens"])
        self.assertIsInstance(model.with_structured_output(Lamp, method="json_schema").invoke("the lamp").on, bool)
        vectors = OpenAIEmbeddings(model="dense", check_embedding_ctx_length=False, **self.where).embed_documents(["a", "b"])
        self.assertEqual(len(vectors), 2)

    def test_llama_index(self):
        from llama_index.core.llms import ChatMessage
        from llama_index.core.tools import FunctionTool
        from llama_index.embeddings.openai_like import OpenAILikeEmbedding
        from llama_index.llms.openai_like import OpenAILike

        def lamp(on: bool) -> str:
            """Switches a lamp."""
            return "on" if on else "off"

        where = {"api_base": self.gateway.base_url, "api_key": "key"}
        model = OpenAILike(model="dense", is_chat_model=True, is_function_calling_model=True, temperature=0.7, max_tokens=200,
                           additional_kwargs={"seed": 1}, context_window=1024, **where)
        asked = [ChatMessage(role="user", content="the river")]
        whole = model.chat(asked, max_tokens=8).message.content
        self.assertTrue(whole)
        self.assertEqual("".join(piece.delta or "" for piece in model.stream_chat(asked, max_tokens=8)), whole)
        called = model.chat_with_tools([FunctionTool.from_defaults(lamp)], user_msg="the lamp", tool_required=True, logit_bias=self.calls)
        [call] = model.get_tool_calls_from_response(called)
        self.assertIsInstance(call.tool_kwargs["on"], bool)
        self.assertTrue(model.complete("Once upon a time", max_tokens=8).text)
        self.assertEqual(len(OpenAILikeEmbedding(model_name="dense", **where).get_text_embedding_batch(["a", "b"])), 2)


if __name__ == "__main__":
    os.environ["NO_PROXY"] = "127.0.0.1"
    sys.path.insert(0, str(HERE))
    unittest.main()
