# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Why a prompt was computed again, as OpenAI's SDK asks for it, whole and streamed: openai_python.py URL. A line for each case."""
import sys

import openai

RULES = "You help in a shop for posters. Say what is in stock, and be brief. " * 20
TOOL = {"type": "function", "name": "stock", "description": "What is in stock.", "strict": False,
        "parameters": {"type": "object", "properties": {"colour": {"type": "string"}}}}
QUESTION = {"role": "user", "content": "Which posters are blue? I look for one of a harbour in the evening. " * 10}
ASKED = {"model": "mock-small", "instructions": RULES, "input": [QUESTION], "store": False}
# The SDK checks every response against its types.
CLIENT = openai.OpenAI(base_url=f"{sys.argv[1]}/v1", api_key="key", _strict_response_validation=True)


def whole(request):
    return CLIENT.responses.create(**request)


def streamed(request):
    """As the last event has it; the first one has it as well."""
    with CLIENT.responses.stream(**request) as events:
        created = next(event.response for event in events if event.type == "response.created")
        final = events.get_final_response()
    first, last = (response.prompt_cache_diagnostics for response in (created, final))
    assert (first and first.type) == (last and last.type), (first, last)
    return final


def next_turn(answer, question=QUESTION):
    return [question, *answer.output, {"role": "user", "content": "And green?"}]


def said(response):
    diagnostics = response.prompt_cache_diagnostics
    if diagnostics is None:
        return "null"
    if diagnostics.type != "cache_miss":
        return diagnostics.type
    assert diagnostics.cache_missed_tokens >= 0 and diagnostics.comparison_reusable_tokens >= 0
    return f"cache_miss: {diagnostics.reason}"


for ask in (whole, streamed):
    first = ask(ASKED)
    since = {"prompt_cache_options": {"comparison_response_id": first.id}}
    with_tool = ask({**ASKED, "tools": [TOOL]})
    since_tool = {"prompt_cache_options": {"comparison_response_id": with_tool.id}}
    edited = {**QUESTION, "content": "Red. " + QUESTION["content"]}
    cases = {
        "not asked": (first, "null"),
        "next turn": (ask({**ASKED, **since, "input": next_turn(first)}), "cache_hit"),
        "another model": (ask({**ASKED, **since, "model": "mock-large"}), "cache_miss: model_changed"),
        "another tool": (ask({**ASKED, **since_tool, "tools": [{**TOOL, "name": "offers"}]}), "cache_miss: tools_changed"),
        "other instructions": (ask({**ASKED, **since, "instructions": "Monday. " + RULES}), "cache_miss: input_changed"),
        "history edited": (ask({**ASKED, **since, "input": next_turn(first, edited)}), "cache_miss: input_changed"),
        "another effort": (ask({**ASKED, **since, "reasoning": {"effort": "low"}}), "cache_miss: reasoning_effort_changed"),
        "unknown response": (ask({**ASKED, "prompt_cache_options": {"comparison_response_id": "resp_unknown"}}), "comparison_response_not_found"),
    }
    for name, (response, expected) in cases.items():
        print(f"openai {openai.__version__}, {ask.__name__}, {name}: {said(response)}")
        if said(response) != expected:
            sys.exit(f"expected {expected}")
    reused = cases["next turn"][0].usage.input_tokens_details.cached_tokens
    assert reused > 200, reused
