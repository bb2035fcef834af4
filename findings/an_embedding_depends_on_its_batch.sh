#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# What one would guess: texts in one batch do not influence each other but for the last bits of sums. Dynamic int8 quantization measures the
# activations as they come, each row (token) for itself, as llama.cpp, CTranslate2 and vLLM do.
#
# What happens: a model quantized with onnxruntime's quantize_dynamic measures ONE range for each matrix product over all that is in the
# batch. The vector of a text moves by half a percent with the OTHER texts, ten thousand times as much as the float model's. With itself as
# its neighbour it does not move: a test that sends one text twice sees nothing.
#
# Why it matters for caches: the embedding that a semantic cache stores for a text depends on who else asked in that moment, so a distance
# near the threshold is a hit or a miss by chance, a digest of the vector is no key of the text, and one tenant's text shows in another's
# vector. Texts have to be embedded one by one, or by a model that quantizes rows.
#
# A network with random weights, in float and quantized (8-bit unsigned weights, so no processor saturates). Needs python3 with venv and pip,
# 55 MB. Exits with 1 if the behaviour changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/env"
"$work/env/bin/pip" install -q --disable-pip-version-check onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6
"$work/env/bin/python" - "$work" <<'PYTHON'
import logging
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

logging.disable(logging.WARNING)
folder, width, generator = sys.argv[1], 256, np.random.default_rng(1)
weights, nodes = [], []


def constant(name, *shape, scale=1.0):
    weights.append(numpy_helper.from_array((generator.standard_normal(shape) * scale).astype(np.float32), name))
    return name


def node(kind, name, *inputs, **attributes):
    nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
    return name


# Tokens, three blocks (normalize, widen, ReLU, narrow, add), the mean over the tokens.
state = node("Gather", "tokens", constant("table", 1000, width), "ids")
for i in range(3):
    weights.append(numpy_helper.from_array(np.ones(width, np.float32), f"ones{i}"))
    normal = node("LayerNormalization", f"normal{i}", state, f"ones{i}", axis=-1)
    wide = node("Relu", f"relu{i}", node("MatMul", f"wide{i}", normal, constant(f"up{i}", width, 4 * width, scale=width ** -0.5)))
    state = node("Add", f"state{i}", state, node("MatMul", f"narrow{i}", wide, constant(f"down{i}", 4 * width, width, scale=(2 * width) ** -0.5)))
node("ReduceMean", "vector", state, axes=[1], keepdims=0)
graph = helper.make_graph(nodes, "encoder", [helper.make_tensor_value_info("ids", TensorProto.INT64, ["texts", "tokens"])],
                          [helper.make_tensor_value_info("vector", TensorProto.FLOAT, ["texts", width])], weights)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), f"{folder}/float.onnx")
quantize_dynamic(f"{folder}/float.onnx", f"{folder}/int8.onnx", op_types_to_quantize=["MatMul"], weight_type=QuantType.QUInt8)

print("onnxruntime", onnxruntime.__version__)
text, moved = generator.integers(1000, size=(1, 16)), {}
for model in ("float", "int8"):
    session = onnxruntime.InferenceSession(f"{folder}/{model}.onnx", providers=["CPUExecutionProvider"])
    alone = session.run(None, {"ids": text})[0][0]
    for name, neighbours in (("itself", [text] * 20), ("another text", [generator.integers(1000, size=(1, 16)) for _ in range(20)])):
        beside = [session.run(None, {"ids": np.concatenate([text, other])})[0][0] for other in neighbours]
        moved[model, name] = max(float(np.linalg.norm(one - alone) / np.linalg.norm(alone)) for one in beside)
        print(f"{model:5} beside {name:12} the vector moves by up to {moved[model, name]:.7f} of its length (20 tries)")
expected = all(moved[key] < 1e-5 for key in moved if key != ("int8", "another text")) and moved["int8", "another text"] > 1e-3
sys.exit(0 if expected else "the behaviour has changed")
PYTHON
