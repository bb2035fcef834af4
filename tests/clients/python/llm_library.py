# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
# packages: llm==0.36
import base64

import llm
from cases import PICTURE, QUESTION, WEATHER, run
from llm.default_plugins.openai_models import Chat


def model(url, key):
    found = Chat("m", model_name="m", api_base=f"{url}/v1", vision=True, supports_tools=True, supports_schema=True)
    found.key = key
    return found


def weather(city: str) -> str:
    """How warm it is in a city."""
    return "21 degrees"


def chat(url, key):
    return model(url, key).prompt(QUESTION, stream=False).text()


def stream(url, key):
    return "".join(model(url, key).prompt(QUESTION))


def image(url, key):
    return model(url, key).prompt(QUESTION, attachments=[llm.Attachment(content=base64.b64decode(PICTURE))], stream=False).text()


def tools(url, key):
    return model(url, key).chain(WEATHER, tools=[weather], stream=False).text()


def schema(url, key):
    return model(url, key).prompt(QUESTION, schema=llm.schema_dsl("name"), stream=False).text()


run(globals())
