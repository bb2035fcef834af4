# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The hierarchical semantic cache and its experiment lab."""
import contextlib
import csv
import functools
import json
import pathlib
import re
import subprocess
import tempfile
import time

from harness import ROOT, NotHere, equal, holds, lab, package, refused, row, run_workload, serve, tokens_of_another_process

EXACT = "equal text (layer 0.5)"
CASING = "all casing is the same"
SIMILAR = "similar text (layer 1)"
ENCODER = "a sentence encoder of one's own"
NEAREST = "nearest-neighbour search"
RESUMES = "a similar question resumes KV pages"
WINDOW = "key from the first N characters (`chunk_window`)"
BOUNDS = "bounds of its cache (`max_cached_blocks`, `cache_max_size_gb`)"
PROJECTOR = "the projector's tensors of a sample are kept (layer 1.5)"
FUSION = "fusion: hidden states of image and question are compared"
LATENT = "latent layers with dimensions and thresholds (layer 2)"
ONE_LAYER = "one similar layer is enough"
ORDER = "latent layers are tried before text"
PROMPT_VISION = "vectors of prompt and image by CLIP and a sentence encoder"
HOOK = "layers from a Python path `package.module:Factory`, a layer `fusion` among them"
OFF = "each technique can be turned off"
DECIDED = "which technique decided, for each sample; the prefix cache of the engine (`kv_cache`) among them"
OUTLIVE = "answers outlive the process"
COMMIT = "an entry is made once its answer exists (there: before)"
DRY_RUN = "a dry run counts matches and serves none"
PRESETS = "presets, overridden by flags"
SPECS = "files of experiments with defaults"
ABLATION = "ablation of 32 combinations"
LOG = "a log that is resumed after a crash"
KILLED = "a killed single experiment keeps its samples"
PURGE = "cache folders are emptied between runs"
DATA = "data sets: GQA, LLaVA, frames of videos"
ROOTS = "images below roots from the environment"
MODEL = "a model answers"
ACCURACY = "accuracy, hit rate and latency by technique"
SETTINGS = "settings of its engine (`tensor_parallel_size`, `gpu_memory_utilization`, `trust_remote_code`, …)"
BELOW_VLLM = "below vLLM: blocks in a store"
INSTALL = "installation, and use in other servers"
ITS_COMMANDS = "its own command lines and files of experiments"


@functools.cache
def data():
    """Questions about pictures in the layout of GQA, for all rows."""
    folder = tempfile.TemporaryDirectory(prefix="afterimage-seeds-")
    data.kept = folder
    path = pathlib.Path(folder.name, "gqa")
    lab("experiment", "--write-gqa", path, "--questions", 300)
    return path


def gqa(*options, code=0, **more):
    return lab("experiment", "--dataset", "gqa", "--data", data(), *options, code=code, **more)


def report(*options, code=0, **more):
    """What `experiment --json` says of the questions about pictures."""
    return json.loads(gqa(*options, "--json", code=code, **more))


