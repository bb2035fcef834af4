# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
# packages: openai==3.57.0
import openai
import pydantic
from cases import PICTURE_URL, QUESTION, WEATHER, run


class City(pydantic.BaseModel):
    name: str


TOOL = {"type": "function", "name": "weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}}


def chat(_url, _key):
    return openai.OpenAI().responses.create(model="m", input=QUESTION).output_text


def stream(_url, _key):
    with openai.OpenAI().responses.stream(model="m", input=QUESTION) as events:
        return "".join(event.delta for event in events if event.type == "response.output_text.delta")


def image(_url, _key):
    parts = [{"type": "input_text", "text": QUESTION}, {"type": "input_image", "image_url": PICTURE_URL}]
    return openai.OpenAI().responses.create(model="m", input=[{"role": "user", "content": parts}]).output_text


def tools(_url, _key):
    client, items = openai.OpenAI(), [{"role": "user", "content": WEATHER}]
    called = client.responses.create(model="m", input=items, tools=[TOOL], store=False)
    call = next(item for item in called.output if item.type == "function_call")
    items += [*called.output, {"type": "function_call_output", "call_id": call.call_id, "output": "21 degrees"}]
    return client.responses.create(model="m", input=items, tools=[TOOL], store=False).output_text


def schema(_url, _key):
    return openai.OpenAI().responses.parse(model="m", input=QUESTION, text_format=City).output_parsed.name


run(globals())
