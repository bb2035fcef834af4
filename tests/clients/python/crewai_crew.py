# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
# packages: crewai==1.15.30
import os

os.environ.update(CREWAI_DISABLE_TELEMETRY="true", OTEL_SDK_DISABLED="true")

from cases import QUESTION, WEATHER, run  # noqa: E402
from crewai import LLM, Agent, Crew, Task  # noqa: E402
from crewai.tools import tool  # noqa: E402
from pydantic import BaseModel  # noqa: E402


class City(BaseModel):
    name: str


@tool("weather")
def weather(city: str) -> str:
    """How warm it is in a city."""
    return "21 degrees"


def work(url, key, task, tools=(), **more):
    guide = Agent(role="Guide", goal="Answer", backstory="You know cities.", llm=LLM(model="openai/m", base_url=f"{url}/v1", api_key=key),
                  tools=list(tools))
    return Crew(agents=[guide], tasks=[Task(description=task, expected_output="One word", agent=guide, **more)], tracing=False).kickoff()


def chat(url, key):
    return work(url, key, QUESTION).raw


def tools(url, key):
    return work(url, key, WEATHER, [weather]).raw


def schema(url, key):
    return work(url, key, QUESTION, output_pydantic=City).pydantic.name


run(globals())
