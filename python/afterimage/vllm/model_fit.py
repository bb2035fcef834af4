# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Which plug-ins work with a model and its settings, before an engine starts. vLLM reads the model's configuration.

Errors   InvalidArgument: vLLM cannot read the model or refuses a setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from afterimage.errors import InvalidArgument


class Model(NamedTuple):
    """What vLLM says about a model with these settings, on this machine."""

    is_encoder_decoder: bool
    encodes_media: bool  # False for text models, and where limit_mm_per_prompt is 0 for everything
    device: str
    offloads: bool  # whether the OffloadingConnector works on the device


def described(model: str, engine: Mapping[str, Any]) -> Model:
    """engine: further keyword arguments of vllm.LLM."""
    from vllm.engine.arg_utils import EngineArgs
    from vllm.platforms import current_platform

    try:
        config = EngineArgs(model=model, **engine).create_model_config()
    except Exception as error:
        raise InvalidArgument(f"vLLM cannot read the model {model} with these settings, and would not start with it: {error}") from error
    encodes = bool(config.is_multimodal_model and config.supports_multimodal_inputs)
    offloads = bool(current_platform.is_cuda_alike() or current_platform.is_xpu())
    return Model(bool(config.is_encoder_decoder), encodes, str(current_platform.device_type or "none"), offloads)


def against_connector(model: Model) -> str:
    """Why an engine with the EC connector would not start or would not reuse; empty: it works."""
    if model.is_encoder_decoder:
        return "the model is an encoder-decoder, whose encoder outputs are part of the decoder's KV: they are not reused"
    if not model.encodes_media:
        return "the model encodes no images, audio or video with these settings (a text model, or limit_mm_per_prompt is 0), and vLLM does not start with a connector that has nothing to save"
    return ""


def against_tier(model: Model) -> str:
    """Why an engine with the KV tier would not start; empty: it works."""
    if not model.offloads:
        return f"vLLM's OffloadingConnector, which the tier is below, needs a GPU, and this device is {model.device}"
    return ""
