# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Questions about the pages of a document: each page is encoded once, and each question answered once.

    python document_questions.py
"""

from __future__ import annotations

import afterimage as ai
import numpy as np
import numpy.typing as npt

SPACE = ai.Namespace(model="my-vlm", encoder="my-vit", weights_epoch="1", tenant="acme")
RECIPE = ai.PreprocessRecipe("resize", width=448, height=448)
PAGES = [b"page one, as PNG", b"page two, as PNG"]
ASKED = [
    (0, "What is the invoice's number?"),
    (0, "what is the invoice's number?"),  # the same question, typed differently
    (1, "What is the invoice's number?"),  # about another page: another question
    (0, "Who signed it?"),
    (0, "Who signed it?"),
]


def encode(page: bytes) -> npt.NDArray[np.float32]:
    """Stands in for a vision tower: [embeddings, hidden_size]."""
    return np.full((256, 64), len(page), dtype=np.float32)


def answer(embeddings: ai.Embeddings, question: str) -> str:
    """Stands in for a language model."""
    return f"{np.asarray(embeddings[0]).shape[0]} embeddings were read for: {question}"


def main() -> None:
    pages, answers = ai.EncoderCache(64 << 20), ai.AnswerCache(16 << 20)
    for number, question in ASKED:
        page = PAGES[number]
        content = ai.content_digest(page)
        scope = ai.Scope(SPACE, [("user", [content, None])], sampling={"temperature": "0"})

        def ask(page: bytes = page, content: ai.ContentDigest = content, question: str = question) -> str:
            found = pages.get_or_encode(SPACE.encoder_key(content, RECIPE), lambda: encode(page))
            return answer(found, question)

        found = answers.get_or_answer(scope, question, ask)
        assert found.answer is not None
        print(f"page {number + 1}: {question} {'(cached)' if found.avoided_work else '(generated)'}")
    print(f"{answers.stats()['asked']} of {len(ASKED)} questions generated, {pages.stats()['encoded']} pages encoded")


if __name__ == "__main__":
    main()
