# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
# packages: agno[openai]==3.1.10 openai
import base64

from agno.agent import Agent
from agno.media import Image
from agno.models.openai.like import OpenAILike
from cases import PICTURE, QUESTION, WEATHER, run
from pydantic import BaseModel


class City(BaseModel):
    name: str


def weather(city: str) -> str:
    """How warm it is in a city."""
    return "21 degrees"


def agent(url, key, **more):
    return Agent(model=OpenAILike(id="m", base_url=f"{url}/v1", api_key=key), telemetry=False, **more)


def chat(url, key):
    return agent(url, key).run(QUESTION).content


def stream(url, key):
    return "".join(event.content or "" for event in agent(url, key).run(QUESTION, stream=True) if isinstance(getattr(event, "content", None), str))


def image(url, key):
    return agent(url, key).run(QUESTION, images=[Image(content=base64.b64decode(PICTURE), format="png", mime_type="image/png")]).content


def tools(url, key):
    return agent(url, key, tools=[weather]).run(WEATHER).content


def schema(url, key):
    return agent(url, key, output_schema=City).run(QUESTION).content.name


run(globals())
