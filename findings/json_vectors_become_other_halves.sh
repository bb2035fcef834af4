#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# What one would guess: a vector of float32 numbers survives JSON: every printer writes enough digits to read the same float32 back, some the
# shortest ("0.1"), some all of the double ("0.10000000149011612"). So a client that stores float16 stores the same either way.
# What happens: it does not, if it goes from JSON's doubles to float16 in one step, as np.array(numbers, np.float16) does, and struct and
# pyarrow. The shortest digits stand for a double BESIDE the float32, and where that lies on the border between two halves, the double is on
# one side of it: the half is another one than the float32's. It is one number in 17,000, one vector of 1,024 in 17. By way of float32 all are
# equal, and so is what onnxruntime makes of the doubles, since its Cast goes that way unasked.
# Why it matters for caches: an embedding by way of orjson (Rust and Go servers print as it does) and the same one by way of Python's json, or
# computed in the process, are stored as other bytes in one of 17 cases: other digests, no deduplication, a self-check of "same text, same
# vector" that fails now and then, while all are equal in float32. Read into float32 first, whatever is stored then.
#
# Needs python3 with venv and pip, 110 MB. Exits with 1 if the behaviour changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/env"
"$work/env/bin/pip" install -q --disable-pip-version-check numpy==2.4.6 orjson==3.13.0 pyarrow==26.0.1 onnxruntime==1.32.0 onnx==1.23.2
"$work/env/bin/python" - <<'PYTHON'
import json
import struct
import sys

import numpy as np
import onnx
import onnxruntime
import orjson
import pyarrow
from onnx import TensorProto, helper

vectors = np.random.default_rng(0).standard_normal((1000, 1024)).astype(np.float32)
vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
halves = vectors.astype(np.float16)
SERVERS = {"orjson": orjson.dumps(vectors, option=orjson.OPT_SERIALIZE_NUMPY), "json": json.dumps(vectors.tolist())}
cast = helper.make_graph([helper.make_node("Cast", ["in"], ["out"], to=TensorProto.FLOAT16)], "cast",
                         [helper.make_tensor_value_info("in", TensorProto.DOUBLE, [None, None])],
                         [helper.make_tensor_value_info("out", TensorProto.FLOAT16, [None, None])])
session = onnxruntime.InferenceSession(helper.make_model(cast, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString(),
                                       providers=["CPUExecutionProvider"])
CLIENTS = {
    "numpy, float16": lambda numbers: np.array(numbers, np.float16),
    "struct, 'e'": lambda numbers: np.array([np.frombuffer(struct.pack(f"<{len(row)}e", *row), "<f2") for row in numbers]),
    "pyarrow, float16": lambda numbers: np.array([pyarrow.array(row, pyarrow.float16()).to_numpy(zero_copy_only=False) for row in numbers]),
    "numpy, float32, then float16": lambda numbers: np.array(numbers, np.float32).astype(np.float16),
    "onnxruntime, Cast to float16": lambda numbers: session.run(None, {"in": np.array(numbers)})[0]}

print(f"numpy {np.__version__}, orjson {orjson.__version__}, pyarrow {pyarrow.__version__}, onnxruntime {onnxruntime.__version__}")
different, same = {}, True
for server, text in SERVERS.items():
    numbers = json.loads(text)
    same = same and np.array_equal(np.array(numbers, np.float32), vectors)
    print(f"printed by {server}: {text[2:40]!s:44} read as float32: {'all equal' if same else 'CHANGED'}")
    for client, read in CLIENTS.items():
        wrong = read(numbers) != halves
        different[server, client] = int(wrong.any(axis=1).sum())
        print(f"  {client:29} {int(wrong.sum()):2} of {wrong.size} halves, {different[server, client]:2} of {len(wrong)} vectors are others")
once = list(CLIENTS)[:3]
expected = same and all((20 < count < 100) if key[0] == "orjson" and key[1] in once else count == 0 for key, count in different.items())
sys.exit(0 if expected else "the behaviour has changed")
PYTHON
