# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
# packages: haystack-ai==3.4.1
import os

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"

from cases import PICTURE, QUESTION, WEATHER, run  # noqa: E402
from haystack.components.agents import Agent  # noqa: E402
from haystack.components.generators.chat import OpenAIChatGenerator  # noqa: E402
from haystack.dataclasses import ChatMessage, ImageContent  # noqa: E402
from haystack.tools import tool  # noqa: E402


@tool
def weather(city: str) -> str:
    """How warm it is in a city."""
    return "21 degrees"


def ask(message, **more):
    return OpenAIChatGenerator(model="m", **more).run([message])["replies"][0].text


def chat(_url, _key):
    return ask(ChatMessage.from_user(QUESTION))


def stream(_url, _key):
    pieces = []
    ask(ChatMessage.from_user(QUESTION), streaming_callback=lambda piece: pieces.append(piece.content or ""))
    return "".join(pieces)


def image(_url, _key):
    return ask(ChatMessage.from_user(content_parts=[QUESTION, ImageContent(base64_image=PICTURE, mime_type="image/png")]))


def tools(_url, _key):
    return Agent(chat_generator=OpenAIChatGenerator(model="m"), tools=[weather]).run(messages=[ChatMessage.from_user(WEATHER)])["messages"][-1].text


run(globals())
