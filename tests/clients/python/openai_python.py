# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
# packages: openai==3.57.0
import openai
import pydantic
from cases import PICTURE_URL, QUESTION, WEATHER, run


class City(pydantic.BaseModel):
    name: str


TOOL = {"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}}}


def user(content):
    return {"role": "user", "content": content}


def chat(_url, _key):
    return openai.OpenAI().chat.completions.create(model="m", messages=[user(QUESTION)]).choices[0].message.content


def stream(_url, _key):
    events = openai.OpenAI().chat.completions.create(model="m", messages=[user(QUESTION)], stream=True)
    return "".join(event.choices[0].delta.content or "" for event in events if event.choices)


def image(_url, _key):
    parts = [{"type": "text", "text": QUESTION}, {"type": "image_url", "image_url": {"url": PICTURE_URL}}]
    return openai.OpenAI().chat.completions.create(model="m", messages=[user(parts)]).choices[0].message.content


def tools(_url, _key):
    client, messages = openai.OpenAI(), [user(WEATHER)]
    called = client.chat.completions.create(model="m", messages=messages, tools=[TOOL]).choices[0].message
    messages += [called, {"role": "tool", "tool_call_id": called.tool_calls[0].id, "content": "21 degrees"}]
    return client.chat.completions.create(model="m", messages=messages, tools=[TOOL]).choices[0].message.content


def schema(_url, _key):
    return openai.OpenAI().chat.completions.parse(model="m", messages=[user(QUESTION)], response_format=City).choices[0].message.parsed.name


run(globals())
