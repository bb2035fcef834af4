# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Encode once and prefill once for models of the transformers library.

    reuse = Reuse(model, budget_bytes=1 << 30)
    output = reuse.generate(**processor(...), max_new_tokens=64)

Supports vision-language models whose images go through get_image_features (Qwen2.5-VL, Qwen3-VL, LLaVA, Gemma 3 and
similar ones) and text-only models, with any mix of full and sliding attention. transformers 5, one prompt at a time. Of videos, what
get_video_features returns is cached, slice by slice where the model allows it.
"""

from afterimage.transformers.encode_once import EncodeOnce
from afterimage.transformers.reuse import Reuse

__all__ = ["EncodeOnce", "Reuse"]
