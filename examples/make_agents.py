#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Writes agents.jsonl, in which five agents of one small business use the same media again and again,
and shared_images.jsonl, in which eight agents ask short questions over four turns about three images.

Each conversation below becomes one request per turn. As chat clients do, every request sends
the whole history again: the system prompt, the earlier questions with their media, the
earlier answers, and the new question. The agents take turns, so a picture comes back after
others have been seen, sometimes in the same conversation and sometimes in another agent's.
"""

import argparse
import json
from pathlib import Path

SYSTEM = (
    "You are one of several assistants who help Tern Pottery, a small shop and studio on "
    "Harbour Street. You see the pictures, recordings and videos that the staff send. Say what "
    "you see before you say what it means. Give numbers with their units, name the picture they "
    "come from, and say plainly when something cannot be read or is not shown.")

# agent, subject, turns; a turn is (new media, question, answer). Nobody sends the last answer.
CONVERSATIONS = [
    ("analyst", "sales", [
        (["bar_chart.png", "dashboard.webp"],
         "How did mugs sell in 2025, and are they still ahead this March?",
         "The bar chart shows 420, 510, 560 and 890 mugs, 2,380 in all. On the dashboard they "
         "are 58% of what was ordered online from 1 to 14 March, still ahead."),
        (["receipt.jpg"],
         "This is a receipt from Saturday. How does it compare with the average online basket?",
         "The receipt says EUR 123.00, the dashboard EUR 31.63 per order: almost four times as "
         "much."),
        (["mug.jpg"],
         "And this is the photo of the sea blue mug. Write one line for the yearly report with "
         "its price and the number of mugs sold.",
         None)]),
    ("auditor", "invoice", [
        (["invoice.jpg", "receipt.jpg"],
         "Please check the arithmetic on both papers.",
         "Invoice: 568 + 135 + 122 + 155 + 45 = 1,025.00 net, 205.00 VAT, 1,230.00 in total. "
         "Receipt: 36.00 + 46.00 + 37.50 + 3.50 = 123.00, of which VAT 20.50. Both are right."),
        (["dashboard.webp"],
         "Do revenue and number of orders on this page give the average basket it states?",
         "Yes: EUR 9,870 over 312 orders is EUR 31.63, as the dashboard says."),
        (["bar_chart.png"],
         "Last one. Which quarter of this chart is more than a third of the year, in units?",
         None)]),
    ("designer", "poster", [
        (["street.webp", "mug.jpg"],
         "We want a poster for the shop. Which colours do these two pictures have in common?",
         "Deep blue against warm yellow: the evening sky and the lit windows in one, the glaze "
         "and the wooden desk in the other."),
        (["floor_plan.png"],
         "Where in the shop should it hang, so that people see it as they come in?",
         "The shop's door is in the north wall, so the south wall behind the counter faces "
         "everybody who enters."),
        (["jingle.wav"],
         "This is what the door plays. Suggest a short line for the poster in the same mood.",
         None)]),
    ("support", "order", [
        (["dashboard.webp"],
         "Customer R. Tanaka asks where the bowls are. What do we know?",
         "The dashboard lists order #2212, 4 bowls, EUR 50.00, and its state is late. It does "
         "not show why."),
        (["receipt.jpg", "mug.jpg"],
         "A visitor wants to return the two mugs on this receipt. Until when can she, and is "
         "this the mug she means?",
         "The receipt is of 14 March 2026 and allows 30 days: until 13 April. It says sea blue, "
         "and the photo shows a blue mug, so probably yes."),
        (["street.webp"],
         "She comes by tram in the evening. What should she look out for, and until what time?",
         None)]),
    ("planner", "firing", [
        (["line_chart.png", "floor_plan.png"],
         "Which kiln had trouble on 12 March, and where does it stand?",
         "Kiln C: between hours 7 and 9 it fell from about 870 to 690 degrees Celsius. On the "
         "plan it is the southernmost of the three in the kiln room."),
        (["clock.webp"],
         "The video shows our clock that day, one frame per hour, the first at the start of the "
         "firing. At what time was the power cut?",
         "The first frame shows 6:00, so hours 7 to 9 are 13:00 to 15:00."),
        (["invoice.jpg"],
         "Four kiln shelves came that day. What did they cost, and would you put them into this "
         "kiln?",
         None)]),
    ("analyst", "stock", [
        (["line_chart.png", "bar_chart.png"],
         "Kiln C was full of mugs. Does what happened there matter for our spring sales?",
         "Kiln C peaked near 1,180 degrees Celsius, 60 below kiln A. In 2025 we sold 420 mugs "
         "in Q1 and 510 in Q2, so one lost load would be felt."),
        (["dashboard.webp"],
         "How many orders do we have to fill per day at present?",
         "312 orders in 14 days: about 22 per day, 33 on the busiest day, 13 March."),
        (["invoice.jpg"],
         "Is the stoneware clay on this invoice enough for 600 mugs of 0.6 kg each?",
         None)]),
    ("auditor", "kilns", [
        (["line_chart.png", "clock.webp"],
         "The first frame of the video is the start of this firing. When did kiln A reach its "
         "highest temperature, by the clock?",
         "The chart shows 1,240 degrees Celsius from hour 9, and the clock starts at 6:00: at "
         "15:00."),
        (["invoice.jpg"],
         "Was this delivery received before that day, on it, or after it?",
         "On it: the stamp says 12 March 2026, the day of the firing."),
        (["floor_plan.png"],
         "How many kilowatts may the three kilns draw together, according to the plan?",
         None)]),
    ("designer", "web", [
        (["mug.jpg"],
         "Describe this photo in one sentence, for people who cannot see it.",
         "A tall blue stoneware mug of coffee with a bare clay foot stands on a wooden desk, "
         "with a notebook, a pencil and a plate of biscuits beside it."),
        (["dashboard.webp", "bar_chart.png"],
         "One of these two should go on our page about the shop. Which one is easier to read?",
         "The bar chart: one message, large labels, three colours. The dashboard is a tool for "
         "people who know it."),
        (["street.webp"],
         "And this goes at the top of the page. Which part may we crop for a narrow screen?",
         None)]),
    ("support", "visit", [
        (["street.webp", "floor_plan.png"],
         "A visitor in a wheelchair asks how to get from the street to the throwing room.",
         "Through the shop's door in the north wall, then left through the door in the east "
         "wall of the shop. By the scale both are about 0.9 m wide."),
        (["jingle.wav"],
         "She recorded this when she came in. Is it our door chime?",
         "It is a recording of two seconds with five bell notes, which fits a door chime."),
        (["receipt.jpg"],
         "Later she asked what the gift wrapping on this receipt had cost, and how she paid.",
         None)]),
    ("planner", "packing", [
        (["floor_plan.png", "dashboard.webp"],
         "We need a place to pack web orders. Which room would you take?",
         "The office: 12 m² on the plan, with its door to the shop. About 22 orders per day fit "
         "on one table."),
        (["bar_chart.png"],
         "By which quarter must it be ready, at the latest?",
         "Before Q4: the bar chart shows 1,670 units then, against 1,090 in Q3."),
        (["clock.webp"],
         "Parcels may only be fetched before nine. Which frames of this video are early enough?",
         None)]),
]

SHARED_SYSTEM = "You help a pottery. Be brief."

CHART, PLAN, MUG = ["bar_chart.png"], ["floor_plan.png"], ["mug.jpg"]

SHARED_CONVERSATIONS = [
    ("buyer", "clay", [
        (CHART, "Which quarter sold most?", "Q4."),
        ([], "How many mugs?", "890."),
        ([], "And how many bowls?", "520."),
        (PLAN, "Where could we keep their clay?", None)]),
    ("cleaner", "rooms", [
        (PLAN, "Which rooms are there?", "Shop, office, store; throwing, glaze and kiln room."),
        ([], "How large is the office?", "12 m²."),
        ([], "Has it a window?", "One, to the west."),
        (MUG, "Is this desk in it?", None)]),
    ("writer", "page", [
        (MUG, "What colour is the mug?", "Blue, with a bare clay foot."),
        ([], "What is beside it?", "A notebook, a pencil and biscuits."),
        ([], "Write one line about it.", "For the first coffee of the day."),
        (CHART, "How many did we sell?", None)]),
    ("planner", "shelves", [
        (CHART, "Do we need more shelves?", "In Q4: it sold most."),
        ([], "And in Q1?", "No: 830 pieces are few."),
        ([], "How many in Q2?", "980."),
        (PLAN, "Where could they stand?", None)]),
    ("guide", "visit", [
        (PLAN, "Where do visitors come in?", "Through the door in the north wall."),
        ([], "And then to the throwing room?", "Through the door in the east wall of the shop."),
        ([], "Where is the yard?", "South of the throwing room."),
        (MUG, "Can they make this mug there?", None)]),
    ("seller", "offer", [
        (MUG, "What would you call this mug?", "Sea blue, tall."),
        ([], "Is it for coffee or tea?", "There is coffee in it."),
        ([], "What shape is it?", "A tall cylinder with a handle."),
        (CHART, "Do mugs sell well?", None)]),
    ("potter", "firing", [
        (CHART, "How many mugs in Q2?", "510."),
        ([], "And in Q3?", "560."),
        ([], "And teapots?", "120."),
        (PLAN, "How many kilns are there?", None)]),
    ("trainee", "first", [
        (PLAN, "Where do I find the kilns?", "In the south-east."),
        ([], "Where is the shop?", "In the north-west."),
        ([], "How many wheels are there?", "Three."),
        (MUG, "What is this mug made of?", None)]),
]


def media_part(name):
    """The OpenAI content part for a file, by its kind."""
    path = f"media/{name}"
    if name == "clock.webp":
        return {"type": "video_url", "video_url": {"url": path}}
    if name.endswith(".wav"):
        return {"type": "input_audio", "input_audio": {"data": path, "format": "wav"}}
    return {"type": "image_url", "image_url": {"url": path}}


def requests(system, conversations):
    """Request after request: all agents in turn, first their first subject, then the second."""
    agents = list(dict.fromkeys(agent for agent, _, _ in conversations))
    rounds = [conversations[i:i + len(agents)] for i in range(0, len(conversations), len(agents))]
    for together in rounds:
        for turn in range(len(together[0][2])):
            for agent, subject, turns in together:
                messages = [{"role": "system", "content": system}]
                for media, question, answer in turns[:turn + 1]:
                    parts = [media_part(name) for name in media]
                    parts.append({"type": "text", "text": question})
                    messages.append({"role": "user", "content": parts})
                    messages.append({"role": "assistant", "content": answer})
                yield {"id": f"{agent}-{subject}-{turn + 1}", "agent": agent,
                       "messages": messages[:-1]}


def main():
    parser = argparse.ArgumentParser(
        description="Write the example workloads, agents.jsonl and shared_images.jsonl.",
        epilog="example: python3 examples/make_agents.py --out /tmp")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, metavar="FOLDER",
                        help="where to write (default: beside this script)")
    args = parser.parse_args()
    for name, system, conversations in [("agents", SYSTEM, CONVERSATIONS),
                                        ("shared_images", SHARED_SYSTEM, SHARED_CONVERSATIONS)]:
        path = args.out / f"{name}.jsonl"
        lines = [json.dumps(request, ensure_ascii=False)
                 for request in requests(system, conversations)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"{path}  {len(lines)} requests")


if __name__ == "__main__":
    main()