def sweep(*experiments, options=(), code=0, **defaults):
    """The rows of a sweep's log by experiment, its samples by experiment, and what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        specs = {"defaults": {"model": "m", "max_samples": 100, **defaults}, "experiments": list(experiments)}
        (folder / "specs.json").write_text(json.dumps(specs))
        said = lab("sweep", "--specs", folder / "specs.json", "--data", data(), "--log-file", "log.csv", "--samples-dir", "samples", *options,
                   code=code, cwd=folder)
        if not (folder / "log.csv").exists():
            return {}, {}, said
        with (folder / "log.csv").open(newline="") as file:
            rows = {line["experiment"]: line for line in csv.DictReader(file)}
        samples = {path.stem: [json.loads(line) for line in path.read_text().splitlines()] for path in (folder / "samples").iterdir()}
    return rows, samples, said


def matched(rows):
    return {name: float(line["match_rate"]) for name, line in rows.items()}


def text_only(**more):
    return {"enable_semantic_text_cache": False, "enable_exact_text_cache": False, **more}


def model(name):
    path = ROOT / "build" / "models" / f"{name}.gguf"
    if not path.exists():
        raise NotHere(f"{path.relative_to(ROOT)}: make llama")
    return path


@row("002-01", "equal text", EXACT)
def _():
    with before_a_model(lambda _: "Clay.") as (gateway, _):
        seen = [answer(gateway, text).headers.get("X-Cache-Source", "") for text in ("What is it made of?", "What is it made of?", "what  is it made of")]
    return equal(seen, ["", "text:exact", "text:canonical"])


@contextlib.contextmanager
def before_a_model(says, **settings):
    """A gateway in front of a server that answers at once."""
    from gateway_process import GatewayProcess
    from mock_model import MockModel
    with MockModel() as upstream:
        upstream.says = says
        with GatewayProcess({"upstream": {"url": upstream.url}, **settings}) as gateway:
            yield gateway, upstream


def answer(gateway, question):
    reply = gateway.post({"model": "mock-small", "temperature": 0, "messages": [{"role": "user", "content": question}]})
    equal(reply.status, 200, reply.text)
    return reply


refused("002-02", "equal but for any casing", CASING)


@row("002-03", "the index of texts is kept", OUTLIVE)
def _():
    return kept_for_the_next_run()


def kept_for_the_next_run(*options):
    with tempfile.TemporaryDirectory() as folder:
        for said in ("the caches start empty", r"the caches start with \d+ answers, \d+ questions with vectors"):
            output = gqa("--max-samples", 20, "--cache-dir", f"{folder}/kept", *options)
            holds(re.search(said, output), output)
    return re.search(said, output)[0]


@row("002-04", "similar text, in experiments", SIMILAR)
def _():
    rows, _, _ = sweep({"name": "loose", "similarity_threshold": 0.5}, {"name": "strict", "similarity_threshold": 0.9})
    return holds(matched(rows)["loose"] > matched(rows)["strict"], f"match rates {matched(rows)}")


@row("002-05", "similar text, in a server", SIMILAR)
def _():
    says = lambda question: "It lies at the river " + re.search(r"town of (\w+)", question)[1]
    with before_a_model(says, similarity={"mode": "on", "error_budget": 0.2}) as (gateway, upstream):
        for number in range(40):
            for end in ("", " please"):
                answer(gateway, f"On which river does the old town of T{number}a lie{end}?")
        served = gateway.metric("afterimage_similarity_lookups_total", verdict="served")
        return holds(served > 3, f"{served:g} answers served to similar questions; the model was asked {len(upstream.calls)} times")


@row("002-06", "the first characters of a key", WINDOW)
def _():
    rows, _, _ = sweep({"name": "all", "chunk_window": 0}, {"name": "five", "chunk_window": 5})
    return holds(matched(rows)["five"] > matched(rows)["all"], f"match rates {matched(rows)}")


@row("002-07", "a sentence encoder of one's own", ENCODER)
def _():
    return encoders_differ("--index-encoder", model("vectors"))


def encoders_differ(*options, base=()):
    plain, other = (report("--chunk-source", "question", "--similarity-threshold", 0.9, *base, *more) for more in ((), options))
    holds(other["outcome"] != plain["outcome"], "the encoder changes nothing")
    return f"match rates {plain['match_rate']:.3f} and {other['match_rate']:.3f}"


@row("002-08", "the nearest neighbour is found", NEAREST)
def _():
    _, samples, _ = sweep({"name": "near", "similarity_threshold": 0.7})
    found = [sample for sample in samples["near"] if sample["hit_source"] == "text"]
    return holds(found, f"{found[0]['chunk_text']!r} is like {found[0]['candidate']!r}: {found[0]['score']:.3f}")


refused("002-09", "a similar question resumes KV pages", RESUMES)


@row("002-10", "the projector's tensors of a sample", PROJECTOR)
def _():
    calls = run_workload()["encoder_calls"]
    return holds(calls["encode_once"] < calls["cold"], f"encoder calls {calls}")


@row("002-11", "states of image and question, compared", FUSION)
def _():
    holds("fusion serves nothing" in gqa("--max-samples", 5, "--enable-fusion-cache"), "an engine without states is reported")
    said = report(*FUSED)
    return holds("fusion" in json.dumps(said["match_breakdown"]), f"match_breakdown {said['match_breakdown']}")


FUSED = ("--engine", "reference", "--max-tokens", 2, "--max-samples", 12, "--enable-fusion-cache", "--similarity-threshold", -1, "--images", "similar",
         "--no-vetoes", "--disable-exact-cache", "--disable-semantic-cache")


def hook_folder(folder, layers):
    (pathlib.Path(folder) / "mine.py").write_text(f"""
