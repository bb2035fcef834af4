# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""A process of one engine for on_gpu.py.

    gpu_engine.py FOLDER     reads job.json, writes `ready`, waits for `go`, writes report.json; partial.json is what it has so far
"""

from __future__ import annotations

import json
import sys
import time
import traceback
import zlib
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

BLOCK = 16  # tokens, of the GPU's cache
ANSWER = 4  # tokens


def fill_weights(model: Any) -> None:
    """Random weights that keep the size of activations, with attention that prefers a few tokens: KV decides the answer."""
    import torch

    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.numel() == 0:
                continue
            if weight.dim() > 1:
                chance = torch.Generator(weight.device).manual_seed(zlib.crc32(name.encode()))
                scale = 1.0 if "embed_tokens" in name else (weight.numel() / weight.shape[0]) ** -0.5
                weight.data.normal_(0.0, scale, generator=chance)
            else:
                weight.data.fill_(0.0 if name.endswith("bias") else 2.0 if "q_norm" in name or "k_norm" in name else 1.0)


def engine_core(llm: Any) -> Any:
    return llm.llm_engine.engine_core.engine_core


def counters() -> dict[str, float]:
    """vLLM's own counts of prefix caches, offloading and tiers, and ours; LLM.get_metrics() rounds them down."""
    from prometheus_client import REGISTRY

    found = {}
    for family in REGISTRY.collect():
        if family.type == "counter" and any(word in family.name for word in ("offload", "prefix_cache", "afterimage")):
            for sample in family.samples:
                labels = ",".join(str(each) for key, each in sorted(sample.labels.items()) if key not in ("model_name", "engine"))
                if sample.name.endswith("_total"):
                    found[family.name.removeprefix("vllm:") + (f"{{{labels}}}" if labels else "")] = sample.value
    return found


class Blocks:
    """A checksum of the KV that a request has on the GPU, taken from the tensors that vLLM's offloading copies."""

    def __init__(self, llm: Any) -> None:
        self._last: list[int] = []
        scheduler = engine_core(llm).scheduler
        finished = scheduler._connector_finished

        def remember(request: Any) -> Any:
            manager = scheduler.kv_cache_manager
            self._last = list(manager.get_block_ids_for_computed_tokens(request.request_id, request.num_computed_tokens)[0])
            return finished(request)

        scheduler._connector_finished = remember

    def digest(self, count: int) -> int | None:
        """Of the first blocks of the last request; None without an offloading worker."""
        import torch
        from vllm.distributed.kv_transfer import get_kv_transfer_group, has_kv_transfer_group

        worker = getattr(get_kv_transfer_group(), "connector_worker", None) if has_kv_transfer_group() else None
        if worker is None or worker.worker is None or len(self._last) < count:
            return None
        total = 0
        for tensor in worker.worker._store_handler.src_tensors:
            rows = torch.tensor(self._last[:count], device=tensor.device)
            words = tensor[rows].view(torch.int64).flatten()
            weights = torch.arange(1, 2 * len(words), 2, device=words.device) * 0x9E3779B97F4A7C1
            total = (total * 31 + int((words * weights).sum())) % (1 << 64)
        return total


def settle(llm: Any, limit: float = 60.0) -> float:
    """Steps the engine until its connector has nothing to copy; the seconds that it took."""
    began = time.perf_counter()
    connector = engine_core(llm).scheduler.connector
    while connector is not None and connector.has_pending_push_work() and time.perf_counter() - began < limit:
        llm.llm_engine.step()
        time.sleep(0.0002)
    return time.perf_counter() - began


