# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
# packages: strands-agents[openai]==1.62.0
import base64

from cases import PICTURE, QUESTION, WEATHER, run
from pydantic import BaseModel
from strands import Agent, tool
from strands.models.openai import OpenAIModel


class City(BaseModel):
    """A city."""

    name: str


@tool
def weather(city: str) -> str:
    """How warm it is in a city."""
    return "21 degrees"


def agent(url, key, **more):
    return Agent(model=OpenAIModel(client_args={"base_url": f"{url}/v1", "api_key": key}, model_id="m"), callback_handler=None, **more)


def stream(url, key):
    return agent(url, key)(QUESTION)


def image(url, key):
    source = {"bytes": base64.b64decode(PICTURE)}
    return agent(url, key)([{"text": QUESTION}, {"image": {"format": "png", "source": source}}])


def tools(url, key):
    return agent(url, key, tools=[weather])(WEATHER)


def schema(url, key):
    return agent(url, key)(QUESTION, structured_output_model=City).structured_output.name


run(globals())
