# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
# packages: pydantic-ai-slim[openai]==2.68.0
import base64

from cases import PICTURE, QUESTION, WEATHER, run
from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent
from pydantic_ai.models.openai import OpenAIChatModel


class City(BaseModel):
    name: str


def weather(city: str) -> str:
    """How warm it is in a city."""
    return "21 degrees"


def agent(**more):
    return Agent(OpenAIChatModel("m"), **more)


def chat(_url, _key):
    return agent().run_sync(QUESTION).output


async def stream(_url, _key):
    async with agent().run_stream(QUESTION) as streamed:
        return "".join([piece async for piece in streamed.stream_text(delta=True)])


def image(_url, _key):
    return agent().run_sync([QUESTION, BinaryContent(base64.b64decode(PICTURE), media_type="image/png")]).output


def tools(_url, _key):
    return agent(tools=[weather]).run_sync(WEATHER).output


def schema(_url, _key):
    return agent(output_type=City).run_sync(QUESTION).output.name


run(globals())
