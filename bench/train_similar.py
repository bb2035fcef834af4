#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Learns from wordings of questions which of them ask the same, and writes the folder that `similarity.folder` names.

    bench/train_similar.py build/release/afterimage build/similar                       questions about pictures
    bench/train_similar.py build/release/afterimage build/similar --forms mine.json     questions of your own

The forms are JSON: {"slots": {"thing": ["cup", …]}, "forms": [["Where is the {thing}?", "Where do you see the {thing}?", …], …]}. Forms of one list
mean the same, those of different lists do not. A slot's words may hold slots; {thing#2} is another thing than {thing}.

Two questions that differ in a word of a slot ("cup", "cap"), in a word that is in no form, or in one that turns the meaning ("not", "more") are never similar: `similarity.may_differ`
has the other words. What is left to tell apart are forms about the same thing. All-MiniLM-L6-v2 (Apache-2.0) makes vectors of the questions; of these a linear discriminant analysis
keeps the 48 directions in which forms of different lists differ most, in units of how forms of one list differ. The threshold is above the cosines of all pairs of other meanings in
wordings, and about things, that the analysis did not see: it is made again without them, several times.

OUT_DIR gets

  embedder.gguf      all-MiniLM-L6-v2
  projection.f32     the 48 directions: similarity.projection
  similarity.toml    the settings that belong to them

Needs numpy. A minute on a core.
"""
import argparse
import http.client
import importlib.util
import json
import math
import pathlib
import random
import re
import shutil
import subprocess
import sys

import numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent
FORMS = ROOT / "examples" / "questions" / "pictures.json"
SLOT = re.compile(r"\{(\w+)(#\d)?\}")
LINKS = {"a", "an", "in", "of", "the", "to"}  # they may differ although they are in slots: "left of"
TURNING = {"no", "not", "nor", "never", "without", "only", "more", "most", "less", "least", "fewer", "all", "both"}
DIRECTIONS, RIDGE = 48, 0.3
FILLINGS = 12  # of the slots; half of them are kept from the analysis for the threshold
REPEATS, KEPT = 8, 0.4  # how often the threshold's wordings are chosen, and their share
SETTINGS = """# Written by bench/train_similar.py. Of {negatives} pairs of other meanings, in wordings and about things that it had not seen, none
# reaches this cosine; of {positives} of the same meaning {share:.0f} % do.
[similarity]
threshold = {threshold:.3f}
may_differ = {words}
"""


def words_of(text):
    """As the program splits questions."""
    return [word for each in text.lower().split() if (word := each.strip(".,;:?!"))]


def slot_words(slots):
    said = {word for values in slots.values() for value in values for word in words_of(SLOT.sub(" ", value))}
    return said | {word + "s" for word in said}


def may_differ(description):
    """The words of the forms that say nothing alone."""
    said = {word for group in description["forms"] for form in group for word in words_of(SLOT.sub(" ", form))}
    return sorted(word for word in said - (slot_words(description["slots"]) - LINKS) - TURNING if len(word) > 1 or word in LINKS | {"i"})


def fill(rng, slots, form, chosen):
    """The form with its slots' words; `chosen` holds those of each slot, and gets what it lacks."""
    def word(match):
        name = match[0]
        if name not in chosen:
            others = {chosen[other] for other in chosen if SLOT.match(other)[1] == match[1]}
            while (made := fill(rng, slots, rng.choice(slots[match[1]]), {})) in others:
                pass
            chosen[name] = made
        return chosen[name]

    return SLOT.sub(word, form)


class Vectors:
    """What the program's own embedder says, so that the projection fits."""

    def __init__(self, program, embedder):
        self.process = subprocess.Popen([program, "serve", "--engine", "llama", "--model", embedder, "--port", "0", "--admin-port", "0"],
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = []
        for line in self.process.stdout:
            said.append(line)
            if found := re.search(r"listening on http://127\.0\.0\.1:(\d+)", line):
                self.port = int(found[1])
                return
        sys.exit("the program did not start: " + "".join(said))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=60)

    def of(self, texts):
        connection, vectors = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600), []
        for at in range(0, len(texts), 64):
            connection.request("POST", "/v1/embeddings", json.dumps({"model": "m", "input": texts[at : at + 64]}), {"Content-Type": "application/json"})
            said = json.loads(connection.getresponse().read())
            if "data" not in said:
                sys.exit(f"no vectors: {said}")
            vectors += [each["embedding"] for each in said["data"]]
        return numpy.array(vectors)


class Questions:
    """All forms with each filling: (list, form, filling), text and vector; those with the same other words have the same number in `about`."""

    def __init__(self, description, words, seed):
        rng, self.texts, rows, about = random.Random(seed), [], [], {}
        for filling in range(FILLINGS):
            chosen = {}
            for group, forms in enumerate(description["forms"]):
                for number, form in enumerate(forms):
                    text = fill(rng, description["slots"], form, chosen)
                    key = (filling, *(word for word in words_of(text) if word not in words))
                    self.texts.append(text)
                    rows.append((group, number, filling, about.setdefault(key, len(about))))
        self.group, self.number, self.filling, self.about = numpy.array(rows).T
        self.vectors = None

    def pairs(self, some):
        """Rows of two that differ in no other words."""
        firsts, seconds = [], []
        for about in numpy.unique(self.about[some]):
            rows = numpy.flatnonzero(some & (self.about == about))
            i, j = numpy.triu_indices(len(rows), 1)
            firsts.append(rows[i])
            seconds.append(rows[j])
        return numpy.concatenate(firsts), numpy.concatenate(seconds)


