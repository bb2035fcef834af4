# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Retired names and riddling sentences do not come back, in code or in documents.

A retired name has a standard term instead; CHANGELOG.md alone may quote names that changed. Common words
that were retired only as the name of one thing (a `Turn`, a `board`) are retired in the spelling that the
code used.
"""
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
RETIRED = {
    "Passage": "GatewayRequest", "Broadcast": "SharedResponse", "Seat": "Subscriber", "Boarded": "Joined",
    "InForce": "ConfigSnapshot", "GatewayParts": "GatewayDependencies", "in_force": "config", "BuiltIn": "EngineBackend", "Stamps": "IdGenerator",
    "CacheWish": "CacheDirectives", "cache_wish": "cache_directives", "SharedTurns": "LeaseService", "SharedTurn": "Lease",
    "RemoteTurns": "RedisLeases", "PrefillTurn": "PrefillLeader", "PrefillTicket": "PrefillWaiter",
    "AnswerTurn": "AnswerLeader", "AnswerTicket": "AnswerWaiter", "PrefillDuty": "PrefillLease",
    "meets_everybody": "is_permanent", "LadderStep": "MatchStep", "may_hold": "may_contain", "awaits": "is_pending",
    "find_out": "probe", "forget_absent": "invalidate_negative", "EntryOutline": "EntryMetadata", "RecentKeys": "PresenceCache",
    "patience": "timeout", "strikes": "failure_threshold", "obey_budget": "trim_to_budget",
    "next_to_leave": "eviction_candidate", "BudgetSharer": "BudgetClient", "MemoryKeeper": "PressureController",
    "Residents": "Reuse", "SharedErasures": "InvalidationLog", "ErasureWatch": "PeriodicTask", "InvalidationPoller": "PeriodicTask",
    "AnswerErasures": "InvalidationList", "take_back": "retract_hit", "TensorForm": "TensorSpec", "SealedTier": "EncryptedTier",
    "SealKeys": "EncryptionKeys", "Replaceable": "AtomicSnapshot", "SweepVoice": "SweepProgress",
    "on_gone": "on_disconnect", "kWrongCall": "kUsageError", "RunCall": "RunArgs", "ToldOnce": "StreamDeduplicator",
    "Likeness": "Similarity", "likeness": "similarity", "likest": "closest", "likeness_rung": "similarity_level", "LikenessRung": "SimilarityLevel", "ShardBreaker": "CircuitBreaker",
    "hit_floor": "timing_protection", "cut_off": "cache_truncated", "verify_share": "verify_sample_rate",
    "wait_for_others": "coalesce_timeout", "unstated_temperature": "answers.sampled", "told_apart": "listed",
    "remote_turns_total": "lease_attempts_total", "left_alone_total": "circuit_rejected_total",
    "shared_answers_learnt_total": "invalidations_applied_total", "whomever": "the caller",
    "rung": "match level", "rungs": "match levels", "max_match": "match_level", "RungStats": "MatchLevelStats", "SimilarityRung": "SimilarityLevel",
    "served_elsewhere": "elsewhere",
    "QueueFloor": "entries_in_flight", "StabilityFloor": "min_entries", "PinOwner": "EncoderCache",
    "AnswerArchiveParts": "AnswerArchiveDependencies", "SimilarityArchiveParts": "SimilarityArchiveDependencies",
    "SimilarityLevelsParts": "SimilarityLevelsDependencies", "RemoteEntriesOptions": "RemoteTierOptions", "BlockPool": "BlockChain",
}
# Sentences whose subject a reader has to work out.
RIDDLES = [
    r"\b[Ww]hoever\b",
    r"\b[Ww]ho (?:must|may|does) not\b",
    r"(?:^|[.:;*|] +)[Ww]hat (?:is|was|are|were|has|leaves|one) [a-z ]{3,40} (?:is|are|goes|costs|stays|leaves|was)\b",
    r"\bis asked whose\b",
    r"\bthat there (?:is|are) not\b",
]
TEXT = {".h", ".cc", ".inl", ".py", ".md", ".toml", ".yml", ".txt", ".cmake", ".sh", ".html", ".in"}
QUOTES_OLD_NAMES = {"CHANGELOG.md", "tests/house/words_test.py"}
# Names of fields in stored bytes, and of settings that are refused with the new name.
KEEP = {
    "docs/formats/keys.md": {"rung"}, "src/caches/answers/answer_archive.cc": {"rung"},
    "docs/lab/formats/experiment.md": {"rungs"}, "lab/experiment/run_cache.cc": {"rungs"},
    "src/gateway/config/settings.cc": {"max_match"}, "src/gateway/config/settings_test.cc": {"max_match"},
}


def tracked():
    names = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=True).stdout.split("\n")
    for name in names:
        path = ROOT / name
        if path.suffix in TEXT and path.is_file() and not path.is_symlink() and name not in QUOTES_OLD_NAMES:
            yield name, path.read_text(encoding="utf-8")


def prose(name, text):
    """Comments and messages of code, and documents as a whole."""
    if name.endswith((".h", ".cc", ".inl")):
        return "\n".join(" ".join(re.findall(r'//.*|"(?:[^"\\\\]|\\\\.)*"', line)) for line in text.split("\n"))
    return text if name.endswith(".md") else ""


def lines_with(pattern, name, text):
    return [f"{name}:{number}: {line.strip()}" for number, line in enumerate(text.split("\n"), 1) if pattern.search(line)]


class Words(unittest.TestCase):
    maxDiff = None

    def test_the_patterns_find_what_they_should(self):
        self.assertTrue(any(re.search(riddle, "Whoever has it keeps it") for riddle in RIDDLES))
        self.assertTrue(any(re.search(riddle, "What is not surely the same goes to the model") for riddle in RIDDLES))
        self.assertFalse(any(re.search(riddle, "What a hit costs is measured below") for riddle in RIDDLES))

    def test_no_retired_name_is_left(self):
        def retired(name):
            words = sorted(RETIRED.keys() - KEEP.get(name, set()))
            return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, words))})(?!\w)")
        found = [line for name, text in tracked() for line in lines_with(retired(name), name, text)]
        self.assertEqual(found, [], "use the terms of RETIRED in this file")

    def test_no_sentence_is_a_riddle(self):
        riddle = re.compile("|".join(RIDDLES))
        found = [line for name, text in tracked() for line in lines_with(riddle, name, prose(name, text))]
        self.assertEqual(found, [], "say who does what")


if __name__ == "__main__":
    unittest.main()
