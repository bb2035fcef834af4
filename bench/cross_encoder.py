#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Trains a cross-encoder that says whether two questions have the same answer, and measures it on pairs that it has not seen.

    bench/cross_encoder.py pairs.jsonl build/cross-encoder

The pairs ({"a", "b", "duplicate"}, one a line, as for `afterimage-lab pairs`) are split into folds so that no question is in two of them.
For each fold all-MiniLM-L6-v2 is trained on the others, as a model that reads both questions at once. A fifth of these other pairs is
kept from training, to choose the threshold: the lowest score above which 95 % of the kept pairs are right. The fold itself is only scored.

    bench/cross_encoder.py pairs.jsonl build/cross-encoder --more similiar_qqp_full.json.gz --device cuda

--more: further pairs to train on, of which a tenth is kept for the threshold, too. The same form, or GPTCache's: the file is
examples/benchmark/similiar_qqp_full.json.gz of https://github.com/zilliztech/GPTCache. Pairs that a chain of questions joins to the fold are left out.

    bench/cross_encoder.py pairs.jsonl build/cross-encoder --more … --device cuda --teachers 8 --processes 8

--teachers: labels are often wrong, so the model learns also from the mean opinion of such models ("teachers"), each trained on
other parts of the training pairs than those that it gives its opinion of; and of further pairs without labels, each question with the nearest other ones.

OUT_DIR gets for each fold:

  fold-0.jsonl        its pairs
  fold-0.kept.jsonl   the pairs for the threshold
  fold-0.gguf         the model that was trained with neither: for similarity.verifier, and for `llama-server --reranking`
  fold-0.json         the threshold, and the scores of all these pairs

Prints precision and coverage of the cross-encoder alone, with 95 % intervals (Wilson). With vetoes and the other match levels:

    afterimage-lab pairs build/cross-encoder/fold-0.kept.jsonl --verifier build/cross-encoder/fold-0.gguf     # choose a score
    afterimage-lab pairs build/cross-encoder/fold-0.jsonl --verifier build/cross-encoder/fold-0.gguf --verifier-threshold SCORE

