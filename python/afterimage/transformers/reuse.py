# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Prefill once: generate() continues from the longest cached prefix, images included."""

from __future__ import annotations

import inspect
import time
from types import TracebackType
from typing import Any

import torch
from transformers import DynamicCache

import afterimage as ai
from afterimage.transformers.encode_once import EncodeOnce
from afterimage.transformers.kv import KvRows, empty_cache
from afterimage.transformers.prompt import Prompt

_PUT_TIMEOUT = 2.0  # seconds: a prompt's KV is larger than the write buffers, and is worth waiting for


class Reuse:
    """Encode once and prefill once for one model.

    A prompt is computed in blocks of block_tokens (longer where an image would be cut), and KV is cached at block
    boundaries. So the tokens after a resume point are computed in the same calls as without reuse, and the result
    is bit for bit the same.

    budget_bytes   host memory for KV, and as much for encoder outputs. 0: nothing is cached; results are the same.
    weights_epoch  identifies the weights as they are now; without it nothing is shared with other objects.
    disk           a folder in which KV and encoder outputs outlive the process, with disk_bytes as its hard cap. One process
                   at a time uses it.
    tier           instead of disk: a DiskTier, a RemoteTier or a TierStack, shared by all processes that use it with the same
                   weights_epoch. The same model on another kind of device, or with another number of threads, shares
                   nothing, because it may round differently.

    erasable       with tier: clear() holds there, too; at most one such object at a time uses a DiskTier.

    Errors   Unsupported prompts (batches, padding, video, a caller's own KV cache) are passed to the model unchanged and
             counted in stats()["passed_on"]. A tier in trouble costs hits only.
             InvalidArgument: disk or tier without weights_epoch, or both of them.
    Threads  As the model: one call at a time.
    """

    def __init__(
        self,
        model: Any,
        *,
        budget_bytes: int = 1 << 30,
        block_tokens: int = 64,
        weights_epoch: str | None = None,
        disk: str | None = None,
        disk_bytes: int = 16 << 30,
        tier: ai.Tier | None = None,
        erasable: bool = False,
    ) -> None:
        if block_tokens < 1:
            raise ai.errors.InvalidArgument(f"expected block_tokens of at least 1, got {block_tokens}")
        if disk is not None and tier is not None:
            raise ai.errors.InvalidArgument("expected disk or tier, got both: combine tiers in a TierStack")
        if weights_epoch is None and (disk is not None or tier is not None):
            raise ai.errors.InvalidArgument(
                "expected weights_epoch with disk or tier: another process finds what this one stored by the name of the weights"
            )
        self.model, self._block = model, block_tokens
        self._disk = None if disk is None else ai.DiskTier(disk, capacity_bytes=disk_bytes, put_timeout_seconds=_PUT_TIMEOUT)
        self._tier = tier if self._disk is None else self._disk
        erasable = erasable or self._disk is not None
        cache = ai.EncoderCache(budget_bytes, tier=self._tier, erasable=erasable)
        self.prefixes = ai.PrefixCache(budget_bytes, tier=self._tier, erasable=erasable)
        self.images = EncodeOnce(model, cache=cache, weights_epoch=weights_epoch)  # last: it changes the model
        self._rows: KvRows | None = None
        renamed = "cache" in inspect.signature(type(model.model).forward).parameters  # in later versions of transformers
        self._cache_argument = "cache" if renamed else "past_key_values"
        self._passed_on = 0

    def flush(self) -> None:
        """On return, everything computed before is durable in the tier. Unavailable: the tier cannot say so."""
        if self._tier is not None:
            self._tier.flush()

    def clear(self) -> None:
        """Erases all KV and encoder outputs in memory and in the tier, also those of other models that the tier holds.

        Single images cannot be erased: the KV of every prompt with one depends on it.
        Unsupported: with a tier and without erasable. Unavailable: the tier could not record it.
        """
        self.prefixes.clear()
        self.images.cache.clear()

    def close(self) -> None:
        """Restores the model and drops the caches; a disk keeps what it holds. May be called twice."""
        self.images.close()
        self.images.cache.close()
        self.prefixes.close()
        if self._disk is not None:
            self._disk.close()

    def __enter__(self) -> Reuse:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def stats(self) -> dict[str, int]:
        """Counts since the beginning. A slice of a video counts as an image."""
        prefixes, images = self.prefixes.stats(), self.images.cache.stats()
        return {
            "tokens_reused": prefixes["tokens_reused"],
            "prefix_hits": prefixes["hits"],
            "images_encoded": int(images["insertions"] + images["uncached"] - images.get("disk_loaded", 0)),
            "images_reused": int(images["hits"] + images.get("disk_loaded", 0)),
            "prompts_loaded": prefixes["promoted"],
            "images_loaded": int(images.get("disk_loaded", 0)),
            "passed_on": self._passed_on,
        }

    @torch.no_grad()
    def generate(self, input_ids: torch.Tensor, **arguments: Any) -> Any:
        """model.generate for the processor's output; takes all its other arguments, too."""
        names = ("attention_mask", "pixel_values", "image_grid_thw", "image_sizes", "token_type_ids", "mm_token_type_ids")
        inputs = {"input_ids": input_ids, **{name: arguments[name] for name in names if name in arguments}}
        settings = {name: value for name, value in arguments.items() if name not in names}
        try:
            if arguments.keys() & {"past_key_values", "cache"}:
                raise ai.errors.Unsupported("KV of the caller")
            # Arguments that change the prefill; the others do not matter here.
            if odd := [name for name in arguments if name.startswith(("pixel_values_", "video_", "input_features", "inputs_embeds"))]:
                raise ai.errors.Unsupported(", ".join(odd))
            cache = self.prefill(inputs)
        except ai.errors.Unsupported:
            self._passed_on += 1
            return self.model.generate(input_ids=input_ids, **arguments)
        return self.model.generate(
            input_ids=input_ids, attention_mask=torch.ones_like(input_ids), **{self._cache_argument: cache}, **settings
        )

    @torch.no_grad()
    def prefill(self, inputs: dict[str, Any]) -> DynamicCache:
        """The KV of all tokens but the last, for model.generate(input_ids, past_key_values=...), or cache=... in
        versions of transformers that call it so.

        inputs: the processor's output. Unsupported: it is not one prompt.
        """
        space = self.images.identity.space()
        prompt = Prompt(self.model, self.images, space, inputs)
        if len(prompt) < 2 or any(span.offset + span.length == len(prompt) for span in prompt.spans):
            raise ai.errors.Unsupported("a prompt that ends in an image, or has one token")
        root = space.prefix_root(image=ai.PreprocessRecipe(f"blocks of {self._block}"))
        cache = empty_cache(self.model)
        cuts = sorted({0, *prompt.cuts(self._block), len(prompt) - 1})
        if self._rows is None:  # the layout is known after the first computation
            self._compute(prompt, cache, cuts[:2])
            self._rows = KvRows(cache, self._block)
            cache = empty_cache(self.model)
        ids = prompt.ids[0].cpu().contiguous()
        with self.prefixes.claim(root, self._rows.layout, ids, prompt.spans, within=space) as leader:
            resume = leader.resume
            if resume > 0:
                self._rows.restore(cache, leader, prompt.ids.device)
            self._compute_rest(prompt, cache, leader, [at for at in cuts if at >= resume])
        if prompt.rope_deltas is not None:
            self.model.model.rope_deltas = prompt.rope_deltas
        return cache

    def _compute_rest(self, prompt: Prompt, cache: DynamicCache, leader: ai.PrefillLeader, cuts: list[int]) -> None:
        """Computes the rest of the prompt block by block, and caches whole blocks."""
        assert self._rows is not None
        resume, began, snapshots = cuts[0], time.monotonic(), []
        whole = [at for at in cuts[1:] if at % self._block == 0]
        wanted = {*leader.snapshots, *whole[-1:]} if self._rows.needs_snapshots else set()
        for first, end in zip(cuts, cuts[1:], strict=False):
            self._compute(prompt, cache, [first, end])
            if end in wanted and end in whole:
                snapshots.append((end, self._rows.snapshot(cache)))
        if whole:
            first = leader.capture_from
            rows = self._rows.rows(cache, first, whole[-1])
            try:
                leader.commit(whole[-1], first, rows, snapshots, time.monotonic() - began)
            except (ai.errors.NoSpace, ai.errors.Unavailable):
                pass  # computed but not cached

    def _compute(self, prompt: Prompt, cache: DynamicCache, cuts: list[int]) -> None:
        for first, end in zip(cuts, cuts[1:], strict=False):
            self.model.model(**prompt.part(first, end), **{self._cache_argument: cache}, use_cache=True)