def letters():
    def hook(sample):
        counts = [sample["question"].count(chr(97 + i)) for i in range(26)]
        return {{name: counts for name in {layers!r}}}
    return hook
""")
    return ("--embedding-hook", "mine:letters", "--disable-exact-cache", "--disable-semantic-cache", "--no-vetoes", "--chunk-source", "question")


@row("002-12", "a provider of fusion states of one's own", HOOK)
def _():
    with tempfile.TemporaryDirectory() as folder:
        said = report(*hook_folder(folder, ["fusion"]), "--embedding-layer", "fusion:26:0.99", cwd=folder)
    return holds("fusion" in json.dumps(said["match_breakdown"]), f"match_breakdown {said['match_breakdown']}")


@row("002-13", "states are kept", OUTLIVE)
def _():
    return kept_for_the_next_run("--engine", "reference", "--max-tokens", 2, "--enable-fusion-cache")


@row("002-14", "latent layers with thresholds", LATENT)
def _():
    layers = text_only(embedding_hook="prompt", chunk_source="question")
    rows, _, _ = sweep({"name": "loose", "embedding_layers": ["prompt:384:0.5"], **layers}, {"name": "strict", "embedding_layers": ["prompt:384:0.95"], **layers})
    return holds(matched(rows)["loose"] > matched(rows)["strict"], f"match rates {matched(rows)}")


@row("002-15", "the layer prompt, from a sentence encoder", PROMPT_VISION)
def _():
    layer = ("--embedding-hook", "prompt", "--embedding-layer", "prompt:384:0.9", "--disable-exact-cache", "--disable-semantic-cache")
    return encoders_differ("--index-encoder", model("vectors"), base=layer)


@row("002-16", "the layer vision, from an image encoder", PROMPT_VISION)
def _():
    options = ("--engine", "reference", "--max-tokens", 1, "--max-samples", 8, "--images", "similar", "--no-vetoes", "--disable-exact-cache",
               "--disable-semantic-cache", "--embedding-hook", "vision", "--embedding-layer")
    holds("compares what the engine's encoder makes of images" in gqa(*options, "vision:512:0.9"), "the run says so")
    rates = [report(*options, f"vision:512:{least}")["match_rate"] for least in (-1, 1)]
    return holds(rates[0] > rates[1], f"match rates {rates}")


@row("002-17", "the threshold of the layer vision", LATENT)
def _():
    layers = text_only(embedding_hook="prompt_vision", images="similar", vetoes=False, chunk_source="question")
    rows, _, _ = sweep(*({"name": f"v{least}", "embedding_layers": ["prompt:384:0.5", f"vision:512:{least}"], **layers} for least in (0.1, 0.999)))
    return holds(matched(rows)["v0.1"] > matched(rows)["v0.999"], f"match rates {matched(rows)}")


@row("002-18", "layers are switched one by one", OFF)
def _():
    seen = {flag: techniques_of(flag) for flag in ("--disable-exact-cache", "--disable-semantic-cache")}
    equal(set(seen["--disable-exact-cache"]["exact_text"]), {"skip"})
    return equal(set(seen["--disable-semantic-cache"]["semantic_text"]), {"skip"})


def samples_of(*options, **more):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "samples.jsonl")
        gqa("--max-samples", 20, "--samples-jsonl", path, *options, **more)
        return [json.loads(line) for line in path.read_text().splitlines()]


def techniques_of(*options):
    """What each technique was, for each sample."""
    samples = samples_of(*options)
    return {name: [sample["techniques"][name] for sample in samples] for name in samples[0]["techniques"]}


@row("002-19", "each level is extended alone", HOOK)
def _():
    with tempfile.TemporaryDirectory() as folder:
        said = report(*hook_folder(folder, ["letters"]), "--embedding-layer", "letters:26:0.99", cwd=folder)
    return holds(said["match_rate"] > 0.05, f"a layer of letters: match rate {said['match_rate']:.3f}")


@row("002-20", "an adapter for vLLM's scheduler", BELOW_VLLM)
def _():
    package()
    try:
        import vllm  # noqa: F401
    except ImportError as missing:
        raise NotHere("vLLM; python/tests/with_vllm") from missing
    from afterimage.vllm import SecondaryTier
    return SecondaryTier.__name__


@row("002-21", "blocks in a store", OUTLIVE)
def _():
    return holds(tokens_of_another_process() > 0, f"{tokens_of_another_process()} tokens loaded from blocks that another process wrote")


@row("002-22", "names of techniques in samples", DECIDED)
def _():
    return holds({"kv_cache", "exact_text", "semantic_text"} <= set(techniques_of()), f"techniques {sorted(techniques_of())}")


@row("002-23", "the engine's prefix cache is named", DECIDED)
def _():
    seen = techniques_of("--engine", "reference", "--max-tokens", 1, "--shuffle-seed", -1)["kv_cache"]
    return holds("hit" in seen, f"kv_cache {seen}")


def its_command(*options, **more):
    """A command line of its README, without a word changed, where GQA_IMAGE_ROOT names the images."""
    return lab("experiment", *options, environment={"GQA_IMAGE_ROOT": str(data() / "images")}, **more)


@row("002-24", "its first command line", ITS_COMMANDS)
def _():
    said = its_command("--model", "facebook/opt-125m", "--max-samples", "64", "--chunk-source", "semantic")
    return holds("Loaded 64 prompts from gqa" in said, re.search("Loaded.*", said)[0])


@row("002-25", "its second command line", ITS_COMMANDS)
def _():
    said = its_command("--model", "Qwen/Qwen2.5-VL-7B-Instruct", "--max-samples", "128", "--chunk-source", "group", "--embedding-layer", "prompt:384:0.8",
                       "--embedding-layer", "vision:512:0.82", "--embedding-hook", "prompt_vision")
    return holds("embedding:vision" in said, re.search("Loaded.*", said)[0])


@row("002-26", "its third command line", ITS_COMMANDS)
def _():
    said = its_command("--preset", "internvl3.5-2b", "--dataset", "gqa", "--max-samples", "64", "--cache-mode", "dry-run")
    return holds("Loaded 64 prompts from gqa" in said, re.search("Loaded.*", said)[0])


@row("002-27", "the named model answers", MODEL)
def _():
    with serve() as gateway:
        said = report("--engine", f"http://127.0.0.1:{gateway.port}/v1", "--model", "m", "--max-samples", 4, "--max-tokens", 2)
    return equal((said["model"], said["failed"], said["total_prompts"]), ("m", 0, 4))


def preset(name):
    said = report("--preset", name, "--max-samples", 2)
    return said["model"], said["embedding_layers"], said["similarity_threshold"], said["trust_remote_code"]


@row("002-28", "preset internvl3.5-2b", PRESETS)
def _():
    return equal(preset("internvl3.5-2b"), ("OpenGVLab/InternVL3_5-2B-Instruct", ["prompt:384:0.8", "vision:512:0.82"], 0.8, True))


@row("002-29", "preset qwen3-vl-2b", PRESETS)
def _():
    return equal(preset("qwen3-vl-2b"), ("Qwen/Qwen3-VL-2B-Instruct", ["prompt:384:0.82", "vision:512:0.85"], 0.82, True))


@row("002-30", "a flag overrides the preset, also with the default", PRESETS)
def _():
    return equal(report("--preset", "qwen3-vl-2b", "--similarity-threshold", 0.8, "--max-samples", 2)["similarity_threshold"], 0.8)


refused("002-31", "code of a model is run", SETTINGS)


@row("002-32", "roots of images from the environment", ROOTS)
def _():
    names = ["SEMANTIC_CACHE_IMAGE_ROOT", "GQA_IMAGE_ROOT", "LLAVA_IMAGE_ROOT"]
    with tempfile.TemporaryDirectory() as folder:
        records = pathlib.Path(folder, "val_balanced_questions.json")
        records.write_bytes((data() / records.name).read_bytes())
        command = ("experiment", "--dataset", "gqa", "--data", records, "--max-samples", 20)
        for name in names:
            said = lab(*command, environment={name: str(data() / "images")})
            holds("Images attached: 20 of 20" in said, f"{name}: {said}")
    return "20 of 20 images, by each of three names"


@row("002-33", "a missing image fails nothing", ROOTS)
def _():
    with tempfile.TemporaryDirectory() as folder:
        records = pathlib.Path(folder, "val_balanced_questions.json")
        records.write_bytes((data() / records.name).read_bytes())
        said = lab("experiment", "--dataset", "gqa", "--data", records, "--max-samples", 20)
    return holds("20 samples are asked without their image" in said, re.search(r"\[warn\].*", said)[0])


@functools.cache
def ablation():
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        rows = json.loads(lab("ablation", f"{folder}/a", "--questions", 2000, "--json", errors=False))
        files = sorted(path.name for path in pathlib.Path(folder, "a").iterdir())
    return rows, files, time.monotonic() - began


@row("002-34", "32 combinations, of which no two are the same", ABLATION)
def _():
    rows, _, took = ablation()
    return equal(len({each["outcome"] for each in rows}), 32, f"outcomes, in {took:.0f} s")


@row("002-35", "one command runs them", ABLATION)
def _():
    return equal(ablation()[1], ["gqa", "log.csv", "report.html", "samples", "specs.json"])


@row("002-36", "the ablation's log and samples", ABLATION)
def _():
    rows, samples, _ = sweep({"name": "a"}, {"name": "b", "chunk_source": "question"})
    return equal((list(rows), sorted(samples)), (["a", "b"], ["a", "b"]))


@row("002-37", "cache folders are emptied between runs", PURGE)
def _():
    rows, _, said = sweep({"name": "a", "cache_dir": "/"}, options=["--purge-cache-between-runs"])
    return holds("'/' cannot be a cache folder" in said and rows, "a marked folder is emptied; '/' is refused with a warning")


README_SPECS = ROOT / "examples" / "experiments" / "readme.json"


@row("002-38", "its file of experiments", ITS_COMMANDS)
def _():
    with tempfile.TemporaryDirectory() as folder:
        lab("sweep", "--specs", README_SPECS, "--log-file", "sweep_logs.csv", "--samples-dir", "sweep_samples", cwd=folder,
            environment={"GQA_IMAGE_ROOT": str(data() / "images")})
        with pathlib.Path(folder, "sweep_logs.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
    return equal([(each["experiment"], each["total_prompts"]) for each in rows], [("opt125m-semantic", "128"), ("qwen-prompts", "64"), ("internvl35-2b", "64")])


@row("002-39", "a list of experiments; unknown settings", SPECS)
def _():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "list.json")
        path.write_text(json.dumps([{"name": "a", "model": "m", "max_sample": 1}]))
        return holds("max_sample" in lab("sweep", "--specs", path, "--data", data(), code=2), 'unknown setting "max_sample"')


@row("002-40", "a log in CSV", LOG)
def _():
    rows, _, _ = sweep({"name": "a"})
    columns = list(rows["a"])
    return holds(columns[0] == "timestamp" and columns.index("hit_breakdown") < columns.index("cache_mode"), f"{len(columns)} columns, the original's first")


@row("002-41", "a log in JSON", LOG)
def _():
    return holds(isinstance(report("--max-samples", 2)["cache_hit_rate"], (int, float)), "numbers are numbers")


@row("002-42", "samples of each experiment", LOG)
def _():
    _, samples, _ = sweep({"name": "a"}, max_samples=10)
    return equal(len(samples["a"]), 10)


@row("002-43", "a sweep is resumed", LOG)
def _():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "specs.json")
        path.write_text(json.dumps([{"name": "a", "model": "m", "max_samples": 5}]))
        said = [lab("sweep", "--specs", path, "--data", data(), "--resume", cwd=folder) for _ in range(2)]
    return holds("1 experiments run" in said[0] and "0 experiments run, 1 skipped" in said[1], "0 experiments run, 1 skipped")


@row("002-44", "a killed experiment keeps its samples", KILLED)
def _():
    from harness import LAB
    with tempfile.TemporaryDirectory() as folder:
        lines = pathlib.Path(folder, "s.jsonl")
        command = ["experiment", "--dataset", "gqa", "--data", data(), "--max-samples", 60, "--engine", "reference", "--max-tokens", 2, "--samples-jsonl", lines]
        running = subprocess.Popen([LAB, *map(str, command)], stdout=subprocess.DEVNULL)
        while not lines.exists() or lines.read_text().count("\n") < 2:
            holds(running.poll() is None, "it is still running")
            time.sleep(0.01)
        running.kill()
        running.wait()
        kept = lines.read_text().count("\n")
        said = lab(*command, "--resume")
        holds(f"{kept} of 60 samples were recorded" in said, said)
        return equal(lines.read_text().count("\n"), 60, f"samples, {kept} of them from before")


@row("002-45", "notes", SPECS)
def _():
    rows, _, _ = sweep({"name": "a", "notes": "InternVL3.5-2B with prompt-semantic cache."})
    return equal(rows["a"]["notes"], "InternVL3.5-2B with prompt-semantic cache.")


@row("002-46", "a preset in a file of experiments", PRESETS)
def _():
    rows, _, _ = sweep({"name": "a", "preset": "internvl3.5-2b", "model": "OpenGVLab/InternVL3_5-2B-Instruct"})
    return equal(rows["a"]["embedding_layers"], "prompt:384:0.8,vision:512:0.82")


@row("002-47", "the model's name in the logs", MODEL)
def _():
    named, unnamed = (report("--engine", "reference", "--max-tokens", 1, "--max-samples", 1, *more)["model"] for more in (("--model", "mine"), ()))
    return equal((named, unnamed), ("mine", "reference"), "never the name of a model that did not answer")


def order_of(*options):
    return [sample["dataset_id"] for sample in samples_of(*options)]


@row("002-48", "configuration, number and order of samples", DATA)
def _():
    one, again, other = (order_of("--dataset-config", "val_balanced_instructions", "--shuffle-seed", seed) for seed in (7, 7, 8))
    return equal((one == again, one == other, len(one)), (True, False, 20))


@row("002-49", "splits and slices", DATA)
def _():
    said = gqa("--split", "val[:100]", "--max-samples", -1)
    holds("Loaded 100 prompts" in said, said)
    return holds("train_balanced_questions.json" in gqa("--split", "train", code=2), "val[:100]: 100 samples; train has its own file")


@row("002-50", "what the key is made of", DATA)
def _():
    rates = {source: report("--chunk-source", source)["match_rate"] for source in ("question", "semantic", "answer", "group", "image", "combined")}
    return holds(len(set(rates.values())) > 2, f"match rates {rates}")


@row("002-51", "the threshold of similar text", SIMILAR)
def _():
    rates = [report("--similarity-threshold", least)["match_rate"] for least in (0.5, 0.99)]
    return holds(rates[0] > rates[1], f"match rates {rates}")


@row("002-52", "layers on the command line", LATENT)
def _():
    wrong = gqa("--embedding-layer", "prompt:x", "--embedding-hook", "prompt", code=2)
    return holds("NAME:DIMENSIONS" in wrong, " ".join(wrong.split()))


@row("002-53", "hooks by name", PROMPT_VISION)
def _():
    for hook in ("none", "prompt", "vision", "prompt_vision"):
        report("--embedding-hook", hook, "--embedding-layer", "prompt:384", "--embedding-layer", "vision:512", "--max-samples", 4)
    return holds("is skipped" in gqa("--embedding-layer", "prompt:384", "--max-samples", 2), "none, prompt, vision, prompt_vision")


@row("002-54", "hooks by a dotted path", HOOK)
def _():
    with tempfile.TemporaryDirectory() as folder:
        hook_folder(folder, ["letters"])
        wrong = gqa("--embedding-layer", "letters:26", "--embedding-hook", "mine:numbers", code=2, cwd=folder)
    return holds("Python says above why" in wrong, "mine:letters runs in a process of its own; what is not there is named")


@row("002-55", "without similar text", OFF)
def _():
    return equal(report("--disable-semantic-cache")["enable_semantic_text_cache"], False)


@row("002-56", "bounds of the cache", BOUNDS)
def _():
    few, many = (report("--shuffle-seed", -1, *more)["match_rate"] for more in (("--max-cached-blocks", 2), ()))
    return holds(few < many, f"match rates {few:.3f} with two answers, {many:.3f} without a bound")


@row("002-57", "the cache's folder", OUTLIVE)
def _():
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "thesis.txt").write_text("years of work")
        said = gqa("--cache-dir", folder, "--max-samples", 2, code=2)
    return holds(folder in said, " ".join(said.split())[-120:])


@row("002-58", "an encoder that is a file", ENCODER)
def _():
    return encoders_differ("--index-encoder", model("vectors"))


@row("002-59", "a line that says where a hit came from", DECIDED)
def _():
    said = lab("experiment", "--preset", "internvl3.5-2b", "--dataset", "synthetic", "--cache-mode", "live")
    return holds(re.search(r"\[[\w-]+\] hit \(embedding:prompt\) \| latency=\d+\.\d{3}s \| answer match=True", said), "[…] hit (embedding:prompt) | latency=…s | answer match=True")


refused("002-60", "latent layers before text", ORDER)
refused("002-61", "one similar layer is enough", ONE_LAYER)


@row("002-62", "kept after the answer", COMMIT)
def _():
    with tempfile.TemporaryDirectory() as folder:
        said = report("--engine", "http://127.0.0.1:1/v1", "--model", "m", "--max-samples", 6, "--chunk-source", "image", "--cache-dir", f"{folder}/kept", code=1)
    return equal((said["failed"], said["match_rate"]), (6, 0), "what failed is in no cache")


@row("002-63", "answers are judged", ACCURACY)
def _():
    equal(report("--max-samples", 50)["answer_accuracy"], 1.0)
    said = report("--chunk-source", "image", "--cache-mode", "live", code=1)
    return holds(said["wrong_served"] > 0 and said["answer_accuracy"] < 1, f"{said['wrong_served']} wrong answers make the exit code 1")


@row("002-64", "latency and rates", ACCURACY)
def _():
    said = report("--chunk-source", "question", "--cache-mode", "live", "--disable-semantic-cache")
    return holds(said["avg_latency_hit"] is not None and said["latency_by_source"], f"latency_by_source {said['latency_by_source']}")


@row("002-65", "dry runs and live runs", DRY_RUN)
def _():
    seen = [report("--disable-semantic-cache", "--cache-mode", mode) for mode in ("dry-run", "live")]
    equal(seen[0]["served"], 0)
    return holds(seen[0]["match_rate"] == seen[1]["match_rate"] > 0 and seen[1]["served"] > 0, f"match rate {seen[1]['match_rate']:.3f}, served 0 and {seen[1]['served']}")


@row("002-66", "GQA, also in shards", DATA)
def _():
    with tempfile.TemporaryDirectory() as folder:
        records = list(json.loads((data() / "val_balanced_questions.json").read_text()).items())
        shards = pathlib.Path(folder, "val_all_questions")
        shards.mkdir()
        for number in range(2):
            (shards / f"val_all_questions_{number}.json").write_text(json.dumps(dict(records[number::2])))
        said = lab("experiment", "--dataset", "gqa", "--data", folder, "--dataset-config", "val_all_instructions", "--max-samples", -1)
    return holds(f"Loaded {len(records)} prompts" in said, f"{len(records)} samples of two shards")


@row("002-67", "other data sets", DATA)
def _():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "llava_instruct_150k.json")
        path.write_text(json.dumps([{"id": "1", "image": "1.jpg", "conversations": [{"from": "human", "value": "<image>\nWhat?"}, {"from": "gpt", "value": "A cat."}]}]))
        holds("Loaded 1 prompts" in lab("experiment", "--dataset", "llava150k", "--data", folder), "llava150k")
        pathlib.Path(folder, "video_frames_dataset.json").write_text(json.dumps([{"id": "f1", "question": "What moves?", "answer": "a car"}]))
        holds("Loaded 1 prompts" in lab("experiment", "--dataset", "video_frames", "--video-frames-data", folder), "video_frames")
    return "llava150k, video_frames"


@row("002-68", "a template of prompts", MODEL)
def _():
    sample = samples_of("--prompt-template", "About {image_id}: {question}")[0]
    return equal(sample["prompt"], f"About {sample['image_id']}: {sample['question']}")


refused("002-69", "settings of its engine", SETTINGS)


@row("002-70", "a package for other servers", INSTALL)
def _():
    ai, _ = package()
    where = ai.Scope(ai.Namespace("m", "e", secret=bytes(32)), [("user", [None])])
    with ai.AnswerCache(1 << 20) as cache:
        seen = [cache.get_or_answer(where, question, lambda: "Paris.").answer.text for question in ("What is it?", "what is it")]
        return equal((seen, cache.stats()["entries"]), (["Paris.", "Paris."], 1))


@row("002-71", "installation", INSTALL)
def _():
    from harness import LAB, program
    said = subprocess.run([LAB, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    return equal(said.split()[1], program("--version").split()[1], f"{said}, installed by make build, make lab or pip")


