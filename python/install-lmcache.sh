#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# Installs LMCache without a GPU into a virtual environment, and unpacks its tests.
#
#   python/install-lmcache.sh build/python-test/lmcache build/lmcache-tests
set -eu
env=$1
tests=$2
lmcache=lmcache==0.5.6
# Its requirements include CUDA packages, so these are the ones that its storage layer and tests import.
"$env/bin/pip" install -q torch==2.13.0 'numpy<=2.2.6' 'setuptools>=77.0.3,<81' setuptools_scm wheel packaging ninja \
  aiofile aiofiles aiohttp blake3 cachetools cryptography fastapi httpx httptools msgspec numba nvtx psutil py-cpuinfo \
  pytest-asyncio pyyaml pyzmq redis requests safetensors sortedcontainers tqdm 'transformers>=5.4' uvicorn \
  'opentelemetry-api>=1.20,<=1.40' 'opentelemetry-sdk>=1.20' 'opentelemetry-exporter-otlp>=1.20' \
  'opentelemetry-exporter-prometheus>=0.50b0,<=0.61b0' 'prometheus_client>=0.18,<=0.24.1'
"$env/bin/pip" install -q --no-deps "$lmcache"
# The tests are in the source distribution alone. They are moved out of it, because its package is not compiled.
rm -rf "$tests"
mkdir -p "$tests"
NO_CUDA_EXT=1 "$env/bin/pip" download -q --no-deps --no-binary lmcache --no-build-isolation -d "$tests" "$lmcache"
tar -xzf "$tests"/lmcache-*.tar.gz -C "$tests" --strip-components 1 --wildcards '*/tests'
rm "$tests"/lmcache-*.tar.gz
