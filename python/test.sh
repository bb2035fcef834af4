#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# Installs the package into a fresh virtual environment and runs its tests there.
#
#   python/test.sh                 the package alone, its README and examples, and mypy, on a wheel built as for a release
#   python/test.sh transformers    afterimage.transformers, with torch and transformers (gigabytes)
#   python/test.sh vllm            afterimage.vllm with vLLM's classes, its engine and its own tests, on a CPU (gigabytes, kept in build/vllm)
#   VLLM_VERSION=0.31.0 python/test.sh vllm            the same with another version, in build/vllm-0.31.0
#   VLLM_PACKAGE=vllm==0.33.0 python/test.sh vllm      the same with another distribution, such as that for CUDA
#   python/test.sh sglang          afterimage.sglang against SGLang's classes (gigabytes)
#   python/test.sh lmcache         afterimage.lmcache with LMCache, then LMCache's own tests on it (gigabytes)
#   python/test.sh bench           bench/python_bindings.py, ec_connector.py, transformers_ttft.py and transformers_video.py, optimised
#   VLLM=1 python/test.sh bench    bench/python_bindings.py, ec_connector.py, vllm_scheduler_step.py and vllm_encode_once.py, in
#                                  the environment of vllm
#   SANITIZE=1 python/test.sh      the package tests with AddressSanitizer and UndefinedBehaviorSanitizer
set -eu
what=${1:-package}
root=$(cd "$(dirname "$0")/.." && pwd)
out=$root/build/python-test
[ -z "${SANITIZE:-}" ] || out=$out-sanitize
env=$out/$what
mkdir -p "$out"
if [ "$what" = vllm ] || [ "$what${VLLM:-}" = bench1 ]; then
  vllm=$root/build/${VLLM_PACKAGE:-vllm${VLLM_VERSION:+-$VLLM_VERSION}}
  env=$vllm/env
  "$root/python/install-vllm.sh" "$env" "$vllm/tests"
else
  rm -rf "$env"
  python3 -m venv "$env"
  "$env/bin/pip" install -q --upgrade pip
fi

# The package is tested in the build type of python/build.sh, because another one hid what every wheel got wrong; for benchmarks also
# as optimised as there. The frameworks' tests, after it, use a quick build.
if [ -n "${SANITIZE:-}" ]; then
  set -- -C cmake.define.AFTERIMAGE_SANITIZE=address,undefined -C cmake.define.CMAKE_CXX_COMPILER=clang++-19
else
  set --
fi
if [ -z "${SANITIZE:-}" ] && { [ "$what" = package ] || [ "$what" = bench ]; }; then
  out=$out-release
  [ "$what" = bench ] || set -- -C cmake.define.CMAKE_CXX_FLAGS_RELEASE='-O1 -DNDEBUG'
else
  set -- "$@" -C cmake.build-type=Debug -C cmake.define.CMAKE_CXX_FLAGS_DEBUG='-O0' \
    -C cmake.define.AFTERIMAGE_QUICK_BUILD=ON
  if [ -z "${SANITIZE:-}" ] && command -v clang++-19 >/dev/null; then # takes two thirds of the time of g++
    set -- "$@" -C cmake.define.CMAKE_CXX_COMPILER=clang++-19
  fi
fi
case $what in
  package | vllm | sglang | lmcache) extras=test ;;
  bench) extras=test,transformers ;;
  *) extras=test,$what ;;
esac
"$env/bin/pip" install -q -C build-dir="$out/objects" "$@" "$root/python[$extras]"
case $what in transformers | bench) "$env/bin/pip" install -q torchvision ;; esac # its processors of videos need it
case $what in sglang | lmcache) "$root/python/install-$what.sh" "$env" "$out/$what-tests" ;; esac

unset VLLM_VERSION VLLM_PACKAGE  # vLLM warns of variables of this prefix that it does not know
[ "$what" = vllm ] || export PYTHONDEVMODE=1
if [ -n "${SANITIZE:-}" ]; then
  # The interpreter is not instrumented, so the runtime is preloaded; its own allocations are not our leaks.
  LD_PRELOAD=$(clang++-19 -print-file-name=libclang_rt.asan-x86_64.so)
  export LD_PRELOAD ASAN_OPTIONS=detect_leaks=0
fi
cd "$root/python/tests"
case $what in
  bench)
    unset PYTHONDEVMODE
    "$env/bin/python" "$root/bench/python_bindings.py"
    "$env/bin/python" "$root/bench/ec_connector.py" --disk "$out"
    if [ -n "${VLLM:-}" ]; then
      "$env/bin/python" "$root/bench/vllm_scheduler_step.py"
      "$env/bin/python" "$root/bench/vllm_encode_once.py" --folder "$out"
    else
      "$env/bin/python" "$root/bench/transformers_ttft.py"
      "$env/bin/python" "$root/bench/transformers_video.py"
    fi
    ;;
  package)
    "$env/bin/pytest" -q -p no:cacheprovider .
    "$env/bin/pytest" -q -p no:cacheprovider "$root/models/tests"
    [ -n "${SANITIZE:-}" ] || "$env/bin/mypy" --strict --config-file ../pyproject.toml --cache-dir "$out/mypy" ../examples
    ;;
  lmcache)
    unset PYTHONDEVMODE
    "$env/bin/pytest" -q -p no:cacheprovider -W default with_lmcache
    cd "$out/lmcache-tests"
    export PYTHONPATH="$root/python/tests/with_lmcache"
    set -- tests/v1/distributed
    "$env/bin/pytest" -q -p no:cacheprovider -W ignore -p on_afterimage "$1/test_native_connector_l2_adapter.py" \
      "$1/test_resp_l2_adapter_integration.py" "$1/test_fs_l2_adapter_delete.py" \
      "$1/test_distributed_storage_manager.py" "$1/serde/test_serde_fs_e2e.py"
    ;;
  vllm)
    "$env/bin/pytest" -q -p no:cacheprovider -W default with_vllm
    cd "$vllm/tests"
    export PYTHONPATH="$root/python/tests/with_vllm"
    "$env/bin/pytest" -q -p no:cacheprovider -W ignore -p on_afterimage v1/core/test_encoder_cache_manager.py
    ;;
  *) "$env/bin/pytest" -q -p no:cacheprovider -W default "with_$what" ;;  # warnings of other packages are not errors
esac
