# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Questions that speak of time: the same again is a hit, nearly the same is not, in six languages.

The table of docs/answers.md is written from these runs: AFTERIMAGE_WRITE_TABLE=1 prints it."""
import os
import pathlib
import re
import unittest

from gateway_process import GatewayProcess, GatewayTestCase
from mock_model import MockModel

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "answers.md"
LANGUAGES = ("English", "German", "French", "Spanish", "Chinese", "Japanese")
# A picture of one point.
PICTURE = ("data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
# What stands before the last text, which is all that a near match leaves open; its last text in each language.
ONE_TEXT, PARTS, PART_AND_PICTURE, TURNS = "one text", "two parts", "a picture and two parts", "three turns"
SENTENCES = (
    (ONE_TEXT, ("What is the weather today in Rome?", "Wie ist das Wetter heute in Rom?", "Quel temps fait-il aujourd\u2019hui à Rome\u00a0?",
                "¿Qué tiempo hace hoy en Roma?", "罗马今天天气怎么样？", "今日のローマの天気は？")),
    (ONE_TEXT, ("What's the date?", "Welches Datum haben wir?", "Quelle est la date\u00a0?", "¿Qué fecha es?", "今天几号？", "何日ですか？")),
    (ONE_TEXT, ("Great news, I got the job!", "Tolle Nachrichten, ich habe die Stelle!", "Je commence demain, j'ai le poste\u00a0!",
                "¡Buenas noticias, tengo el trabajo!", "好消息，我明天开始工作！", "いいニュース、仕事が決まった！")),
    (ONE_TEXT, ("def now(): return clock()", "def jetzt(): return clock()", "def maintenant(): return clock()", "def ahora(): return clock()",
                "def 现在(): return clock()", "def 現在(): return clock()")),
    (ONE_TEXT, ("Describe the current flowing through the resistor.", "Beschreibe den Strom durch den Widerstand.", "Décris le courant dans la résistance.",
                "Describe la corriente que pasa por la resistencia.", "描述通过电阻的电流。", "抵抗器を流れる電流を説明して。")),
    (PARTS, ("What is the weather today in Rome?|Answer in one word.", "Wie ist das Wetter heute in Rom?|Antworte mit einem Wort.",
             "Quel temps fait-il aujourd'hui à Rome ?|Réponds en un mot.", "¿Qué tiempo hace hoy en Roma?|Responde con una palabra.",
             "罗马今天天气怎么样？|用一个词回答。", "今日のローマの天気は？|一言で答えて。")),
    (PART_AND_PICTURE, ("Is the shop open today?|Answer yes or no.", "Hat der Laden heute offen?|Antworte mit Ja oder Nein.",
                        "Le magasin est-il ouvert aujourd'hui ?|Réponds par oui ou non.", "¿Está abierta la tienda hoy?|Responde sí o no.",
                        "这家店今天开门吗？|回答是或不是。", "この店は今日開いていますか？|はいかいいえで答えて。")),
    (TURNS, ("Weather today?|In which city?|Rome.", "Wetter heute?|In welcher Stadt?|Rom.", "Météo aujourd'hui ?|Dans quelle ville ?|Rome.",
             "¿El tiempo hoy?|¿En qué ciudad?|Roma.", "今天天气？|哪个城市？|罗马。", "今日の天気は？|どの都市ですか？|ローマ。")),
)
NO_TIME = (ONE_TEXT, ("Describe the resistor.", "Beschreibe den Widerstand.", "Décris la résistance.", "Describe la resistencia.", "描述电阻。", "抵抗器を説明して。"))


def pasted(pattern, count=12):
    """Pieces of this project's files that have words of time, as users paste them."""
    files = {path: re.findall(r".{1,1500}", path.read_text(), re.S) for path in sorted(ROOT.glob(pattern))}
    found = [(f"{path.name} {number}", piece) for path, pieces in files.items() for number, piece in enumerate(pieces)
             if re.search(r"\b(now|today|current|latest|news|tonight|this week)\b", piece)]
    return found[:: max(1, len(found) // count)][:count]


def nearly(text):
    """The same with other spaces, which canonical matches do not tell apart in texts of three ASCII words or more."""
    return text.replace(" ", "  ") + " "


def request(kind, texts, number):
    def part(text):
        return {"type": "text", "text": text}
    if kind == TURNS:
        messages = [{"role": role, "content": text} for role, text in zip(("user", "assistant", "user"), texts)]
    elif kind == ONE_TEXT:
        messages = [{"role": "user", "content": texts[0]}]
    else:
        picture = [{"type": "image_url", "image_url": {"url": PICTURE}}] if kind == PART_AND_PICTURE else []
        messages = [{"role": "user", "content": picture + [part(text) for text in texts]}]
    return {"model": "mock-small", "temperature": 0, "messages": [{"role": "system", "content": f"Assistant {number}"}, *messages]}


class WordsOfTime(GatewayTestCase):
    @classmethod
    def start(cls):
        cls.mock = cls.kept.enter_context(MockModel())
        cls.gateway = cls.kept.enter_context(GatewayProcess({"upstream": {"url": cls.mock.url}, "answers": {"match_level": "near"}}))

    def asked(self, kind, texts, number):
        """X-Cache, the match level of a hit, and what the decision says."""
        reply = self.gateway.post(request(kind, texts, number))
        self.assertEqual(reply.status, 200, reply.text)
        last = self.gateway.admin("GET", "/admin/api/decisions?limit=1").json["last"]
        decision = self.gateway.admin("GET", f"/admin/api/decisions/{last}").json
        self.assertEqual(decision["request_id"], reply.headers["X-Request-Id"])
        return reply.cache, decision["match_level"], decision["why"]

    def outcomes(self, kind, sentence, number):
        texts = sentence.split("|")
        self.assertEqual(self.asked(kind, texts, number)[0], "MISS", sentence)
        self.assertEqual(self.asked(kind, texts, number)[:2], ("HIT", "text:exact"), sentence)
        if kind != ONE_TEXT:
            other = [texts[0].replace("today", "tomorrow") + " ", *texts[1:]]
            self.assertEqual(self.asked(kind, other, number)[0], "MISS", f"only the last text is open: {sentence}")
        cache, level, why = self.asked(kind, [*texts[:-1], nearly(texts[-1])], number)
        if "only exact matches may serve it: the question speaks of time" in why:
            self.assertEqual(cache, "MISS", sentence)
            return "vetoed"
        if cache == "HIT":
            self.assertEqual(level, "text:canonical", sentence)
        return "not vetoed"

    def test_is_what_the_page_says(self):
        rows = ["| | " + " | ".join(LANGUAGES) + " | the same again | nearly the same |", "|---" * (len(LANGUAGES) + 3) + "|"]
        for number, (kind, sentences) in enumerate(SENTENCES):
            near = [self.outcomes(kind, sentence, f"{number} {language}") for sentence, language in zip(sentences, LANGUAGES)]
            if len(set(near)) == 1:
                said = near[0]
            else:
                said = "vetoed in " + ", ".join(language for language, one in zip(LANGUAGES, near) if one == "vetoed")
            cells = [" ".join(f"`{text}`" for text in sentence.split("|")) for sentence in sentences]
            rows.append(f"| {kind} | " + " | ".join(cells) + f" | hit | {said} |")
        table = "\n".join(rows).replace("\u00a0", " ")
        if os.environ.get("AFTERIMAGE_WRITE_TABLE"):
            print(table)
        else:
            self.assertIn(table, PAGE.read_text())

    def test_of_pasted_texts_are_in_no_exact_matchs_way(self):
        texts = [*pasted("docs/*.md"), *pasted("src/**/*.cc")]
        self.assertEqual(len(texts), 24)
        for name, text in texts:
            question = f"{text}\n\nWhat does this say?"
            self.assertEqual(self.asked(ONE_TEXT, [question], name)[0], "MISS", name)
            self.assertEqual(self.asked(ONE_TEXT, [question], name)[:2], ("HIT", "text:exact"), name)

    def test_are_the_only_reason(self):
        kind, sentences = NO_TIME
        for sentence, language in zip(sentences, LANGUAGES):
            self.assertEqual(self.outcomes(kind, sentence, f"none {language}"), "not vetoed", sentence)
        english = request(kind, [nearly(sentences[0])], "none English")
        self.assertEqual(self.gateway.post(english).cache, "HIT", "no time, no veto")


if __name__ == "__main__":
    unittest.main()