def scatter(vectors, labels):
    """The sum of d dᵀ over the differences d of all pairs with one label, and their number."""
    total, count = numpy.zeros((vectors.shape[1],) * 2), 0
    for label in numpy.unique(labels):
        some = vectors[labels == label]
        mean = some.mean(0)
        total += len(some) * (some - mean).T @ (some - mean)
        count += len(some) * (len(some) - 1) // 2
    return total, count


def discriminants(questions, some):
    """Rows of weights and what is added: linear discriminant analysis of pairs about the same."""
    vectors, about = questions.vectors[some], questions.about[some]
    every, pairs = scatter(vectors, about)
    within, same = scatter(vectors, about * (questions.group.max() + 1) + questions.group[some])
    between = (every - within) / (pairs - same)
    within /= same
    size = len(within)
    values, axes = numpy.linalg.eigh(within + RIDGE * numpy.trace(within) / size * numpy.eye(size))
    whiten = axes / numpy.sqrt(values)
    _, axes = numpy.linalg.eigh(whiten.T @ between @ whiten)
    weights = (whiten @ axes[:, ::-1][:, :DIRECTIONS]).T
    return numpy.hstack([weights, -(weights @ vectors.mean(0))[:, None]]).astype("<f4")


def project(matrix, vectors):
    projected = vectors @ matrix[:, :-1].T + matrix[:, -1]
    return projected / numpy.linalg.norm(projected, axis=1, keepdims=True)


def kept_cosines(description, questions, seed):
    """Cosines of pairs that an analysis did not see, neither their wordings nor what they are about, and whether they mean the same."""
    cosines, same = [], []
    for repeat in range(REPEATS):
        rng, kept = random.Random(f"{seed} {repeat}"), numpy.zeros(len(questions.texts), bool)
        for group, forms in enumerate(description["forms"]):
            numbers = rng.sample(range(len(forms)), round(KEPT * len(forms)) if len(forms) > 2 else 0)
            kept |= (questions.group == group) & numpy.isin(questions.number, numbers)
        elsewhere = questions.filling % 2 == repeat % 2
        projected = project(discriminants(questions, ~kept & elsewhere), questions.vectors)
        i, j = questions.pairs(kept & ~elsewhere)
        cosines.append((projected[i] * projected[j]).sum(1))
        same.append(questions.group[i] == questions.group[j])
    return numpy.concatenate(cosines), numpy.concatenate(same)


def fetch_embedder(folder):
    """embedder.gguf, a copy of that of build/models if it is there."""
    path, there = folder / "embedder.gguf", ROOT / "build" / "models" / "all-minilm-l6-v2.gguf"
    if path.exists():
        return path
    if there.exists():
        shutil.copyfile(there, path)
        return path
    sys.path.insert(0, str(ROOT / "scripts"))
    spec = importlib.util.spec_from_file_location("fetch_embedder", ROOT / "scripts" / "fetch-embedder.py")
    fetching = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fetching)
    fetching.convert(fetching.fetch(folder), path)
    return path


def train(program, folder, forms, seed):
    """Writes the folder, and returns the threshold and how many pairs it was chosen on: (threshold, of the same meaning, accepted, of other meanings)."""
    folder.mkdir(parents=True, exist_ok=True)
    description = json.loads(forms.read_text())
    words = may_differ(description)
    questions = Questions(description, set(words), seed)
    with Vectors(program, fetch_embedder(folder)) as vectors:
        questions.vectors = vectors.of(questions.texts)
    cosines, same = kept_cosines(description, questions, seed)
    threshold = math.ceil(1000 * float(cosines[~same].max()) + 0.001) / 1000
    positives, accepted, negatives = int(same.sum()), int((cosines[same] >= threshold).sum()), int((~same).sum())
    if not accepted:
        sys.exit("no cosine tells pairs of the same meaning from all others: write more wordings of each list, and look for lists that mean nearly the same")
    (folder / "projection.f32").write_bytes(discriminants(questions, numpy.ones(len(questions.texts), bool)).tobytes())
    (folder / "similarity.toml").write_text(SETTINGS.format(negatives=negatives, positives=positives, share=100 * accepted / positives, threshold=threshold, words=json.dumps(words)))
    return threshold, positives, accepted, negatives


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("out", metavar="OUT_DIR", type=pathlib.Path)
    parser.add_argument("--forms", type=pathlib.Path, default=FORMS, help="default: examples/questions/pictures.json")
    parser.add_argument("--seed", type=int, default=1, help="of the slots' words and the wordings that the threshold is chosen on (default: %(default)s)")
    args = parser.parse_args()
    threshold, positives, accepted, negatives = train(args.program, args.out, args.forms, args.seed)
    print(f"pairs of wordings that were not seen: from a cosine of {threshold:.3f}, {accepted:,} of {positives:,} of the same meaning and none of {negatives:,} others")
    print(f'wrote \'{args.out}\': [similarity] folder = "{args.out.resolve()}"')


if __name__ == "__main__":
    main()
