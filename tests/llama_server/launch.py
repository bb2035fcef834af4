#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Started by llama.cpp's server tests in place of llama-server: takes its command line, and starts what
AFTERIMAGE_LAUNCH names, with models of this machine in place of those that the tests download.

AFTERIMAGE_LAUNCH   "llama-server", or "afterimage"
AFTERIMAGE_PROGRAM  the program of that name
AFTERIMAGE_MODELS   the folder of scripts/make-demo-models.py
"""
import argparse
import hashlib
import json
import os
import pathlib
import sys
import tempfile

MODELS = pathlib.Path(os.environ["AFTERIMAGE_MODELS"])
FETCHED = ("--hf-repo", "--hf-file", "--model-url", "--mmproj-url", "--lora", "--model-draft")


def models_for(repository, file):
    """The stand-ins for a model, by what the tests expect of it: pictures, embeddings, or a tokenizer like Llama 2's."""
    if "tinygemma3" in repository:
        return ["--model", str(MODELS / "dense.gguf"), "--mmproj", str(MODELS / "dense.mmproj.gguf")]
    return ["--model", str(MODELS / ("vectors.gguf" if "bert" in file else "sentences.gguf"))]


def without_downloads(arguments):
    kept, repository, file = [], "", ""
    words = iter(arguments)
    for word in words:
        if word in FETCHED:
            value = next(words)
            repository = value if word == "--hf-repo" else repository
            file = value if word == "--hf-file" else file
        elif word != "--offline":
            kept.append(word)
    # Threads that wait for each other at every step of a tiny model take most of the time on a busy machine.
    return kept + ["--threads", "1"], models_for(repository, file)


def afterimage_arguments(arguments):
    """llama-server's options as those of `afterimage serve`; what it has no word for is left out."""
    read = argparse.ArgumentParser(allow_abbrev=False)
    read.add_argument("--host", default="127.0.0.1")
    for name in ("--port", "--ctx-size", "--parallel", "--threads", "--n-predict", "--seed"):
        read.add_argument(name, type=int)
    for name in ("--alias", "--chat-template", "--chat-template-file", "--api-key", "--pooling", "--reasoning"):
        read.add_argument(name)
    for name in ("--no-slots", "--verbose"):
        read.add_argument(name, action="store_true")
    asked, _ = read.parse_known_args(arguments)
    lanes = asked.parallel or 4
    made = ["--engine", "llama", "--lanes", str(lanes), "--context", str(max((asked.ctx_size or 4096) // lanes, 256))]  # its least
    if asked.threads:
        made += ["--threads", str(asked.threads)]
    template = asked.chat_template
    if asked.chat_template_file:
        template = pathlib.Path(asked.chat_template_file).read_text()
    if template:
        made += ["--chat-template", template]
    if asked.reasoning:
        made += ["--reasoning", asked.reasoning]
    if asked.pooling:
        made += ["--pooling", asked.pooling]
    settings = {"listen": {"address": asked.host, "port": asked.port}, "admin": {"port": 0},
                "engine": {"max_tokens": asked.n_predict, "model": (asked.alias or "").split(",")[0] or None,
                           "seed": asked.seed, "slots": not asked.no_slots, "verbose": asked.verbose}}
    return made, settings, asked.api_key


def toml(settings, key):
    lines = []
    for section, values in settings.items():
        lines.append(f"[{section}]")
        lines += [f"{name} = {json.dumps(value)}" for name, value in values.items() if value is not None and value != -1]
    if key:
        digest = hashlib.sha256(key.encode()).hexdigest()
        lines += ["[tenancy]", 'unknown_keys = "refuse"', "[[tenancy.tenants]]", 'name = "test"', f'key_sha256 = ["{digest}"]']
    return "\n".join(lines) + "\n"


def main():
    arguments, models = without_downloads(sys.argv[1:])
    program = os.environ["AFTERIMAGE_PROGRAM"]
    if os.environ["AFTERIMAGE_LAUNCH"] == "llama-server":
        os.execv(program, [program, *models, *arguments])
    made, settings, key = afterimage_arguments(arguments)
    with tempfile.NamedTemporaryFile("w", suffix=".toml", delete=False) as file:
        file.write(toml(settings, key))
    os.execv(program, [program, "serve", "--config", file.name, *models, *made])


if __name__ == "__main__":
    main()
