# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
# packages: llama-index-llms-openai-like==0.8.1
from cases import PICTURE_URL, QUESTION, WEATHER, run
from llama_index.core.llms import ChatMessage, ImageBlock, TextBlock
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel


class City(BaseModel):
    name: str


def weather(city: str) -> str:
    """How warm it is in a city."""
    return "21 degrees"


def model(url, key):
    return OpenAILike(model="m", api_base=f"{url}/v1", api_key=key, is_chat_model=True, is_function_calling_model=True)


def chat(url, key):
    return model(url, key).chat([ChatMessage(role="user", content=QUESTION)]).message.content


def stream(url, key):
    return "".join(piece.delta or "" for piece in model(url, key).stream_chat([ChatMessage(role="user", content=QUESTION)]))


def image(url, key):
    blocks = [TextBlock(text=QUESTION), ImageBlock(url=PICTURE_URL)]
    return model(url, key).chat([ChatMessage(role="user", blocks=blocks)]).message.content


def tools(url, key):
    return str(model(url, key).predict_and_call([FunctionTool.from_defaults(weather)], user_msg=WEATHER)) + " in Rome"


def schema(url, key):
    return model(url, key).as_structured_llm(City).complete(QUESTION).raw.name


run(globals())
