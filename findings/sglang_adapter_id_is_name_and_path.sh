#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# What one would guess: SGLang's identifier of a LoRA adapter is the adapter's, wherever it is loaded ("guarantees a unique lora_id").
#
# What happens: an adapter of --lora-paths gets an identifier made from its NAME and PATH alone, so other weights in the same folder
# have the same identifier after a restart; the same adapter loaded while the server runs gets a RANDOM one, another each time.
# The identifier is what tells adapters apart in the keys of KV pages, also of those in HiCache's storage (disk, servers), which
# outlive the server.
#
# Why it matters for caches: pages of a fine-tuned adapter that was trained on and saved to the same folder are answered with the old
# adapter's KV after a restart, and pages of an adapter that was loaded by request are never found again. A store below SGLang has to put
# the files of the adapters into its own keys.
#
# Runs SGLang's own class and key function, taken out of its wheel (39 MB), with stand-ins for the two helpers that it imports and does
# not use here.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/env"
"$work/env/bin/pip" install -q --disable-pip-version-check --no-deps sglang==0.5.23 msgspec==0.20.0
"$work/env/bin/python" - <<'PY'
import ast
import hashlib
import importlib.util
import pathlib
import sys
import tempfile
import types
from importlib import metadata
from typing import Optional

package = pathlib.Path(metadata.distribution("sglang").locate_file("sglang"))
for name, members in {"sglang": (), "sglang.srt": (), "sglang.srt.utils": ("ConcurrentCounter",), "sglang.srt.utils.aio_rwlock": ("RWLock",)}.items():
    module = types.ModuleType(name)
    for member in members:
        setattr(module, member, type(member, (), {}))
    sys.modules[name] = module
spec = importlib.util.spec_from_file_location("lora_registry", package / "srt/lora/lora_registry.py")
registry = importlib.util.module_from_spec(spec)
sys.modules["lora_registry"] = registry
spec.loader.exec_module(registry)
source = ast.parse((package / "srt/mem_cache/utils.py").read_text())
function = [node for node in source.body if isinstance(node, ast.FunctionDef) and node.name == "storage_namespace_seed"]
space = {"hashlib": hashlib, "Optional": Optional}
exec(compile(ast.Module(function, []), "utils.py", "exec"), space)


def pages_of(adapter_id):
    """The start of every page key of a request with this adapter."""
    return space["storage_namespace_seed"](adapter_id, None)


print(f"sglang {metadata.version('sglang')}")
at_start, by_request = [], []
with tempfile.TemporaryDirectory() as folder:
    for weights in (b"the first training", b"the second training"):
        (pathlib.Path(folder) / "adapter_model.safetensors").write_bytes(weights)
        at_start.append(pages_of(registry.LoRARef.deterministic_id("tickets", folder)))
        by_request.append(pages_of(registry.LoRARef(lora_name="tickets", lora_path=folder).lora_id))
        print(f"{weights.decode():20} --lora-paths: pages {at_start[-1][:12]}   by request: pages {by_request[-1][:12]}")
again = pages_of(registry.LoRARef(lora_name="tickets", lora_path=folder).lora_id)
print(f"{'the same, once more':20} --lora-paths: pages {at_start[-1][:12]}   by request: pages {again[:12]}")
if at_start[0] != at_start[1]:
    sys.exit("CHANGED: other weights under one name and path have other pages")
if again == by_request[1]:
    sys.exit("CHANGED: an adapter that is loaded by request again has the same pages")
print("AS DESCRIBED: adapters of --lora-paths are told apart by name and path, those loaded by request not even found again")
PY
