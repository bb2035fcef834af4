# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Why a prompt was computed again, as Anthropic's SDK asks for it, whole and streamed: anthropic_python.py URL. A line for each case."""
import sys

import anthropic

SYSTEM = "You help in a shop for posters. Say what is in stock, and be brief. " * 20
TOOL = {"name": "stock", "description": "What is in stock.", "input_schema": {"type": "object", "properties": {"colour": {"type": "string"}}}}
ASKED = {"model": "mock-small", "max_tokens": 100, "system": SYSTEM,
         "messages": [{"role": "user", "content": "Which posters are blue? I look for one of a harbour in the evening. " * 10}]}
# The SDK checks every response against its types.
CLIENT = anthropic.Anthropic(base_url=sys.argv[1], api_key="key", _strict_response_validation=True)


def whole(request):
    return CLIENT.messages.create(**request)


def streamed(request):
    """As the first event has it, which is all that a client sees before the text."""
    with CLIENT.messages.stream(**request) as events:
        start = next(event.message for event in events if event.type == "message_start")
        final = events.get_final_message()
    assert start.diagnostics == final.diagnostics, (start.diagnostics, final.diagnostics)
    return final


def next_turn(answer, asked=ASKED["messages"]):
    return [*asked, {"role": "assistant", "content": answer.content}, {"role": "user", "content": "And green?"}]


def said(message):
    reason = message.diagnostics and message.diagnostics.cache_miss_reason
    if reason is None:
        return "null"
    if reason.type.endswith("_changed"):
        assert reason.cache_missed_input_tokens >= 0
    return f"{reason.type} ({type(reason).__name__})"


for ask in (whole, streamed):
    first = ask({**ASKED, "diagnostics": {"previous_message_id": None}})
    since = {"diagnostics": {"previous_message_id": first.id}}
    with_tool = ask({**ASKED, "tools": [TOOL]})
    since_tool = {"diagnostics": {"previous_message_id": with_tool.id}}
    edited = [{"role": "user", "content": "Red. " + ASKED["messages"][0]["content"]}]
    cases = {
        "first request": (first, "null"),
        "next turn": (ask({**ASKED, **since, "messages": next_turn(first)}), "null"),
        "another model": (ask({**ASKED, **since, "model": "mock-large"}), "model_changed (CacheMissModelChanged)"),
        "another tool": (ask({**ASKED, **since_tool, "tools": [{**TOOL, "name": "offers"}]}), "tools_changed (CacheMissToolsChanged)"),
        "another system prompt": (ask({**ASKED, **since, "system": "Monday. " + SYSTEM}), "system_changed (CacheMissSystemChanged)"),
        "history edited": (ask({**ASKED, **since, "messages": next_turn(first, edited)}), "messages_changed (CacheMissMessagesChanged)"),
        "another effort": (ask({**ASKED, **since, "output_config": {"effort": "low"}}), "unavailable (CacheMissUnavailable)"),
        "unknown message": (ask({**ASKED, "diagnostics": {"previous_message_id": "msg_unknown"}}),
                            "previous_message_not_found (CacheMissPreviousMessageNotFound)"),
    }
    for name, (message, expected) in cases.items():
        print(f"anthropic {anthropic.__version__}, {ask.__name__}, {name}: {said(message)}")
        if said(message) != expected:
            sys.exit(f"expected {expected}")
    reused = cases["next turn"][0].usage.cache_read_input_tokens
    assert reused > 200, reused