Needs the packages torch, transformers, tokenizers and safetensors. One core without AVX-512 takes a quarter of an hour for an epoch of
20,000 pairs, a GPU a few seconds. Weights that are trained on the questions of Quora are subject to its terms: do not distribute them.
"""
import argparse
import importlib.util
import json
import math
import pathlib
import random
import re
import sys
import tarfile
import tempfile
import time

import safetensors.torch
import torch
from tokenizers import Tokenizer
from transformers import BertConfig, BertModel

SCRIPTS = pathlib.Path(__file__).parent.parent / "scripts"
sys.path.insert(0, str(SCRIPTS))
spec = importlib.util.spec_from_file_location("fetch_embedder", SCRIPTS / "fetch-embedder.py")
fetch_embedder = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fetch_embedder)

PRECISION = 0.95
SHARES = (0.01, 0.02, 0.05, 0.1)  # of the pairs held out
LONGEST = 64  # tokens of a pair; longer questions are cut
PARTS = 4     # of the training pairs: a teacher is trained on all but one
LABEL = 0.3   # of what is learnt where there are teachers; the rest is their mean opinion


def read_pairs(path):
    if not path.name.endswith(".gz"):
        return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    with tarfile.open(path) as archive:
        (member,) = [each for each in archive.getmembers() if each.isfile()]
        rows = json.load(archive.extractfile(member))
    return [{"a": row["text_a"], "b": row["text_b"], "duplicate": bool(row["label"])} for row in rows]


def words(text):
    return " ".join(re.findall(r"\w+", text.lower()))


def components(pairs):
    """A number for each pair: the same if a chain of pairs joins their questions."""
    parent = {}

    def root(question):
        parent.setdefault(question, question)
        while parent[question] != question:
            parent[question] = parent[parent[question]]
            question = parent[question]
        return question

    for pair in pairs:
        parent[root(words(pair["a"]))] = root(words(pair["b"]))
    numbers = {}
    return [numbers.setdefault(root(words(pair["a"])), len(numbers)) for pair in pairs]


def split(indices, component_of, parts, seed):
    """Disjoint lists of pairs of about equal size; a component is in one of them."""
    members = {}
    for i in indices:
        members.setdefault(component_of[i], []).append(i)
    groups = sorted(members.values(), key=lambda group: group[0])
    random.Random(seed).shuffle(groups)
    out = [[] for _ in range(parts)]
    for group in groups:
        min(out, key=len).extend(group)
    return [sorted(part) for part in out]


class CrossEncoder(torch.nn.Module):
    """BERT over "[CLS] a [SEP] b [SEP]", all of token type 0 as llama.cpp has it; then the head that llama.cpp calls `cls`."""

    def __init__(self, files):
        super().__init__()
        self.bert = BertModel(BertConfig(**json.loads(files["config.json"])), add_pooling_layer=False)
        state = safetensors.torch.load(files["model.safetensors"])
        missing, _ = self.bert.load_state_dict({k: v for k, v in state.items() if not k.startswith("pooler.")}, strict=False)
        if [name for name in missing if "position_ids" not in name]:
            sys.exit(f"all-MiniLM-L6-v2 lacks {missing}")
        size = self.bert.config.hidden_size
        self.dense = torch.nn.Linear(size, size)
        self.out = torch.nn.Linear(size, 1)
        if "pooler.dense.weight" in state:
            self.dense.load_state_dict({"weight": state["pooler.dense.weight"], "bias": state["pooler.dense.bias"]})
        self.bert.embeddings.requires_grad_(False)

    def forward(self, tokens, mask):
        states = self.bert(input_ids=tokens, attention_mask=mask).last_hidden_state
        return self.out(torch.tanh(self.dense(states[:, 0]))).squeeze(-1)


class Encoder:
    def __init__(self, files):
        self.tokenizer = Tokenizer.from_str(files["tokenizer.json"].decode())
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        self.cls, self.sep, self.pad = (self.tokenizer.token_to_id(t) for t in ("[CLS]", "[SEP]", "[PAD]"))

    def tokens(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids[: (LONGEST - 3) // 2]

    def batch(self, pairs, device):
        rows = [[self.cls, *a, self.sep, *b, self.sep] for a, b in pairs]
        longest = max(map(len, rows))
        tokens = torch.tensor([row + [self.pad] * (longest - len(row)) for row in rows]).to(device)
        return tokens, (tokens != self.pad).long()


def batches(indices, length, size, rng):
    """Batches of about the same length, in random order."""
    shuffled = indices[:]
    rng.shuffle(shuffled)
    out = []
    for at in range(0, len(shuffled), 50 * size):
        some = sorted(shuffled[at : at + 50 * size], key=lambda i: length[i])
        out += [some[i : i + size] for i in range(0, len(some), size)]
    rng.shuffle(out)
    return out


def precision_of(device):
    """Training in 16 bits where a GPU does it."""
    return torch.autocast("cuda", torch.bfloat16, enabled=device.type == "cuda")


def train(model, encoder, tokens, targets, indices, args, seed, say):
    """`targets`: by index, from 0 (another answer) to 1 (the same)."""
    rng = random.Random(seed)
    length = {i: len(tokens[i][0]) + len(tokens[i][1]) for i in indices}
    plain = [p for n, p in model.named_parameters() if p.requires_grad and ("bias" in n or "LayerNorm" in n)]
    decayed = [p for n, p in model.named_parameters() if p.requires_grad and not ("bias" in n or "LayerNorm" in n)]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}], lr=args.rate)
    steps = args.epochs * math.ceil(len(indices) / args.batch)
    warm = max(1, steps // 10)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min((s + 1) / warm, (steps - s) / max(1, steps - warm)))
    began, done, mean = time.monotonic(), 0, None
    model.train()
    for epoch in range(args.epochs):
        for batch in batches(indices, length, args.batch, rng):
            # Which question comes first says nothing.
            pairs = [tokens[i] if rng.random() < 0.5 else tokens[i][::-1] for i in batch]
            with precision_of(args.device):
                scores = model(*encoder.batch(pairs, args.device))
            wanted = torch.tensor([float(targets[i]) for i in batch], device=args.device)
            loss = torch.nn.functional.binary_cross_entropy_with_logits(scores.float(), wanted)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            done += 1
            if done % 500 == 0 or (args.device.type == "cpu" and done % 50 == 0):
                mean = loss.item() if mean is None else 0.8 * mean + 0.2 * loss.item()
                say(f"epoch {epoch + 1}, step {done} of {steps}, loss {mean:.3f}, {time.monotonic() - began:.0f} s")


@torch.no_grad()
def score(model, encoder, tokens, indices, device):
    model.eval()
    order = sorted(indices, key=lambda i: len(tokens[i][0]) + len(tokens[i][1]))
    scores = {}
    for at in range(0, len(order), 128):
        batch = order[at : at + 128]
        scores |= dict(zip(batch, model(*encoder.batch([tokens[i] for i in batch], device)).tolist()))
    return [scores[i] for i in indices]


def wilson(part, whole):
    if whole == 0:
        return 0.0, 0.0, 1.0
    z = 1.959964
    p, n = part / whole, whole
    middle, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return p, (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)


def lowest_threshold(scores, labels, precision):
    """The lowest score above which at least `precision` are right; infinity: there is none."""
    best, right = math.inf, 0
    ranked = sorted(zip(scores, labels), reverse=True)
    for count, (value, label) in enumerate(ranked, 1):
        right += label
        if right >= precision * count and (count == len(ranked) or ranked[count][0] < value):
            best = value
    return best


def row(name, matched, right, pairs):
    p, low, high = wilson(right, matched)
    covered = wilson(matched, pairs)
    return (f"{name:<34}{matched:>7}{100 * covered[0]:>8.2f} % ({100 * covered[1]:.2f} to {100 * covered[2]:.2f})"
            f"{100 * p:>8.1f} % ({100 * low:.1f} to {100 * high:.1f})")


def measure(scores, labels, threshold):
    taken = [label for value, label in zip(scores, labels) if value >= threshold]
    return len(taken), sum(taken)


def surest(scores, labels, share):
    count = int(share * len(scores))
    return count, sum(label for _, label in sorted(zip(scores, labels), reverse=True)[:count])


def write_gguf(model, files, out):
    state = {name.removeprefix("bert."): value.contiguous() for name, value in model.bert.state_dict().items() if "position_ids" not in name}
    state |= {"classifier.dense.weight": model.dense.weight, "classifier.dense.bias": model.dense.bias}
    state |= {"classifier.out_proj.weight": model.out.weight, "classifier.out_proj.bias": model.out.bias}
    files = files | {"model.safetensors": safetensors.torch.save({k: v.detach().cpu().clone() for k, v in state.items()})}
    fetch_embedder.convert(files, out, ranks=True)


@torch.no_grad()
def neighbours(encoder, files, questions, device, each):
    """For each question (a list of tokens) the numbers of the `each` nearest other ones, by the model's vectors before training."""
    model = CrossEncoder(files).to(device).eval()
    vectors = torch.zeros(len(questions), model.bert.config.hidden_size, device=device)
    order = sorted(range(len(questions)), key=lambda q: len(questions[q]))
    for at in range(0, len(order), 256):
        some = order[at : at + 256]
        rows = [[encoder.cls, *questions[q], encoder.sep] for q in some]
        longest = max(map(len, rows))
        ids = torch.tensor([row + [encoder.pad] * (longest - len(row)) for row in rows], device=device)
        mask = (ids != encoder.pad).long()
        states = model.bert(input_ids=ids, attention_mask=mask).last_hidden_state * mask.unsqueeze(-1)
        vectors[some] = torch.nn.functional.normalize(states.sum(1), dim=1)
    found = []
    for at in range(0, len(questions), 1024):
        nearest = (vectors[at : at + 1024] @ vectors.T).topk(min(each + 1, len(questions)), dim=1).indices.tolist()
        found += [[q for q in row if q != at + number][:each] for number, row in enumerate(nearest)]
    return found


