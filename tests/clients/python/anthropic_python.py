# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
# packages: anthropic==2.14.0
import anthropic
import pydantic
from cases import PICTURE, QUESTION, WEATHER, run


class City(pydantic.BaseModel):
    name: str


TOOL = {"name": "weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}


def asked(content, **more):
    return {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": content}], **more}


def chat(_url, _key):
    return anthropic.Anthropic().messages.create(**asked(QUESTION)).content[0].text


def stream(_url, _key):
    with anthropic.Anthropic().messages.stream(**asked(QUESTION)) as events:
        return "".join(events.text_stream)


def image(_url, _key):
    source = {"type": "base64", "media_type": "image/png", "data": PICTURE}
    return anthropic.Anthropic().messages.create(**asked([{"type": "image", "source": source}, {"type": "text", "text": QUESTION}])).content[0].text


def tools(_url, _key):
    client, request = anthropic.Anthropic(), asked(WEATHER, tools=[TOOL])
    called = client.messages.create(**request)
    call = next(block for block in called.content if block.type == "tool_use")
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "21 degrees"}
    request["messages"] += [{"role": "assistant", "content": called.content}, {"role": "user", "content": [result]}]
    return client.messages.create(**request).content[0].text


def schema(_url, _key):
    return anthropic.Anthropic().messages.parse(**asked(QUESTION), output_format=City).parsed_output.name


run(globals())
