#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# Installs SGLang without a GPU into a virtual environment.
#
#   python/install-sglang.sh build/python-test/sglang
set -eu
env=$1
# Its requirements include CUDA kernels, so these are the ones that its memory caches import.
"$env/bin/pip" install -q torch==2.13.0 torchvision==0.28.0 aiohttp apache-tvm-ffi compressed-tensors dill einops fastapi gguf \
  huggingface_hub ipython mistral_common msgspec numpy orjson packaging pillow prometheus_client psutil pybase64 pydantic \
  python-multipart pyyaml pyzmq regex requests sentencepiece tiktoken tqdm 'transformers>=5' uvicorn
"$env/bin/pip" install -q --no-deps sglang==0.5.23
