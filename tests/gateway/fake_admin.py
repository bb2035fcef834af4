#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""A small fake gateway that implements docs/formats/admin.md, for developing and testing the dashboard. It answers every
question itself, caches the answers, and serves them again for the same text.

    tests/gateway/fake_admin.py [--traffic] [--token TOKEN] [--port 0] [--admin-port 0]

--traffic generates clients, so that the page shows numbers.
"""
import argparse
import collections
import http.server
import json
import pathlib
import random
import re
import secrets
import threading
import time
import urllib.parse

PAGE = pathlib.Path(__file__).resolve().parents[2] / "src/gateway/admin/dashboard.html"
OUTCOMES = ("hit", "joined", "miss", "bypass", "refresh", "error")
MODES = ("relaxed", "normal", "pressure", "critical", "emergency")
LEVELS = ("text:exact", "text:canonical", "text:near", "similarity")
BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
BUDGET = 4 << 30
VERSION = "0.1.0"


class Refused(Exception):
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


def quantile(values, part):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else None


def canonical(question):
    return " ".join(question.casefold().strip(" ?!.").split())


def near(question):
    return " ".join(word for word in canonical(question).split() if word not in ("a", "an", "the", "please"))


FORMS = {"text:exact": str, "text:canonical": canonical, "text:near": near}


class Gateway:
    """The complete state, under one lock."""

    def __init__(self):
        self.lock = threading.Lock()
        self.began = time.time()
        self.draining = False
        self.counts = collections.Counter()  # (operation, outcome, code)
        self.tenants = collections.defaultdict(collections.Counter)
        self.erased = False
        self.match_levels = {level: collections.Counter() for level in LEVELS}
        self.entries = {}  # id: entry
        self.index = {}    # (tenant, model, level, form): id
        self.decisions = collections.deque(maxlen=5000)
        self.last = 0
        self.answers = collections.Counter()
        self.saved = collections.Counter()
        self.took = {outcome: [] for outcome in OUTCOMES}
        self.unsafe = collections.Counter()
        self.mode = "relaxed"
        self.peak = 0
        self.keys = {}

    # The request path.

    def look_up(self, tenant, model, question, ceiling="text:near"):
        levels, found = [], None
        for level, form in FORMS.items():
            entry = self.entries.get(self.index.get((tenant, model, level, form(question))))
            step = {"match_level": level, "verdict": "missed", "candidate": "", "age_s": None, "took_us": 2.5 + len(question) / 20}
            levels.append(step)
            if entry:
                allowed = LEVELS.index(level) <= LEVELS.index(ceiling)
                step.update(verdict="served" if allowed else "not_allowed", candidate=entry["question"], age_s=time.time() - entry["at"])
                if allowed:
                    found = entry
                    break
        return levels, found

    def ask(self, tenant, model, question, operation="chat", outcome=None, cost=None, media=(), tags=(), ceiling="text:near"):
        """Runs one request, counts it, records the decision and returns the outcome."""
        with self.lock:
            levels, found = ([], None) if outcome in ("bypass", "error", "joined") else self.look_up(tenant, model, question, ceiling)
            outcome = outcome or ("hit" if found else "miss")
            cost = cost or random.uniform(0.8, 3.2)
            for step in levels:
                kind = step["verdict"] if step["verdict"] in ("served", "missed") else "matched_not_used"
                self.match_levels[step["match_level"]][kind] += 1
            if levels and not found:
                self.match_levels["similarity"]["missed" if random.random() < 0.9 else "matched_not_used"] += 1
            level = levels[-1]["match_level"] if found else ""
            took = {"hit": random.lognormvariate(-0.9, 0.45) / 1000, "joined": cost * 0.6, "error": 0.02}.get(outcome, cost)
            saved = found["cost_s"] if found else cost if outcome == "joined" else 0
            if found:
                found["uses"] += 1
            if outcome == "miss":
                self.keep(tenant, model, question, cost, tags)
            if saved:
                self.saved["seconds"] += saved
                self.saved["prompt_tokens"] += 40 + len(question) // 4
                self.saved["output_tokens"] += int(saved * 40)
            if found and level != "text:exact" and random.random() < 0.2:
                self.unsafe["checked"] += 1
                self.unsafe["wrong"] += random.random() < 0.002
            code = 502 if outcome == "error" else 200
            self.counts[operation, outcome, code] += 1
            self.tenants[tenant][outcome] += 1
            self.tenants[tenant]["saved_s"] += saved
            self.took[outcome].append(took)
            reason = {"hit": "served", "miss": "nothing matched", "bypass": "off", "refresh": "no-cache", "error": "upstream reset", "joined": "single flight"}[outcome]
            self.last += 1
            self.decisions.append({
                "id": self.last, "at_ms": int(time.time() * 1000), "tenant": tenant, "operation": operation, "protocol": "openai", "model": model,
                "outcome": outcome, "match_level": level, "reason": reason, "took_ms": took * 1000, "saved_ms": saved * 1000, "status": code,
                "request_id": f"req-{self.last:06x}", "question": question[:200], "match_levels": levels,
                "media": [{"modality": m, "digest": f"{abs(hash(m)):064x}"[:64], "bytes": 81243} for m in media],
                "scope": f"{abs(hash((tenant, model))):032x}", "why": WHY[outcome]})
            if outcome == "miss":
                self.decisions[-1] |= {"replica": "a", "route": {
                    "replica": "a", "reason": "prefix", "attempt": 1, "queued_ms": 0, "candidates": [],
                    "why": "of 400 tokens, 300 are expected to be resident at a (300 confirmed), and the encoder outputs of 0 other media: saves 0.150 s; "
                           "the rest takes 0.050 s, its queue 0.000 s"}}
            return outcome, self.last

    def keep(self, tenant, model, question, cost, tags):
        self.answers["insertions"] += 1
        name = f"{self.answers['insertions']:08x}"
        self.entries[name] = {"id": name, "tenant": tenant, "model": model, "question": question, "at": time.time(), "ttl_s": 3600 if tags else None,
                              "bytes": 700 + 3 * len(question), "uses": 0, "cost_s": cost, "tags": list(tags), "pinned": False}
        for level, form in FORMS.items():
            self.index[tenant, model, level, form(question)] = name
        self.peak = max(self.peak, self.used())

    def used(self):
        return sum(part["bytes"] for part in self.parts() if part["tier"] == "host")

    def shares(self):
        return [{"tenant": "acme", "share": BUDGET // 4, "used": self.used() // 8}, {"tenant": "", "share": BUDGET - BUDGET // 4, "used": self.used() // 2}]

    def parts(self):
        n = min(len(self.entries), 1100)  # then others leave
        return [{"tier": "host", "kind": "answers", "bytes": sum(e["bytes"] for e in self.entries.values()), "entries": len(self.entries)},
                {"tier": "host", "kind": "encoder outputs", "bytes": n * 700_000, "entries": n},
                {"tier": "host", "kind": "kv", "bytes": n * 1_900_000, "entries": 3 * n}]

    def tiers(self):
        n = len(self.entries)
        quiet = {"puts": n, "refused": 0, "damaged": 0, "failures": 0}
        return [{"tier": "disk", "entries": 8 * n, "bytes": n * 6_100_000, "capacity": 16 << 30, "hits": n // 3, "misses": n, "degraded_reason": "", **quiet},
                {"tier": "remote", "entries": 5 * n, "bytes": 3 << 20, "capacity": 64 << 20, "hits": n // 5, "misses": n,
                 "degraded_reason": "10.0.0.6:6379 does not answer", **quiet}]

    def fleet(self):
        """Three replicas of which one is ejected; their counts grow with the requests."""
        asked = sum(self.counts.values())

        def replica(name, state, part, prefix, running=0, wait=0.0):
            requests = int(asked * part)
            held = int(requests * prefix)
            return {"name": name, "url": f"http://10.0.0.{ord(name) - 96}:8000", "state": state, "weight": 1, "models": [], "limit": 64, "in_flight": running,
                    "requests": requests, "results": {r: requests if r == "answered" else 0 for r in ("answered", "connection", "timeout", "status", "busy", "cancelled")},
                    "routed": {"prefix": held, "least-loaded": requests - held}, "ejections": int(state == "ejected"), "resident_tokens": 900 * requests, "resident_media": requests,
                    "expected_tokens": 610 * requests, "cached_tokens": 600 * requests, "prompt_tokens": 1000 * requests, "wait_s": wait, "slowness": 1,
                    "kv_events": {"connected": state != "ejected", "batches": requests, "events": requests, "invalid": 0, "gaps": 0, "bridged": 0, "restarts": 0,
                                  "blocks": requests, "tokens": 900 * requests, "names_content": True, "doubts": 0}}
        fatal = [{"digest": f"{number:064x}", "model": "qwen", "replica": "c", "deaths": number, "refused_for_s": left}
                 for number, left in ((2, 240.0), (1, 0.0))]
        return {"name": "fleet", "replicas": [replica("a", "ready", 0.6, 0.7, 3, 0.08), replica("b", "full", 0.4, 0.5, 64, 1.4), replica("c", "ejected", 0, 0)],
                "waiting": 1, "queued": asked // 9, "refused_full": 0, "refused_late": 0, "retries": 1, "retries_denied": 0,
                "fatal_requests": 3, "fatal_refused": 1, "fatal": fatal}

    # The admin API.

    def by_outcome(self):
        sums = collections.Counter({outcome: 0 for outcome in OUTCOMES})
        for (_, outcome, _), n in self.counts.items():
            sums[outcome] += n
        return sums

    @staticmethod
    def prefix_causes(outcomes):
        missed = outcomes["miss"]
        if missed == 0:
            return []
        return [{"reason": "diverges", "part": "system", "change": "changed", "looks": "time", "requests": missed, "lost_tokens": 10384 * missed,
                 "place": "system@79", "decision": 0, "remedy": "put what changes to the end of the prompt; prompt.stabilise = [\"date-line\"] moves a date"}]

    @staticmethod
    def bypasses(outcomes):
        return [{"reason": "no-temperature", "requests": outcomes["bypass"], "repeats": outcomes["bypass"] // 2, "why": "the request names no temperature",
                 "remedy": "set answers.sampled = \"per-requester\""}] if outcomes["bypass"] else []

    def bound(self):
        checked, wrong = self.unsafe["checked"], self.unsafe["wrong"]
        return (None, None) if not checked else (wrong / checked, min(1.0, (wrong + 3.0 + 1.6 * wrong ** 0.5) / checked))

    def latency(self, *outcomes):
        values = [1000 * t for outcome in outcomes for t in self.took[outcome][-2000:]]
        return {"count": sum(len(self.took[outcome]) for outcome in outcomes), "p50": quantile(values, 0.5), "p99": quantile(values, 0.99)}

    def stats(self):
        rate, upper = self.bound()
        outcomes = self.by_outcome()
        kept = collections.defaultdict(collections.Counter)
        for e in self.entries.values():
            kept[e["tenant"]].update(entries=1, bytes=e["bytes"])
        return {
            "version": VERSION, "uptime_s": time.time() - self.began, "engine": {"kind": "upstream", "name": "http://127.0.0.1:8000"}, "draining": self.draining,
            "requests": {"total": sum(outcomes.values()), "in_flight": random.randint(0, 4) if outcomes else 0, "by_outcome": dict(outcomes),
                         "bypasses": self.bypasses(outcomes), "prefix_causes": self.prefix_causes(outcomes)},
            "match_levels": [{"match_level": level, "served": c["served"], "matched_not_used": c["matched_not_used"], "missed": c["missed"]} for level, c in self.match_levels.items()],
            "answers": {"entries": len(self.entries), "bytes": sum(e["bytes"] for e in self.entries.values()), "insertions": self.answers["insertions"],
                        "evictions": 0, "expired": 0, "erased": self.answers["erased"]},
            "saved": {"seconds": self.saved["seconds"], "prompt_tokens": self.saved["prompt_tokens"], "output_tokens": self.saved["output_tokens"]},
            "latency_ms": {"hit": self.latency("hit"), "miss": self.latency("miss")},
            "memory": {"budget": BUDGET, "used": self.used(), "peak": self.peak, "mode": self.mode, "parts": self.parts(), "shares": self.shares()},
            "encoder": None, "prefix": None, "tiers": self.tiers(), "fleet": self.fleet(),
            "unsafe": {"checked": self.unsafe["checked"], "wrong": self.unsafe["wrong"], "rate": rate, "upper95": upper, "budget": 0.01},
            "tenants": [{"name": name, "requests": sum(c[o] for o in OUTCOMES), "hits": c["hit"] + c["joined"], "bytes": kept[name]["bytes"],
                         "entries": kept[name]["entries"], "saved_s": c["saved_s"]} for name, c in self.tenants.items()]}

    def decisions_after(self, after, limit):
        short = [{k: v for k, v in d.items() if k not in ("match_levels", "media", "scope", "why", "route")} for d in self.decisions if d["id"] > after]
        return {"decisions": short[-limit:], "last": self.last}

    def decision(self, number):
        for d in self.decisions:
            if d["id"] == number:
                return d
        raise Refused(404, f"There is no decision {number}, or it is too old.")

    def shown(self, e):
        age = time.time() - e["at"]
        return {**{k: v for k, v in e.items() if k != "at"}, "age_s": age, "ttl_s": None if e["ttl_s"] is None else max(0, e["ttl_s"] - age)}

    def find_entries(self, tenant="", tag="", q="", limit="50", after=""):
        found = [e for e in self.entries.values() if tenant in ("", e["tenant"]) and (not tag or tag in e["tags"]) and q.casefold() in e["question"].casefold()]
        rest = [e for e in found if e["id"] > after]
        page = rest[:int(limit)]
        return {"entries": [self.shown(e) for e in page], "next": page[-1]["id"] if len(rest) > len(page) else None, "total": len(found)}

    def invalidate(self, wanted):
        dry = wanted.pop("dry_run", True)
        tests = {"entry": lambda e, v: e["id"] == v, "tag": lambda e, v: v in e["tags"], "tenant": lambda e, v: e["tenant"] == v, "model": lambda e, v: e["model"] == v,
                 "media": lambda e, v: False, "older_than_s": lambda e, v: time.time() - e["at"] > v, "all": lambda e, v: v is True}
        if len(wanted) != 1 or not set(wanted) <= set(tests):
            raise Refused(400, "Name one of entry, tag, tenant, model, media, older_than_s, all.")
        (kind, value), = wanted.items()
        gone = [e for e in self.entries.values() if tests[kind](e, value)]
        if not dry:
            for e in gone:
                del self.entries[e["id"]]
                self.answers["erased"] += 1
            self.index = {k: v for k, v in self.index.items() if v in self.entries}
        return {"dry_run": dry, "entries": len(gone), "bytes": sum(e["bytes"] for e in gone), "examples": [e["question"] for e in gone[:5]]}

    def media(self, limit="100"):
        items = [{"digest": f"{n:x}7c0d" * 12 + f"{n:04x}", "modality": "image", "size": {"width": 640, "height": 480}, "age_s": 40.0 * n, "outputs": 1, "bytes": 262144 * n, "encode_s": 0.12 * n, "uses": 7 - n, "agents": 4 - n, "in_use": False} for n in (1, 2, 3)]
        return {"media": [] if self.erased else items[:int(limit)], "total": 0 if self.erased else 3, "agents": 5}

    def erase(self, wanted):
        kinds = {"media": str, "tenant": str, "model": str, "tag": str, "older_than_days": int, "all": bool}
        if len(wanted) != 1 or any(not isinstance(value, kinds.get(kind, ())) or value == "" for kind, value in wanted.items()):
            raise Refused(400, "name exactly one of media, tenant, model, tag, older_than_days, all")
        self.erased = True
        return {"answers": 2, "encoder_outputs": 3, "kv_tokens": 812, "stored": 9, "files": 0, "responses": 0, "unfinished": 0}

    def pin(self, wanted):
        if wanted.get("entry") not in self.entries:
            raise Refused(404, "There is no such entry.")
        self.entries[wanted["entry"]]["pinned"] = bool(wanted["pinned"])
        return {"entry": wanted["entry"], "pinned": bool(wanted["pinned"])}

    def wrong(self, wanted):
        decision = next((d for d in reversed(self.decisions) if d["request_id"] == wanted.get("request_id")), None)
        if decision is None:
            raise Refused(404, "this request is not among the last 1,000; send its X-Request-Id")
        stored_as = next((step["candidate"] for step in decision["match_levels"] if step["verdict"] == "served"), decision["question"])
        for number, entry in list(self.entries.items()):
            if entry["question"] == stored_as:
                self.invalidate({"entry": number, "dry_run": False})
        return {"request_id": decision["request_id"], "match_level": decision["match_level"], "erased": True}

    def key(self, wanted, action):
        name = wanted.get("name", "")
        made = self.keys.get(name)
        budgets = wanted.get("budgets", [])
        if not all(re.fullmatch(r"[\d.]+ (requests|tokens|money)/(minute|day|month)", text) for text in budgets):
            raise Refused(400, "This is not a budget.")
        if action == "":
            if made or not re.fullmatch(r"[\w.-]{1,64}", name):
                raise Refused(400, f"'{name}' is not a name, or there is such a key already.")
            self.keys[name] = made = {"name": name, "group": wanted.get("group", ""), "source": "made", "disabled": False, "created": int(time.time()), "rotated": None,
                                      "previous_until": None, "usage": dict.fromkeys(("requests", "prompt_tokens", "output_tokens", "saved_prompt_tokens", "saved_output_tokens", "cost", "estimated"), 0)}
        elif made is None:
            raise Refused(404, "There is no such key.")
        if action in ("", "budgets"):
            made["budgets"] = [{"budget": text, "limit": float(text.split()[0]), "used": 0, "renewed_in_s": 3600, "refused": 0} for text in budgets]
        if action in ("disable", "enable"):
            made["disabled"] = action == "disable"
        if action == "rotate" and wanted.get("grace_s"):
            made["previous_until"] = int(time.time() + wanted["grace_s"])
        return {**made, "key": "afi-" + secrets.token_hex(32)} if action in ("", "rotate") else made

    def explain(self, wanted):
        body = wanted["body"]
        question = question_of(body)
        levels, found = self.look_up("anonymous", body.get("model", ""), question)
        return {"tenant": "anonymous", "operation": wanted["operation"], "protocol": "openai", "model": body.get("model", ""), "outcome": "hit" if found else "miss", "match_level": levels[-1]["match_level"] if found else "",
                "reason": "", "question": question[:200], "match_levels": levels, "media": [], "scope": "0" * 32, "why": WHY["hit" if found else "miss"]}

    def metrics(self):
        lines = []

        def family(name, kind, text, *series):
            lines.append(f"# HELP {name} {text}")
            lines.append(f"# TYPE {name} {kind}")
            for labels, value in series:
                inside = ",".join(f'{k}="{str(v).translate(ESCAPES)}"' for k, v in labels.items())
                lines.append(f"{name}{{{inside}}} {value}" if inside else f"{name} {value}")

        s = self.stats()
        family("afterimage_build_info", "gauge", "Version.", ({"version": VERSION}, 1))
        family("process_start_time_seconds", "gauge", "Start.", ({}, self.began))
        family("afterimage_draining", "gauge", "Draining.", ({}, int(self.draining)))
        family("afterimage_requests_total", "counter", "Requests.", *(({"operation": o, "outcome": w, "code": c}, n) for (o, w, c), n in self.counts.items()))
        family("afterimage_translated_requests_total", "counter", "Translated.", ({"protocol": "messages"}, 0), ({"protocol": "responses"}, 0))
        family("afterimage_requests_in_flight", "gauge", "In flight.", ({}, 0))
        for name in ("afterimage_request_duration_seconds", "afterimage_time_to_first_byte_seconds"):
            lines += [f"# HELP {name} Time.", f"# TYPE {name} histogram"]
            for outcome, values in self.took.items():
                for bound in BUCKETS:
                    lines.append(f'{name}_bucket{{outcome="{outcome}",le="{bound}"}} {sum(v <= bound for v in values)}')
                lines.append(f'{name}_bucket{{outcome="{outcome}",le="+Inf"}} {len(values)}')
                lines.append(f'{name}_sum{{outcome="{outcome}"}} {sum(values)}')
                lines.append(f'{name}_count{{outcome="{outcome}"}} {len(values)}')
        family("afterimage_coalesced_requests_total", "counter", "Joined.", ({}, s["requests"]["by_outcome"]["joined"]))
        family("afterimage_answers_lookups_total", "counter", "Look-ups.", *(({"match_level": r["match_level"], "verdict": v}, r[v]) for r in s["match_levels"] for v in ("served", "matched_not_used", "missed")))
        family("afterimage_answers_entries", "gauge", "Entries.", ({}, s["answers"]["entries"]))
        family("afterimage_answers_bytes", "gauge", "Bytes.", ({}, s["answers"]["bytes"]))
        for what in ("insertions", "evictions", "expired", "erased"):
            family(f"afterimage_answers_{what}_total", "counter", "Answers.", ({}, s["answers"][what]))
        family("afterimage_answers_damaged_total", "counter", "Damaged.", ({}, 0))
        family("afterimage_answers_refused_total", "counter", "Refused.", ({"reason": "no_room"}, 0), ({"reason": "blocked"}, 0))
        family("afterimage_bypassed_repeats_total", "counter", "Repeats.", ({"reason": "no-temperature"}, s["requests"]["by_outcome"]["bypass"] // 2))
        family("afterimage_bypasses_total", "counter", "Bypasses.", ({"reason": "no-temperature"}, s["requests"]["by_outcome"]["bypass"]))
        family("afterimage_prompt_tokens_total", "counter", "Prompt tokens.", *(({"kind": kind}, 0) for kind in ("shared", "reused", "lost_by_prompt", "lost_by_server")))
        family("afterimage_answers_not_stored_total", "counter", "Not stored.", *(({"reason": r}, 0) for r in (
            "truncated", "tool_calls", "finish_reason", "no_store", "backend_error", "abandoned", "not_recorded", "too_large", "no_space", "blocked", "invalidated")))
        family("afterimage_reported_wrong_total", "counter", "Reported.", ({"match_level": "exact"}, 0))
        family("afterimage_similarity_lookups_total", "counter", "Look-ups.", *(({"verdict": v}, 0) for v in ("served", "matched_not_used", "missed", "not_embedded", "not_worth_it")))
        family("afterimage_similarity_evidence_total", "counter", "Evidence.", ({"verdict": "right"}, 0), ({"verdict": "wrong"}, 0))
        family("afterimage_similarity_vetoes_total", "counter", "Vetoes.", ({"reason": "number"}, 0))
        family("afterimage_similarity_verifications_total", "counter", "Verifications.", *(({"verdict": v}, 0) for v in ("accepted", "refused", "unavailable")))
        family("afterimage_similarity_demotions_total", "counter", "Demotions.", ({}, 0))
        family("afterimage_similarity_archive_total", "counter", "Archive.", *(({"event": e}, 0) for e in ("kept", "restored", "failed")))
        family("afterimage_similarity_entries", "gauge", "Entries.", ({}, 0))
        family("afterimage_similarity_bytes", "gauge", "Bytes.", ({}, 0))
        family("afterimage_saved_seconds_total", "counter", "Saved.", ({}, s["saved"]["seconds"]))
        family("afterimage_saved_tokens_total", "counter", "Saved.", ({"kind": "prompt"}, s["saved"]["prompt_tokens"]), ({"kind": "output"}, s["saved"]["output_tokens"]))
        for what in ("budget", "used", "peak"):
            family(f"afterimage_memory_{what}_bytes", "gauge", "Memory.", ({}, s["memory"][what]))
        family("afterimage_memory_part_bytes", "gauge", "Memory.", *(({"tier": p["tier"], "kind": p["kind"]}, p["bytes"]) for p in s["memory"]["parts"]))
        family("afterimage_pressure_mode", "gauge", "Mode.", *(({"mode": mode}, int(mode == self.mode)) for mode in MODES))
        family("afterimage_tenant_memory_bytes", "gauge", "Shares.", *(({"tenant": t["tenant"] or "everybody else"}, t["used"]) for t in s["memory"]["shares"]))
        family("afterimage_tenant_memory_share_bytes", "gauge", "Shares.", *(({"tenant": t["tenant"] or "everybody else"}, t["share"]) for t in s["memory"]["shares"]))
        family("afterimage_memory_idle_evicted_bytes_total", "counter", "Idle.", ({}, 0))
        family("afterimage_pressure_transitions_total", "counter", "Changes.", ({}, 0))
        for name in ("admission_blocked", "encoder_min_entries", "prefix_tokens", "prefix_sequences"):
            family(f"afterimage_{name}", "gauge", "As of now.", ({}, 0))
        for what in ("encoder_hits", "encoder_covered", "encoder_misses", "encoder_loaded", "encoder_declined", "encoder_unwritten", "encoder_evictions", "encoder_saved_seconds", "prefix_hits", "prefix_misses", "prefix_tokens_reused", "prefix_tokens_declined", "prefix_unwritten", "prefix_evictions"):
            family(f"afterimage_{what}_total", "counter", "Reuse.", ({}, 0))
        for what in ("hits", "misses", "puts", "refused", "damaged", "failures"):
            family(f"afterimage_tier_{what}_total", "counter", "Tiers.", ({"tier": "gpu"}, 0), ({"tier": "disk"}, 0), ({"tier": "remote"}, 0))
        family("afterimage_prefetches_total", "counter", "Prefetches.", *(({"result": r}, 0) for r in ("useful", "useless", "nothing", "declined")))
        family("afterimage_prefetched_tokens_total", "counter", "Prefetches.", ({}, 0))
        for name in ("on", "items", "bytes", "loss_at_least"):
            family(f"afterimage_moved_media_{name}", "gauge", "Moved.", ({}, 0))
        for name in ("answers", "tokens", "samples"):
            family(f"afterimage_moved_media_{name}_total", "counter", "Moved.", ({}, 0))
        family("afterimage_moved_media_compared_tokens_total", "counter", "Moved.", ({"result": "same"}, 0), ({"result": "other"}, 0))
        family("afterimage_prefetched_encoder_outputs_total", "counter", "Prefetches.", ({}, 0))
        family("afterimage_tier_degraded", "gauge", "Tiers.", ({"tier": "gpu"}, 0), ({"tier": "disk"}, 0), ({"tier": "remote"}, 0))
        for what in ("lost", "incomplete", "circuit_rejected", "breaks", "redirected"):
            family(f"afterimage_remote_{what}_total", "counter", "Remote.", ({}, 0))
        family("afterimage_lease_attempts_total", "counter", "Leases.", *(({"result": r}, 0) for r in ("acquired", "elsewhere", "unavailable", "expired")))
        family("afterimage_answer_leases_total", "counter", "Leases.", *(({"result": r}, 0) for r in ("acquired", "elsewhere", "expired", "unavailable")))
        family("afterimage_archive_answers_total", "counter", "Archive.", *(({"outcome": o}, 0) for o in ("kept", "refused", "restored", "erased", "expired", "failed")))
        family("afterimage_shared_answers_known", "gauge", "Shared.", ({}, 0))
        for what in ("without_lease", "generations", "read_failures"):
            family(f"afterimage_shared_answers_{what}_total", "counter", "Shared.", ({}, 0))
        family("afterimage_invalidations_applied_total", "counter", "Shared.", ({}, 0))
        family("afterimage_unsafe_checked_total", "counter", "Checked.", ({}, self.unsafe["checked"]))
        family("afterimage_unsafe_wrong_total", "counter", "Wrong.", ({}, self.unsafe["wrong"]))
        if s["unsafe"]["upper95"] is not None:
            family("afterimage_unsafe_rate_upper95", "gauge", "Bound.", ({}, s["unsafe"]["upper95"]))
        family("afterimage_unsafe_rate_budget", "gauge", "Budget.", ({}, 0.01))
        f = s["fleet"]
        replicas = f["replicas"]
        family("afterimage_replica_requests_total", "counter", "Replicas.", *(({"replica": r["name"], "result": k}, n) for r in replicas for k, n in r["results"].items()))
        family("afterimage_replica_routed_total", "counter", "Replicas.", *(({"replica": r["name"], "reason": k}, n) for r in replicas for k, n in r["routed"].items()))
        for name, key in (("in_flight", "in_flight"), ("expected_wait_seconds", "wait_s"), ("resident_tokens", "resident_tokens")):
            family(f"afterimage_replica_{name}", "gauge", "Replicas.", *(({"replica": r["name"]}, r[key]) for r in replicas))
        family("afterimage_replica_available", "gauge", "Replicas.", *(({"replica": r["name"]}, int(r["state"] != "ejected")) for r in replicas))
        for name, key in (("ejections", "ejections"), ("expected_tokens", "expected_tokens"), ("cached_tokens", "cached_tokens")):
            family(f"afterimage_replica_{name}_total", "counter", "Replicas.", *(({"replica": r["name"]}, r[key]) for r in replicas))
        family("afterimage_replica_kv_connected", "gauge", "Events.", *(({"replica": r["name"]}, int(r["kv_events"]["connected"])) for r in replicas))
        family("afterimage_replica_kv_events_total", "counter", "Events.", *(({"replica": r["name"]}, r["kv_events"]["events"]) for r in replicas))
        family("afterimage_replica_kv_gaps_total", "counter", "Events.", *(({"replica": r["name"], "result": k}, 0) for r in replicas for k in ("replayed", "lost")))
        family("afterimage_fleet_waiting", "gauge", "Fleet.", ({}, f["waiting"]))
        family("afterimage_fleet_queued_total", "counter", "Fleet.", ({}, f["queued"]))
        family("afterimage_fleet_refused_total", "counter", "Fleet.", ({"reason": "queue_full"}, f["refused_full"]), ({"reason": "late"}, f["refused_late"]))
        family("afterimage_fleet_retries_total", "counter", "Fleet.", ({"result": "sent"}, f["retries"]), ({"result": "over_budget"}, f["retries_denied"]))
        family("afterimage_fleet_fatal_requests_total", "counter", "Fleet.", ({"result": "replica_died"}, f["fatal_requests"]), ({"result": "refused"}, f["fatal_refused"]))
        family("afterimage_upstream_requests_total", "counter", "Upstream.", ({"code": 200}, s["requests"]["by_outcome"]["miss"]))
        family("afterimage_upstream_errors_total", "counter", "Upstream.", ({"kind": "reset"}, s["requests"]["by_outcome"]["error"]))
        family("afterimage_connections", "gauge", "Connections.", ({}, 1))
        family("afterimage_unread_bytes", "gauge", "Unread.", ({}, 0))
        family("afterimage_rejected_total", "counter", "Rejected.", ({"reason": "quota"}, 0))
        family("afterimage_tenant_requests_total", "counter", "Requests.", *(({"tenant": t, "outcome": o}, c[o]) for t, c in self.tenants.items() for o in OUTCOMES))
        family("afterimage_tenant_tokens_total", "counter", "Tokens.", ({"tenant": "acme", "kind": "prompt"}, 0), ({"tenant": "acme", "kind": "saved_prompt"}, 0))
        family("afterimage_tenant_cost_total", "counter", "Cost.", ({"tenant": "acme"}, 0))
        family("afterimage_tenant_estimated_requests_total", "counter", "Estimated.", ({"tenant": "acme"}, 0))
        family("afterimage_tenant_refused_total", "counter", "Refused.", ({"tenant": "acme", "budget": "requests/day"}, 0))
        family("afterimage_tenant_budget_used", "gauge", "Used.", ({"tenant": "acme", "budget": "requests/day"}, 0))
        family("afterimage_tenant_budget_limit", "gauge", "Limit.", ({"tenant": "acme", "budget": "requests/day"}, 5))
        family("afterimage_tls_certificate_expires_timestamp_seconds", "gauge", "Expires.", ({"listener": "listen"}, time.time() + 86400))
        family("afterimage_trace_spans_total", "counter", "Spans.", *(({"result": r}, 0) for r in ("sent", "dropped", "failed")))
        family("afterimage_tenants_folded", "gauge", "Folded.", ({}, 0))
        family("afterimage_log_lines_lost_total", "counter", "Lost.", ({}, 0))
        for name in ("visual_cache_hits", "visual_cache_misses", "visual_vram_saved_bytes", "visual_cache_entries"):
            family(name, "untyped", "A name of old.", ({}, 0))
        return "\n".join(lines) + "\n"


WHY = {"hit": "The words ask the same as a question that was answered before.", "miss": "No question that was answered before asks the same.", "joined": "The same was being asked.",
       "bypass": "The request asks for no reuse.", "refresh": "The request said no-cache.", "error": "The upstream closed the connection."}
ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def question_of(body):
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    gateway = None

    def log_message(self, *args):
        pass

    def send(self, status, kind, body, **headers):
        body = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")

    def answer(self, work):
        try:
            with self.gateway.lock:
                self.send(200, "application/json", json.dumps(work()))
        except Refused as refused:
            self.send(refused.status, "application/json", json.dumps({"error": {"message": str(refused)}}))


class Front(Handler):
    def do_GET(self):
        self.send(200 if self.path == "/health" else 404, "application/json", "{}")

    def do_POST(self):
        body = self.body()
        key = self.headers.get("Authorization", "").removeprefix("Bearer ")
        control = self.headers.get("Cache-Control", "")
        outcome = "bypass" if self.headers.get("X-Afterimage-Cache") == "off" else "refresh" if "no-cache" in control else None
        outcome, _ = self.gateway.ask(key or "anonymous", body.get("model", ""), question_of(body), outcome=outcome)
        self.send(200, "application/json", json.dumps({"id": "x", "object": "chat.completion", "model": body.get("model", ""), "choices": [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "so"}}]}), X_Cache=outcome.upper())


class Admin(Handler):
    token = None

    def allowed(self):
        if self.token is None or self.headers.get("Authorization") == f"Bearer {self.token}":
            return True
        self.send(401, "application/json", json.dumps({"error": {"message": "Send the admin token."}}))
        return False

    def do_GET(self):
        g = self.gateway
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        if url.path == "/":
            nonce = secrets.token_urlsafe(16)
            self.send(200, "text/html; charset=utf-8", PAGE.read_text().replace("@NONCE@", nonce), Content_Security_Policy=(
                f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data:; connect-src 'self'; "
                "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"), X_Content_Type_Options="nosniff", Referrer_Policy="no-referrer")
        elif not self.allowed():
            pass
        elif url.path == "/metrics":
            with g.lock:
                self.send(200, "text/plain; version=0.0.4; charset=utf-8", g.metrics())
        elif url.path == "/admin/api/stats":
            self.answer(g.stats)
        elif url.path == "/admin/api/decisions":
            self.answer(lambda: g.decisions_after(int(query.get("after", 0)), int(query.get("limit", 100))))
        elif match := re.fullmatch(r"/admin/api/decisions/(\d+)", url.path):
            self.answer(lambda: g.decision(int(match[1])))
        elif url.path == "/admin/api/entries":
            self.answer(lambda: g.find_entries(**query))
        elif url.path == "/admin/api/keys":
            self.answer(lambda: {"enabled": True, "prices": [], "unknown_keys": "each", "keys": list(g.keys.values())})
        elif url.path == "/admin/api/media":
            self.answer(lambda: g.media(**query))
        else:
            self.send(404, "application/json", json.dumps({"error": {"message": f"There is no {url.path}."}}))

    def do_POST(self):
        g = self.gateway
        wanted = self.body()
        if not self.allowed():
            return

        def drain():
            g.draining = True
            return {"draining": True}
        calls = {"invalidate": lambda: g.invalidate(wanted), "erase": lambda: g.erase(wanted), "pin": lambda: g.pin(wanted), "wrong": lambda: g.wrong(wanted), "explain": lambda: g.explain(wanted), "drain": drain,
                 "reload": lambda: {"applied": ["answers.ttl"], "needs_restart": ["listen.port"]}}
        calls.update({"/".join(filter(None, ("keys", action))): lambda action=action: g.key(wanted, action) for action in ("", "rotate", "disable", "enable", "budgets")})
        call = calls.get(self.path.removeprefix("/admin/api/"))
        if call is None:
            self.send(404, "application/json", json.dumps({"error": {"message": f"There is no {self.path}."}}))
        else:
            self.answer(call)


def make_traffic(gateway):
    subjects = ["the invoice", "this chart", "the picture of the harbour", "the recording", "the contract", "figure 3", "the street scene", "the receipt", "this X-ray", "the floor plan"]
    asks = ["What is on {}?", "Summarise {}.", "Who is shown in {}?", "How many people are in {}?", "Read the text in {}.", "Which date stands on {}?", "Is {} signed?", "Describe {} in one sentence."]
    tenants = ["retail-app", "support-bot", "research", "key-3fa9c210", "anonymous"]
    while not gateway.draining:
        question = random.choices(asks, weights=range(len(asks), 0, -1))[0].format(random.choices(subjects, weights=range(len(subjects), 0, -1))[0])
        if random.random() < 0.35:
            question += f" Page {random.randint(1, 40)}."
        if random.random() < 0.3:
            question = random.choice([question.lower(), question.rstrip("?."), "  " + question, question.replace("the ", "a "), question + " Please"])
        if random.random() < 0.01:
            question = "<img src=x onerror=alert(1)> \u202eevil\u202c <script>document.title='owned'</script>"
        chance = random.random()
        outcome = "bypass" if chance < 0.04 else "joined" if chance < 0.1 else "refresh" if chance < 0.115 else "error" if chance < 0.12 else None
        gateway.ask(random.choices(tenants, weights=(8, 5, 3, 2, 1))[0], random.choice(["qwen2.5-vl-7b", "qwen2.5-vl-7b", "llava-1.6"]), question, outcome=outcome,
                    operation=random.choice(["chat"] * 9 + ["completion"]), media=["image"] if random.random() < 0.6 else (), tags=["doc:42@v7"] if "contract" in question else ())
        if random.random() < 0.003:
            gateway.mode = random.choice(MODES[:3])
        time.sleep(random.expovariate(25))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--traffic", action="store_true")
    parser.add_argument("--token")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--admin-port", type=int, default=0)
    arguments = parser.parse_args()
    gateway = Gateway()
    Handler.gateway = gateway
    Admin.token = arguments.token
    front = http.server.ThreadingHTTPServer(("127.0.0.1", arguments.port), Front)
    admin = http.server.ThreadingHTTPServer(("127.0.0.1", arguments.admin_port), Admin)
    threading.Thread(target=front.serve_forever, daemon=True).start()
    if arguments.traffic:
        threading.Thread(target=make_traffic, args=(gateway,), daemon=True).start()
    print(f"serving on http://127.0.0.1:{front.server_port}", flush=True)
    print(f"admin on http://127.0.0.1:{admin.server_port}", flush=True)
    admin.serve_forever()


if __name__ == "__main__":
    main()
