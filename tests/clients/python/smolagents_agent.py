# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
# packages: smolagents[openai]==1.26.0
import base64
import io

import PIL.Image
from cases import PICTURE, QUESTION, WEATHER, run
from smolagents import ChatMessage, OpenAIModel, ToolCallingAgent, tool


@tool
def weather(city: str) -> str:
    """How warm it is in a city.

    Args:
        city: its name
    """
    return "21 degrees"


def model(url, key):
    return OpenAIModel(model_id="m", api_base=f"{url}/v1", api_key=key)


def chat(url, key):
    return model(url, key).generate([ChatMessage(role="user", content=QUESTION)]).content


def stream(url, key):
    return "".join(piece.content or "" for piece in model(url, key).generate_stream([ChatMessage(role="user", content=QUESTION)]))


def image(url, key):
    picture = PIL.Image.open(io.BytesIO(base64.b64decode(PICTURE)))
    parts = [{"type": "text", "text": QUESTION}, {"type": "image", "image": picture}]
    return model(url, key).generate([ChatMessage(role="user", content=parts)]).content


def tools(url, key):
    return ToolCallingAgent(tools=[weather], model=model(url, key), verbosity_level=0).run(WEATHER)


run(globals())
