# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
# packages: openai-agents==0.24.0
from agents import Agent, Runner, function_tool, set_tracing_disabled
from cases import PICTURE_URL, QUESTION, WEATHER, run
from pydantic import BaseModel

set_tracing_disabled(True)


class City(BaseModel):
    name: str


@function_tool
def weather(city: str) -> str:
    """How warm it is in a city."""
    return "21 degrees"


def agent(**more):
    return Agent(name="Guide", instructions="Be brief.", model="m", **more)


def chat(_url, _key):
    return Runner.run_sync(agent(), QUESTION).final_output


async def stream(_url, _key):
    streamed = Runner.run_streamed(agent(), QUESTION)
    async for _ in streamed.stream_events():
        pass
    return streamed.final_output


def image(_url, _key):
    parts = [{"type": "input_text", "text": QUESTION}, {"type": "input_image", "image_url": PICTURE_URL, "detail": "auto"}]
    return Runner.run_sync(agent(), [{"role": "user", "content": parts}]).final_output


def tools(_url, _key):
    return Runner.run_sync(agent(tools=[weather]), WEATHER).final_output


def schema(_url, _key):
    return Runner.run_sync(agent(output_type=City), QUESTION).final_output.name


run(globals())