class Turn:
    """Of an engine's process: when it may be measured, and what it has measured so far."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def wait(self) -> None:
        """Says that the engine is ready, and waits until no other is measured."""
        (self._place / "ready").touch()
        while not (self._place / "go").exists():
            time.sleep(0.01)

    def keep(self, report: dict[str, Any], name: str = "partial.json") -> None:
        unfinished = self._place / "unfinished"
        unfinished.write_text(json.dumps(report))
        unfinished.replace(self._place / name)


def answer_of(completion: Any) -> dict[str, Any]:
    tokens = list(completion.token_ids)
    return {"tokens": tokens, "scores": [each[token].logprob for each, token in zip(completion.logprobs, tokens, strict=True)]}


def prompt_of(number: int, tokens: int, words: int) -> list[int]:
    """Prompts differ in all but their last tokens, so an answer that ignores the KV before them would be the same for all."""
    import numpy as np

    same = np.random.default_rng(0).integers(10, words, 32).tolist()
    return np.random.default_rng(1 + number).integers(10, words, tokens + 1 - len(same)).tolist() + same  # type: ignore[no-any-return]


def serve_kv(job: dict[str, Any], turn: Turn) -> dict[str, Any]:
    from vllm import LLM, SamplingParams

    tokens = job["tokens"]
    llm = LLM(
        model=job["model"],
        load_format="dummy",
        skip_tokenizer_init=True,
        dtype="bfloat16",
        enforce_eager=True,
        enable_prefix_caching=True,
        disable_log_stats=False,
        seed=0,
        block_size=BLOCK,
        max_model_len=tokens + 512,
        max_num_batched_tokens=tokens + 512,
        max_num_seqs=8,
        **job["settings"],
    )
    llm.apply_model(fill_weights)
    blocks = Blocks(llm)
    parameters = SamplingParams(temperature=0.0, max_tokens=ANSWER, logprobs=1, ignore_eos=True, detokenize=False)

    def ask(number: int) -> Any:
        (output,) = llm.generate([{"prompt_token_ids": prompt_of(number, tokens, job["words"])}], parameters, use_tqdm=False)
        return output

    for number in (10_000, 10_001, 10_000):  # compiles kernels, also those of a hit
        ask(number)
        settle(llm)
    turn.wait()
    passes = {}
    for name in job["passes"]:
        before, answers = counters(), []
        for number in range(job["prompts"]):
            began = time.perf_counter()
            output = ask(number)
            seconds = time.perf_counter() - began
            answer = {**answer_of(output.outputs[0]), "seconds": seconds, "found": output.num_cached_tokens}
            answers.append({**answer, "digest": blocks.digest(tokens // BLOCK), "settled": settle(llm)})
        after = counters()
        passes[name] = {"answers": answers, "counters": {key: after[key] - before.get(key, 0) for key in after if after[key] != before.get(key, 0)}}
        turn.keep({"passes": passes})
    llm.llm_engine.engine_core.shutdown(timeout=60)
    return {"passes": passes}


def serve_ec(job: dict[str, Any], turn: Turn) -> dict[str, Any]:
    from encoder_calls import count_encoded_pictures, encoded_pictures
    from engine import request_of
    from vllm import LLM, SamplingParams

    llm = LLM(
        model=job["model"],
        load_format="dummy",
        dtype="bfloat16",
        enforce_eager=True,
        enable_prefix_caching=False,
        disable_log_stats=False,
        seed=0,
        max_model_len=4096,
        max_num_batched_tokens=4096,
        max_num_seqs=4,
        limit_mm_per_prompt={"image": 1, "video": 0},
        **job["settings"],
    )
    llm.apply_model(fill_weights)
    llm.apply_model(count_encoded_pictures)
    parameters = SamplingParams(temperature=0.0, max_tokens=1, logprobs=1, ignore_eos=True)

    def ask(number: int) -> Any:
        (output,) = llm.generate([request_of([number], {}, job["side"])], parameters, use_tqdm=False)
        return output

    for number in range(3):
        ask(1_000_000 + number)
    turn.wait()
    passes = {}
    for name in job["passes"]:
        (before,), answers = llm.apply_model(encoded_pictures), []
        for number in range(job["pictures"]):
            began = time.perf_counter()
            output = ask(number)
            seconds = time.perf_counter() - began
            answers.append({**answer_of(output.outputs[0]), "seconds": seconds, "prompt": len(output.prompt_token_ids)})
        (after,) = llm.apply_model(encoded_pictures)
        passes[name] = {"answers": answers, "encoded": after - before}
        turn.keep({"passes": passes, "holds": 0})
    holds = llm.llm_engine.vllm_config.scheduler_config.encoder_cache_size
    report = {"passes": passes, "counters": counters(), "holds": holds}
    if folder := job.get("stats_folder"):
        import afterimage.vllm

        report["stats"] = afterimage.vllm.stats(folder)
    llm.llm_engine.engine_core.shutdown(timeout=60)
    return report


def serve_tiny(job: dict[str, Any], turn: Turn) -> dict[str, Any]:
    import engine

    opened = engine.open_engine

    def open_engine(asked: dict[str, Any]) -> Any:
        llm = opened(asked)
        turn.wait()
        return llm

    engine.open_engine = open_engine  # type: ignore[assignment]
    return engine.run(job)


def probe(_: dict[str, Any], __: Turn) -> dict[str, Any]:
    """What of this installation works on this GPU: vLLM's kernels, FlashAttention, and Triton."""
    import torch
    import vllm
    from vllm.platforms import current_platform

    found: dict[str, Any] = {"vllm": vllm.__version__, "torch": torch.__version__, "device": current_platform.device_type or "none"}
    if not current_platform.is_cuda_alike():
        return found
    found |= {"gpu": torch.cuda.get_device_name(), "free": torch.cuda.mem_get_info()[0]}

    def kernels() -> None:
        from vllm import _custom_ops as ops

        x, weight = torch.randn(64, 256, device="cuda", dtype=torch.bfloat16), torch.ones(256, device="cuda", dtype=torch.bfloat16)
        out = torch.empty_like(x)
        ops.rms_norm(out, x, weight, 1e-6)
        assert torch.allclose(out.float(), torch.nn.functional.rms_norm(x.float(), (256,), eps=1e-6), atol=0.05)
        source, target = torch.randint(0, 99, (4, 64), dtype=torch.int8, device="cuda"), torch.zeros(4, 64, dtype=torch.int8).pin_memory()
        ends = [torch.tensor([tensor.data_ptr() + 64 * row for row in range(4)]).pin_memory() for tensor in (source, target)]
        ops.swap_blocks_batch(ends[0], ends[1], torch.full((4,), 64).pin_memory())
        torch.cuda.synchronize()
        assert torch.equal(source.cpu(), target)

    def attention() -> None:
        from vllm.v1.attention.backends.fa_utils import get_flash_attn_version
        from vllm.vllm_flash_attn import flash_attn_varlen_func

        found["flash_attention"] = version = get_flash_attn_version(head_size=128)
        q, k, v = (torch.randn(96, heads, 128, device="cuda", dtype=torch.bfloat16) for heads in (4, 2, 2))
        pages = torch.arange(6, dtype=torch.int32, device="cuda")[None]
        ends = torch.tensor([0, 96], dtype=torch.int32, device="cuda")
        given = flash_attn_varlen_func(
            q, k.view(6, 16, 2, 128), v.view(6, 16, 2, 128), 96, ends, 96,
            seqused_k=torch.tensor([96], dtype=torch.int32, device="cuda"), block_table=pages, causal=True, fa_version=version,
        )  # fmt: skip
        wide = [each.repeat_interleave(2, 1) if each.shape[1] == 2 else each for each in (q, k, v)]
        wanted = torch.nn.functional.scaled_dot_product_attention(*[each.transpose(0, 1).float() for each in wide], is_causal=True)
        assert torch.allclose(given.float(), wanted.transpose(0, 1), atol=0.05)

    def triton() -> None:
        from vllm.v1.sample.ops.topk_topp_triton import apply_top_k_top_p_triton

        apply_top_k_top_p_triton(torch.randn(4, 1024, device="cuda"), torch.full((4,), 5, dtype=torch.int32, device="cuda"), None)
        torch.cuda.synchronize()

    for name, check in (("kernels", kernels), ("attention", attention), ("triton", triton)):
        try:
            check()
            found[name] = "ok"
        except Exception:
            found[name] = traceback.format_exc()[-1500:]
    return found


SERVE = {"kv": serve_kv, "ec": serve_ec, "tiny": serve_tiny, "probe": probe}


def serve(place: Path) -> None:
    """A process of an engine: reads job.json, says when it is ready, waits for its turn, and writes report.json."""
    job = json.loads((place / "job.json").read_text())
    turn = Turn(place)
    turn.keep(SERVE[job["kind"]](job, turn), "report.json")


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
