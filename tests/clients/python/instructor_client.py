# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
# packages: instructor==1.17.0
import instructor
import openai
from cases import PICTURE_URL, QUESTION, run
from pydantic import BaseModel


class City(BaseModel):
    name: str


def ask(content, **more):
    client = instructor.from_openai(openai.OpenAI(), **more)
    return client.chat.completions.create(model="m", response_model=City, messages=[{"role": "user", "content": content}]).name


def image(_url, _key):
    return ask([{"type": "text", "text": QUESTION}, {"type": "image_url", "image_url": {"url": PICTURE_URL}}])


def tools(_url, _key):
    return ask(QUESTION)


def schema(_url, _key):
    return ask(QUESTION, mode=instructor.Mode.JSON_SCHEMA)


run(globals())
