#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Trains a verifier of similar questions on generated pairs, and writes the folder that `similarity.folder` names.

    bench/train_verifier.py build/similar                                          questions about pictures
    bench/train_verifier.py build/similar --forms mine.json                        questions of your own

The forms are JSON: {"slots": {"thing": ["cup", …]}, "forms": [["Where is the {thing}?", "Where do you see the {thing}?", …], …]}. Forms of one list
mean the same. A slot's words may hold slots; {thing#2} is another thing than {thing}. Pairs are made of them: two forms of a list with the same words mean the same;
with other words, or of another list, they do not. All-MiniLM-L6-v2 (Apache-2.0) becomes a cross-encoder of these pairs. The threshold is the lowest score above
which --precision of other pairs are right, which it was not trained on.

OUT_DIR gets

  embedder.gguf      all-MiniLM-L6-v2, for the vectors of questions
  verifier.gguf      the cross-encoder
  similarity.toml    the settings that belong to them

Needs the packages torch, transformers, tokenizers and safetensors. A quarter of an hour on a core, seconds on a GPU.
"""
import argparse
import json
import pathlib
import random
import re
import sys
import tempfile

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import cross_encoder  # noqa: E402

FORMS = pathlib.Path(__file__).parent.parent / "examples" / "questions" / "pictures.json"
SLOT = re.compile(r"\{(\w+)(#\d)?\}")
SETTINGS = """# Written by bench/train_verifier.py. {pairs} pairs, of which it was not trained on {kept}: {right:.2f} % of those that it accepts are right.
[similarity]
threshold = {nearest}
verifier_threshold = {threshold:.3f}
verifier_overrules_vetoes = true
"""


def fill(rng, slots, form, chosen):
    """The form with its slots' words; `chosen` holds those of each slot."""
    def word(match):
        name = match[0]
        if name not in chosen:
            others = {chosen[other] for other in chosen if other.split("#")[0].strip("{}") == match[1]}
            while (made := fill(rng, slots, rng.choice(slots[match[1]]), {})) in others:
                pass
            chosen[name] = made
        return chosen[name]
    return SLOT.sub(word, form)


def differing(rng, slots, chosen):
    """The words of the slots, one of them another, or two of the same kind exchanged."""
    changed = dict(chosen)
    name = rng.choice(list(changed))
    twins = [other for other in changed if other != name and SLOT.match(other)[1] == SLOT.match(name)[1]]
    if twins and rng.random() < 0.5:
        changed[name], changed[twins[0]] = changed[twins[0]], changed[name]
    elif rng.random() < 0.5:
        words = changed[name].split()
        place = rng.randrange(len(words))
        others = [word for words_of in slots.values() if words[place] in words_of for word in words_of if "{" not in word]
        changed[name] = " ".join([*words[:place], *([rng.choice(others)] if others else []), *words[place + 1 :]]) or changed[name]
    else:
        del changed[name]
        fill(rng, slots, name, changed)
    return changed


def about_the_same(rng, slots, form, chosen):
    """Words for another form's slots: those that `chosen` has, where a slot can hold one of its words."""
    said = {word.rstrip("s"): word for words in chosen.values() for word in words.split()}
    taken = dict(chosen)
    for found in SLOT.finditer(form):
        if found[0] in taken:
            continue
        for _ in range(200):  # most slots hold few words
            words = fill(rng, slots, rng.choice(slots[found[1]]), {})
            if all(word.rstrip("s") in said for word in words.split()):
                taken[found[0]] = words
                break
    return taken


def one_pair(rng, slots, forms):
    """(a, b, whether they mean the same)."""
    group = rng.choice(forms)
    first, chosen = rng.choice(group), {}
    a = fill(rng, slots, first, chosen)
    kind = rng.random()
    if kind < 0.45 and len(group) > 1:
        return a, fill(rng, slots, rng.choice([form for form in group if form != first]), chosen), True
    if kind < 0.75 and chosen:  # nearly the same words
        changed = differing(rng, slots, chosen)
        b = fill(rng, slots, rng.choice(group), changed)
        return (a, b, False) if changed != chosen else one_pair(rng, slots, forms)
    form = rng.choice(rng.choice([each for each in forms if each is not group]))
    return a, fill(rng, slots, form, about_the_same(rng, slots, form, chosen)), False


def make_pairs(description, count, seed):
    rng = random.Random(seed)
    pairs = {}
    while len(pairs) < count:
        a, b, same = one_pair(rng, description["slots"], description["forms"])
        if a != b:
            pairs[a, b] = same
    return [{"a": a, "b": b, "duplicate": same} for (a, b), same in pairs.items()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT_DIR", type=pathlib.Path)
    parser.add_argument("--forms", type=pathlib.Path, default=FORMS, help="default: examples/questions/pictures.json")
    parser.add_argument("--pairs", type=int, default=20_000, help="to train on (default: %(default)s)")
    parser.add_argument("--kept", type=int, default=3_000, help="for the threshold (default: %(default)s)")
    parser.add_argument("--precision", type=float, default=0.99, help="of what it accepts of those (default: %(default)s)")
    parser.add_argument("--nearest", type=float, default=0.6, help="least cosine of the questions that it reads (default: %(default)s)")
    parser.add_argument("--base", type=pathlib.Path, help="a folder with all-MiniLM-L6-v2 (config.json, tokenizer.json, model.safetensors) (default: it is fetched)")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", type=torch.device, default="cpu", help="cpu, or cuda (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    pairs = make_pairs(json.loads(args.forms.read_text()), args.pairs + args.kept, args.seed)
    files = base_files(args)
    encoder = cross_encoder.Encoder(files)
    tokens = [(encoder.tokens(pair["a"]), encoder.tokens(pair["b"])) for pair in pairs]
    labels = [int(pair["duplicate"]) for pair in pairs]
    model = cross_encoder.CrossEncoder(files).to(args.device)
    cross_encoder.train(model, encoder, tokens, labels, list(range(args.pairs)), args, args.seed, lambda text: print(text, file=sys.stderr, flush=True))
    kept = list(range(args.pairs, len(pairs)))
    scores, truth = cross_encoder.score(model, encoder, tokens, kept, args.device), [labels[i] for i in kept]
    threshold = cross_encoder.lowest_threshold(scores, truth, args.precision)
    matched, right = cross_encoder.measure(scores, truth, threshold)
    if not matched:
        sys.exit(f"no score accepts pairs of which {100 * args.precision} % are right: train longer (--epochs, --pairs)")
    cross_encoder.fetch_embedder.convert(files, args.out / "embedder.gguf")
    cross_encoder.write_gguf(model, files, args.out / "verifier.gguf")
    (args.out / "similarity.toml").write_text(SETTINGS.format(pairs=len(pairs), kept=args.kept, right=100 * right / matched, nearest=args.nearest, threshold=threshold))
    print(f"{args.kept} pairs that it was not trained on, {sum(truth)} of the same meaning: it accepts {matched}, of which {right} are right, at {threshold:.3f}")
    print(f"wrote '{args.out}': [similarity] folder = \"{args.out.resolve()}\"")


def base_files(args):
    if args.base is None:
        with tempfile.TemporaryDirectory(dir=args.out) as folder:
            return cross_encoder.fetch_embedder.fetch(pathlib.Path(folder))
    return {name: (args.base / name).read_bytes() for name in ("config.json", "tokenizer.json", "model.safetensors")}


if __name__ == "__main__":
    main()
