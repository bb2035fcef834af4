# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
# packages: litellm==1.110.2
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would be downloaded

import litellm  # noqa: E402
from cases import PICTURE_URL, QUESTION, WEATHER, run
from pydantic import BaseModel


class City(BaseModel):
    name: str


TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}


def ask(url, key, messages, **more):
    return litellm.completion(model="openai/m", api_base=f"{url}/v1", api_key=key, messages=messages, **more)


def user(content):
    return [{"role": "user", "content": content}]


def chat(url, key):
    return ask(url, key, user(QUESTION)).choices[0].message.content


def stream(url, key):
    return "".join(piece.choices[0].delta.content or "" for piece in ask(url, key, user(QUESTION), stream=True))


def image(url, key):
    return ask(url, key, user([{"type": "text", "text": QUESTION}, {"type": "image_url", "image_url": {"url": PICTURE_URL}}])).choices[0].message.content


def tools(url, key):
    messages = user(WEATHER)
    called = ask(url, key, messages, tools=[TOOL]).choices[0].message
    messages += [called.model_dump(), {"role": "tool", "tool_call_id": called.tool_calls[0].id, "content": "21 degrees"}]
    return ask(url, key, messages, tools=[TOOL]).choices[0].message.content


def schema(url, key):
    return ask(url, key, user(QUESTION), response_format=City).choices[0].message.content


run(globals())
