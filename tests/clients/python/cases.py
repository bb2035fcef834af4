# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""What the scripts of the clients have in common: each defines functions named like cases, and ends with run(globals())."""
import asyncio
import inspect
import json
import os
import sys

CASES = ["chat", "stream", "image", "tools", "schema"]
QUESTION = "What is the capital of Italy? Answer in one word."
WEATHER = "How warm is it in Rome? Use the tool."
# A red square of 2 × 2 pixels.
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR42mP4z8AARAwQCgAf7gP9Y167WwAAAABJRU5ErkJggg=="
PICTURE_URL = f"data:image/png;base64,{PICTURE}"


def run(script):
    """SCRIPT cases: prints the cases it has. SCRIPT CASE URL KEY: runs one; URL ends before /v1."""
    if sys.argv[1] == "cases":
        return print(json.dumps([case for case in CASES if case in script]))
    case, url, key = sys.argv[1:]
    os.environ.update(OPENAI_API_KEY=key, OPENAI_BASE_URL=f"{url}/v1", ANTHROPIC_API_KEY=key, ANTHROPIC_BASE_URL=url)
    answer = script[case](url, key)
    if inspect.iscoroutine(answer):
        answer = asyncio.run(answer)
    if "Rome" not in str(answer):
        sys.exit(f"answered {answer!r}")
    print(answer)