def unlabelled(encoder, files, pairs, tokens, training, labelled, args):
    """Pairs of near questions of the training pairs; nobody said whether they have the same answer."""
    number, questions = {}, []
    for i in training:
        for side in ("a", "b"):
            if number.setdefault(words(pairs[i][side]), len(questions)) == len(questions):
                questions.append(tokens[i][0 if side == "a" else 1])
    known = {frozenset((number.get(words(pair["a"])), number.get(words(pair["b"])))) for pair in labelled}
    made = {}
    for q, nearest in enumerate(neighbours(encoder, files, questions, args.device, args.neighbours)):
        made |= {frozenset((q, other)): (questions[q], questions[other]) for other in nearest if frozenset((q, other)) not in known}
    return list(made.values())


def one_model(job):
    """Trains one model, in a process of its own where there are several, and scores the lists of pairs."""
    files, tokens, targets, indices, scored, seed, args, path = job
    torch.set_num_threads(args.threads)
    torch.manual_seed(seed)
    encoder, model = Encoder(files), CrossEncoder(files).to(args.device)
    train(model, encoder, tokens, targets, indices, args, seed, lambda text: print(text, file=sys.stderr, flush=True))
    if path is not None:
        write_gguf(model, files, path)
    return [score(model, encoder, tokens, some, args.device) for some in scored]


