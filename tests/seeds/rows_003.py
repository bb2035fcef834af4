# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""EncoderCacheManager: a scheduler's account of encoder outputs."""
from harness import ROOT, NotHere, equal, holds, package, row

ALLOCATE = "allocate, release and list inputs of a request"
ROOM = "has it room? with what was scheduled in this step"
FREED = "freed outputs are reported once"
TWICE = "releasing twice credits once (there: twice)"
SHARED = "outputs shared between requests (there: to do)"
DECODER = "encoder-decoder models (there: to do)"
BUDGETS = "budgets of a step and of the cache"
NEVER = "an item that can never be scheduled is an error"
DISABLED = "a warning if all modalities are disabled"
NAMES = "its own method names"
LIMITS = {"max_num_batched_tokens": 2048, "max_num_encoder_input_tokens": 512, "encoder_cache_size": 512}


class Request:
    request_id = "r1"

    def get_num_encoder_tokens(self, input_id):
        return 576


def manager(size=1000):
    return package()[0].RequestScopedCacheManager(cache_size=size)


def budget(items, **more):
    return package()[0].compute_encoder_budget(items, **{**LIMITS, **more})


def vllm_classes():
    ai, _ = package()
    try:
        from afterimage.vllm import encoder_cache_manager
    except ImportError as missing:
        raise NotHere(f"vLLM: {missing}") from missing
    return encoder_cache_manager


@row("003-01", "a request has its own outputs", ALLOCATE)
def _():
    ledger = package()[0].RequestScopedLedger(1000)
    ledger.allocate("a", 0, 576)
    return equal((ledger.has("a", 0), ledger.has("b", 0)), (True, False))


@row("003-02", "size and free slots", ALLOCATE)
def _():
    it = manager()
    it.allocate(Request(), 0)
    return equal((it.cache_size, it.num_free_slots), (1000, 424))


@row("003-03", "the inputs of a request", ALLOCATE)
def _():
    it = manager()
    it.allocate(Request(), 0)
    return equal(it.get_cached_input_ids(Request()), {0})


@row("003-04", "has_cache", NAMES)
def _():
    it = manager()
    before = it.has_cache(Request(), 0)
    it.allocate(Request(), 0)
    return equal((before, it.has_cache(Request(), 0)), (False, True))


@row("003-05", "can_allocate", ROOM)
def _():
    it = manager()
    before = it.can_allocate(Request(), 0)
    it.allocate(Request(), 0)
    return equal((before, it.can_allocate(Request(), 1)), (True, False))


@row("003-06", "allocate beyond the capacity is an error", ROOM)
def _():
    ai, _ = package()
    it = manager(576)
    it.allocate(Request(), 0)
    try:
        it.allocate(Request(), 1)
    except ai.errors.NoSpace as error:
        return str(error)
    raise AssertionError("it was allocated")


@row("003-07", "an unknown request has none", ALLOCATE)
def _():
    return equal(manager().get_cached_input_ids(Request()), set())


@row("003-08", "a second release credits nothing", TWICE)
def _():
    it = manager()
    it.allocate(Request(), 0)
    it.free_encoder_input(Request(), 0)
    it.free_encoder_input(Request(), 0)
    return equal(it.num_free_slots, 1000)


@row("003-09", "free releases all", ALLOCATE)
def _():
    it = manager(2000)
    for input_id in range(3):
        it.allocate(Request(), input_id)
    it.free(Request())
    return equal(it.num_free_slots, 2000)


@row("003-10", "freed outputs are reported once", FREED)
def _():
    it = manager()
    it.allocate(Request(), 0)
    it.free(Request())
    return equal((it.get_freed_ids(), it.get_freed_ids()), ([("r1", 0)], []))


@row("003-11", "shared between requests", SHARED)
def _():
    ledger = package()[0].EncoderLedger(1000)
    return holds(hasattr(ledger, "drain_freed"), "EncoderLedger; python/tests/test_scheduling.py")


@row("003-12", "the same ledger for any scheduler", SHARED)
def _():
    ledger = package()[0].EncoderLedger(1000)
    return equal(list(ledger.drain_freed()), [])


@row("003-13", "encoder-decoder models", DECODER)
def _():
    holds("EncoderDecoderCacheManager" in (ROOT / "python" / "README.md").read_text(), "python/README.md names it")
    return holds(hasattr(vllm_classes(), "EncoderDecoderCacheManager"), "afterimage.vllm.encoder_cache_manager")


@row("003-14", "what was scheduled in this step counts", ROOM)
def _():
    return holds(hasattr(vllm_classes().EncoderCacheManager, "can_allocate"), "can_allocate(…, compute_budget, scheduled)")


@row("003-15", "compute_encoder_budget", BUDGETS)
def _():
    found = budget({"image": 576})
    return equal((found.compute, found.space), (576, 576))


@row("003-16", "not multimodal: nothing", BUDGETS)
def _():
    found = budget({})
    return equal((found.compute, found.space, found.warnings), (0, 0, []))


@row("003-17", "all modalities disabled: a warning", DISABLED)
def _():
    return holds(budget({}, multimodal=True).warnings[0], budget({}, multimodal=True).warnings[0])


@row("003-18", "the largest of the modalities", BUDGETS)
def _():
    return equal(budget({"image": 576, "video": 1200}).space, 1200)


@row("003-19", "chunked input disabled", BUDGETS)
def _():
    ai, _ = package()
    try:
        budget({"image": 4096}, chunked_input_disabled=True)
    except ValueError as error:
        return str(error)
    raise AssertionError("no error")


@row("003-20", "the larger of the two", BUDGETS)
def _():
    return equal(budget({"image": 100}).compute, 512)


@row("003-21", "an item beyond the budget", NEVER)
def _():
    ai, _ = package()
    try:
        budget({"image": 576}).check_item("image", 1000)
    except ai.errors.LimitExceeded as error:
        return str(error)
    raise AssertionError("no error")


@row("003-22", "workers are told, in vLLM", FREED)
def _():
    vllm_classes()
    try:
        import vllm  # noqa: F401
    except ImportError as missing:
        raise NotHere("vLLM; python/tests/with_vllm") from missing
    return "python/tests/with_vllm"


@row("003-23", "the original method names", NAMES)
def _():
    names = ["has_cache", "can_allocate", "allocate", "get_cached_input_ids", "free_encoder_input", "free", "get_freed_ids", "cache_size",
             "num_free_slots"]
    return holds(all(hasattr(manager(), name) for name in names), f"RequestScopedCacheManager: {', '.join(names)}")
