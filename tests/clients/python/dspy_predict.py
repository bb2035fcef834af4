# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
# packages: dspy==3.4.1
import dspy
from cases import PICTURE_URL, QUESTION, run


def ask(signature, url, key, **inputs):
    # Its own cache would answer before the gateway is asked.
    with dspy.context(lm=dspy.LM("openai/m", api_base=f"{url}/v1", api_key=key, cache=False)):
        return dspy.Predict(signature)(**inputs).answer


def chat(url, key):
    return ask("question -> answer", url, key, question=QUESTION)


def image(url, key):
    return ask("picture: dspy.Image, question -> answer", url, key, picture=dspy.Image(PICTURE_URL), question=QUESTION)


run(globals())