def run_all(jobs, processes):
    if processes == 1:
        return [one_model(job) for job in jobs]
    with torch.multiprocessing.get_context("spawn").Pool(min(processes, len(jobs))) as pool:
        return pool.map(one_model, jobs, chunksize=1)


def opinions(fold, files, tokens, labels, component_of, others, args):
    """Jobs of teachers, and where their scores go: of the part that they were not trained on, and of `others`."""
    jobs, parts = [], []
    for number in range(args.teachers):
        some = split(fold["training"], component_of, PARTS, seed=100 + number // PARTS)
        part = some[number % PARTS]
        rest = [i for each in some if each is not part for i in each]
        jobs.append((files, tokens, labels, rest, [part, others], 1000 * fold["number"] + number, args, None))
        parts.append(part)
    return jobs, parts


def mean_opinion(scores, parts, others):
    """The mean score of each pair that a teacher gave its opinion of."""
    given = {}
    for (of_part, of_others), part in zip(scores, parts):
        for i, value in [*zip(part, of_part), *zip(others, of_others)]:
            given.setdefault(i, []).append(value)
    return {i: sum(values) / len(values) for i, values in given.items()}


def sigmoid(value):
    return 1 / (1 + math.exp(-value))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", type=pathlib.Path)
    parser.add_argument("out", metavar="OUT_DIR", type=pathlib.Path)
    parser.add_argument("--more", type=pathlib.Path, help="further pairs to train on")
    parser.add_argument("--base", type=pathlib.Path, help="a folder with all-MiniLM-L6-v2 (config.json, tokenizer.json, model.safetensors) (default: it is fetched)")
    parser.add_argument("--folds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=5e-5)
    parser.add_argument("--teachers", type=int, default=0, help=f"models whose mean opinion is learnt; a multiple of {PARTS}")
    parser.add_argument("--neighbours", type=int, default=4, help="nearest questions of each question, for pairs without labels (default: %(default)s)")
    parser.add_argument("--device", type=torch.device, default="cpu", help="cpu, or cuda (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=1, help="models that are trained at a time")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--max-pairs", type=int, help="of the file, to try it out")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    args.out.mkdir(parents=True, exist_ok=True)
    pairs = read_pairs(args.pairs)[: args.max_pairs]
    own = len(pairs)
    if args.more is not None:
        known = {(pair["a"], pair["b"]) for pair in pairs}
        pairs += [pair for pair in read_pairs(args.more)[: args.max_pairs] if (pair["a"], pair["b"]) not in known]
    labels = [int(pair["duplicate"]) for pair in pairs]
    component_of = components(pairs)
    if args.base is not None:
        files = {name: (args.base / name).read_bytes() for name in ("config.json", "tokenizer.json", "model.safetensors")}
    else:
        with tempfile.TemporaryDirectory(dir=args.out) as folder:
            files = fetch_embedder.fetch(pathlib.Path(folder))
    encoder = Encoder(files)
    tokens = [(encoder.tokens(pair["a"]), encoder.tokens(pair["b"])) for pair in pairs]
    say = lambda text: print(text, file=sys.stderr, flush=True)
    folds = []
    for number, held_out in enumerate(split(range(own), component_of, args.folds, seed=1)):
        folds.append(make_fold(number, held_out, own, component_of, len(pairs)))
        say(f"fold {number}: {len(folds[-1]['training'])} pairs to train, {len(folds[-1]['validation'])} for the threshold, {len(held_out)} held out")
    for fold in folds:
        fold["targets"], fold["extra"] = dict(enumerate(labels)), []
        if args.teachers:
            more = unlabelled(encoder, files, pairs, tokens, fold["training"], pairs, args)
            fold["extra"] = list(range(len(tokens), len(tokens) + len(more)))
            tokens += more
    if args.teachers:
        jobs, places = [], []
        for fold in folds:
            of_fold, parts = opinions(fold, files, tokens, labels, component_of, fold["extra"], args)
            jobs += of_fold
            places.append(parts)
        say(f"{len(jobs)} teachers; {sum(len(fold['extra']) for fold in folds)} pairs without labels")
        scores = run_all(jobs, args.processes)
        for number, (fold, parts) in enumerate(zip(folds, places)):
            mean = mean_opinion(scores[number * args.teachers : (number + 1) * args.teachers], parts, fold["extra"])
            for i, value in mean.items():
                fold["targets"][i] = (1 - LABEL) * sigmoid(value) + LABEL * labels[i] if i < len(labels) else sigmoid(value)
    results = run_all([(files, tokens, fold["targets"], fold["training"] + fold["extra"], [fold["validation"], fold["held_out"]], fold["number"], args,
                        args.out / f"fold-{fold['number']}.gguf") for fold in folds], args.processes)
    report(folds, results, pairs, labels, own, args, say)


def make_fold(number, held_out, own, component_of, count):
    seen = {component_of[i] for i in held_out}
    others = [i for i in range(own) if component_of[i] not in seen]
    validation, *rest = split(others, component_of, 5, seed=2)
    in_validation = {component_of[i] for i in validation}
    further = [i for i in range(own, count) if component_of[i] not in seen]
    kept_further, *rest_further = split([i for i in further if component_of[i] not in in_validation], component_of, 10, seed=3)
    validation += [i for i in further if component_of[i] in in_validation] + kept_further
    in_validation = {component_of[i] for i in validation}
    training = [i for part in rest + rest_further for i in part if component_of[i] not in in_validation]
    return {"number": number, "held_out": held_out, "validation": validation, "training": training}


def report(folds, results, pairs, labels, own, args, say):
    chosen, best, sure = [0, 0], [0, 0], {share: [0, 0] for share in SHARES}
    for fold, (kept, scores) in zip(folds, results):
        held_out, validation, name = fold["held_out"], fold["validation"], args.out / f"fold-{fold['number']}"
        truth = [labels[i] for i in held_out]
        threshold = lowest_threshold(kept, [labels[i] for i in validation], PRECISION)
        for suffix, some in ((".jsonl", held_out), (".kept.jsonl", validation)):
            name.with_suffix(suffix).write_text("".join(json.dumps(pairs[i]) + "\n" for i in some))
        name.with_suffix(".json").write_text(json.dumps({"threshold": threshold, "scores": scores, "indices": held_out, "kept": kept, "kept_indices": validation}))
        accuracy = sum((s >= 0) == bool(t) for s, t in zip(scores, truth)) / len(truth)
        say(f"fold {fold['number']}: accuracy {100 * accuracy:.1f} %, threshold {threshold:.3f}")
        for total, at in ((chosen, threshold), (best, lowest_threshold(scores, truth, PRECISION))):
            matched, right = measure(scores, truth, at)
            total[0] += matched
            total[1] += right
            print(row(f"fold {fold['number']}, {'chosen without it' if total is chosen else 'best in hindsight'}", matched, right, len(held_out)), flush=True)
        for share in SHARES:
            count, right = surest(scores, truth, share)
            sure[share][0] += count
            sure[share][1] += right
            print(row(f"fold {fold['number']}, surest {100 * share:g} %", count, right, len(held_out)), flush=True)
    print(row("all, chosen without each fold", *chosen, own))
    print(row("all, best in hindsight", *best, own))
    for share in SHARES:
        print(row(f"all, surest {100 * share:g} % of each fold", *sure[share], own))


if __name__ == "__main__":
    main()
