# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
# packages: langchain-openai==1.7.4
from cases import PICTURE_URL, QUESTION, WEATHER, run
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel


class City(BaseModel):
    name: str


@tool
def weather(city: str) -> str:
    """How warm it is in a city."""
    return "21 degrees"


def model():
    return ChatOpenAI(model="m")


def chat(_url, _key):
    return model().invoke(QUESTION).content


def stream(_url, _key):
    return "".join(piece.content for piece in model().stream(QUESTION))


def image(_url, _key):
    parts = [{"type": "text", "text": QUESTION}, {"type": "image_url", "image_url": {"url": PICTURE_URL}}]
    return model().invoke([HumanMessage(parts)]).content


def tools(_url, _key):
    bound, asked = model().bind_tools([weather]), [HumanMessage(WEATHER)]
    called = bound.invoke(asked)
    [call] = called.tool_calls
    return bound.invoke([*asked, called, ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"])]).content


def schema(_url, _key):
    return model().with_structured_output(City).invoke(QUESTION).name


run(globals())
