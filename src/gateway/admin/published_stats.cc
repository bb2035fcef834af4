// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <array>

#include "afterimage/encoder_cache.h"
#include "afterimage/pressure.h"
#include "afterimage/reuse_stats.h"
#include "gateway/admin/admin.h"
#include "gateway/admin/admin_json.h"
#include "gateway/admin/published.h"
#include "gateway/proxy/durations.h"

namespace afterimage {
namespace {

double number(std::uint64_t value) { return static_cast<double>(value); }

void write_answers(MetricsWriter& out, const AnswerCacheStats& answers) {
  for (const MatchLevel level : kMatchLevels) {
    const MatchLevelStats& of = answers.levels[static_cast<std::size_t>(level)];
    count_by(
        out, "afterimage_answers_lookups_total", "Look-ups that reached a match level", "verdict",
        {{"served", of.served}, {"matched_not_used", of.matched_not_used}, {"missed", of.missed}},
        {{"match_level", std::string(to_string(level))}});
  }
  out.gauge("afterimage_answers_entries", "Cached answers", {}, number(answers.entries.value()));
  out.gauge("afterimage_answers_bytes", "Bytes of cached answers, as charged to the budget", {},
            number(answers.resident.value()));
  count(out, "afterimage_answers_insertions_total", "Answers inserted", answers.insertions);
  count(out, "afterimage_answers_evictions_total", "Answers evicted for space", answers.evictions);
  count(out, "afterimage_answers_expired_total", "Answers removed at the end of their time to live",
        answers.expired);
  count(out, "afterimage_answers_erased_total", "Answers invalidated, or replaced by a newer one",
        answers.erased);
  count(out, "afterimage_answers_damaged_total",
        "Answers that failed their checksum and were removed", answers.damaged);
  count_by(out, "afterimage_answers_refused_total",
           "Answers that the cache did not insert, by reason", "reason",
           {{"no_room", answers.refused_no_space},
            {"over_quota", answers.refused_over_quota},
            {"blocked", answers.blocked}});
}

void write_moved(MetricsWriter& out, const MovedMediaStats& moved) {
  out.gauge("afterimage_moved_media_on", "1 while KV of images may be used at other positions", {},
            moved.on ? 1 : 0);
  out.gauge("afterimage_moved_media_items", "Images whose KV is kept for other positions", {},
            number(moved.entries));
  out.gauge("afterimage_moved_media_bytes", "Bytes of images' KV that is kept for other positions",
            {}, number(moved.used.value()));
  count(out, "afterimage_moved_media_answers_total", "Bounded answers, which used moved KV",
        moved.answers);
  count(out, "afterimage_moved_media_tokens_total",
        "Prompt tokens that were not computed for bounded answers", moved.tokens);
  count(out, "afterimage_moved_media_samples_total",
        "Bounded answers that were computed again exactly and compared", moved.samples);
  count_by(out, "afterimage_moved_media_compared_tokens_total",
           "Tokens of compared bounded answers, up to the first that differs", "result",
           {{"same", moved.same}, {"other", moved.other}});
  out.gauge("afterimage_moved_media_loss_at_least",
            "Share of tokens that differ in bounded answers, at least, by the samples", {},
            moved.loss_at_least);
}

void write_similarity(MetricsWriter& out, const SimilarAnswersStats& stats) {
  const SimilarityStats& level = stats.level;
  count_by(out, "afterimage_similarity_lookups_total", "Look-ups of similar questions, by result",
           "verdict",
           {{"served", level.served},
            {"matched_not_used", level.not_used},
            {"missed", level.missed},
            {"not_embedded", level.skipped + stats.not_embedded},
            {"not_worth_it", stats.not_worth}});
  count_by(out, "afterimage_similarity_evidence_total",
           "Answers to similar questions that were compared with the model's", "verdict",
           {{"right", level.learned.right}, {"wrong", level.learned.wrong}});
  for (const Veto veto : kVetoes) {
    out.counter("afterimage_similarity_vetoes_total",
                "Similar questions that were not used because their words differ, by reason",
                {{"reason", std::string(to_string(veto))}},
                number(level.vetoed[static_cast<std::size_t>(veto)]));
  }
  count_by(out, "afterimage_similarity_verifications_total",
           "Look-ups whose similar questions the verifier read", "verdict",
           {{"accepted", level.verified},
            {"refused", level.refused},
            {"unavailable", level.not_verified}});
  count(out, "afterimage_similarity_demotions_total",
        "Served answers to similar questions that were wrong", stats.demotions);
  count_by(out, "afterimage_similarity_archive_total", "Questions with their vectors in the tiers",
           "event",
           {{"kept", stats.archive.kept},
            {"restored", stats.archive.restored},
            {"failed", stats.archive.failed}});
  out.gauge("afterimage_similarity_entries", "Questions that can be found by similarity", {},
            number(level.entries.value()));
  out.gauge("afterimage_similarity_bytes",
            "Bytes of the vectors and texts of questions that can be found by similarity, part of "
            "the budget",
            {}, number(level.resident.value()));
}

void write_encoder(MetricsWriter& out, const EncoderCacheStats& encoder,
                   const EncoderArchiveStats& archive) {
  count(out, "afterimage_encoder_hits_total",
        "Media items whose encoder output was found in memory", encoder.hits);
  count(out, "afterimage_encoder_misses_total",
        "Media items whose encoder output was not in memory", encoder.misses);
  count(out, "afterimage_encoder_covered_total",
        "Media items that were not looked up, because the prompt resumed from KV behind them, and "
        "whose encoder output was in memory",
        encoder.covered);
  count(out, "afterimage_encoder_loaded_total",
        "Encoder outputs that were not in memory and were loaded from a tier below",
        archive.loaded);
  count(out, "afterimage_encoder_declined_total",
        "Encoder outputs that a tier below memory holds and that were encoded because that was "
        "expected to be faster",
        archive.declined);
  count(out, "afterimage_encoder_unwritten_total",
        "New encoder outputs that were not written to memory.disk, because almost none of the last "
        "ones was asked for again",
        archive.unwritten);
  count(out, "afterimage_encoder_evictions_total", "Encoder outputs evicted for space",
        encoder.evictions);
  out.counter("afterimage_encoder_saved_seconds_total",
              "Encoding time of the outputs that were found", {},
              seconds(encoder.encode_time_saved));
  out.gauge("afterimage_encoder_min_entries",
            "Encoder outputs that a new one must leave in memory now", {},
            number(encoder.min_entries.value()));
  for (const auto& [name, value] : seed_named_stats(encoder)) {
    out.untyped(name, "A name of the first multimodal cache", {}, value);
  }
}

void write_prefix(MetricsWriter& out, const PrefixCacheStats& prefix,
                  const PrefixArchiveStats& archive) {
  count(out, "afterimage_prefix_hits_total", "Prompts with a cached prefix", prefix.hits);
  count(out, "afterimage_prefix_misses_total", "Prompts without a cached prefix", prefix.misses);
  count(out, "afterimage_prefix_tokens_reused_total",
        "Tokens of the cached prefixes that were used", prefix.tokens_reused);
  count(out, "afterimage_prefix_tokens_declined_total",
        "Tokens whose KV a tier below memory holds and that were computed because that was "
        "expected to be faster",
        archive.tokens_declined);
  count(out, "afterimage_prefix_unwritten_total",
        "Prompts whose KV was not written to memory.disk, because almost none of the last ones was "
        "asked for again",
        archive.unwritten);
  count(out, "afterimage_prefix_evictions_total", "Prefix segments evicted for space",
        prefix.evictions);
  out.gauge("afterimage_prefix_tokens", "Tokens with KV in memory", {}, number(prefix.tokens));
  out.gauge("afterimage_prefix_sequences",
            "Sequences with KV in memory that no other one continues", {},
            number(prefix.sequences.value()));
}

void write_memory(MetricsWriter& out, const ReuseStats& stats) {
  out.gauge("afterimage_memory_budget_bytes", "What all caches together may hold in memory now", {},
            number(stats.budget.value()));
  out.gauge("afterimage_memory_used_bytes", "What all caches together hold in memory", {},
            number(stats.used.value()));
  out.gauge("afterimage_memory_peak_bytes", "The most that all caches together ever held in memory",
            {}, number(stats.peak.value()));
  const auto part = [&](const char* kind, Bytes bytes) {
    out.gauge("afterimage_memory_part_bytes", "What each kind of entry holds in memory",
              {{"tier", "host"}, {"kind", kind}}, number(bytes.value()));
  };
  part("answers", stats.answers.resident);
  part("encoder outputs", stats.encoder.resident);
  part("kv", stats.prefix.resident);
  const PressureMode now =
      stats.governed.has_value() ? stats.governed->mode : PressureMode::kRelaxed;
  for (const PressureMode mode :
       {PressureMode::kRelaxed, PressureMode::kNormal, PressureMode::kPressure,
        PressureMode::kCritical, PressureMode::kEmergency}) {
    out.gauge("afterimage_pressure_mode",
              "1 for the current mode of the governor, 0 for the four others",
              {{"mode", std::string(to_string(mode))}}, mode == now ? 1 : 0);
  }
  out.gauge("afterimage_admission_blocked", "1 while memory is so short that nothing new is cached",
            {}, now == PressureMode::kEmergency ? 1 : 0);
  for (const TenantMemory& tenant : stats.shares) {
    const std::string name = tenant.tenant.empty() ? "everybody else" : tenant.tenant;
    out.gauge("afterimage_tenant_memory_bytes",
              "What a tenant with a memory_share holds in all caches", {{"tenant", name}},
              number(tenant.used.value()));
    out.gauge("afterimage_tenant_memory_share_bytes",
              "What others never take of a tenant's memory, now", {{"tenant", name}},
              number(tenant.share.value()));
  }
  count(out, "afterimage_memory_idle_evicted_bytes_total",
        "Bytes evicted because nobody used them for memory.idle_limit",
        stats.governed.has_value() ? stats.governed->idle.value() : 0);
  count(out, "afterimage_pressure_transitions_total", "Changes of the governor's mode",
        stats.governed.has_value() ? stats.governed->transitions : 0);
}

void write_engine(MetricsWriter& out, const EngineLoad& load) {
  out.gauge("afterimage_engine_lanes",
            "Requests that the engine of this process computes at a time", {}, load.lanes);
  out.gauge("afterimage_engine_lanes_busy", "Of those, computed now", {}, load.busy);
  count(out, "afterimage_engine_batches_total", "Batches that computed next tokens of answers",
        load.batches);
  count(out, "afterimage_engine_generated_tokens_total", "Tokens computed in those batches",
        load.generated);
}

void write_prefetches(MetricsWriter& out, const PrefetchCounts& prefetched) {
  count_by(out, "afterimage_prefetches_total",
           "Next steps of clients' workflows that were looked up below memory", "result",
           {{"useful", prefetched.useful},
            {"useless", prefetched.useless},
            {"nothing", prefetched.nothing},
            {"declined", prefetched.declined}});
  count(out, "afterimage_prefetched_tokens_total",
        "Positions whose KV was loaded for next steps of workflows", prefetched.kv_tokens);
  count(out, "afterimage_prefetched_encoder_outputs_total",
        "Encoder outputs loaded for next steps of workflows", prefetched.encoder_outputs);
}

void write_server(MetricsWriter& out, const HttpServerStats& server) {
  out.gauge("afterimage_connections", "Open client connections", {}, number(server.open));
  out.gauge("afterimage_unread_bytes",
            "Bytes of responses that wait in memory for clients to read them", {},
            number(server.unread.value()));
  count_by(out, "afterimage_rejected_total",
           "Requests rejected before they were read, and clients that were cut off", "reason",
           {{"body_too_large", server.large_bodies},
            {"headers_too_large", server.large_headers},
            {"connections", server.refused_connections},
            {"overloaded", server.overloaded},
            {"timeout", server.slow},
            {"unread", server.unread_cut},
            {"no_descriptors", server.no_descriptors},
            {"malformed", server.malformed},
            {"handshake", server.failed_handshakes}});
}

void write_requests(MetricsWriter& out, Gateway& gateway) {
  const Counts::Snapshot counts = gateway.counts().snapshot();
  out.gauge("afterimage_requests_in_flight", "Requests being answered", {},
            number(counts.in_flight));
  count(out, "afterimage_coalesced_requests_total",
        "Requests served by the answer to an identical request that was in flight, here or "
        "at another gateway",
        counts.outcomes[static_cast<std::size_t>(Outcome::kJoined)]);
  count(out, "afterimage_unsafe_checked_total",
        "Served answers that were also sent to the model and compared", counts.compared);
  count(out, "afterimage_unsafe_wrong_total", "Served answers that were compared and differed",
        counts.wrong);
  if (const auto bound = upper95(counts.wrong, counts.compared)) {
    out.gauge("afterimage_unsafe_rate_upper95",
              "Upper bound of the share of wrong answers, with 95 % confidence", {}, *bound);
  }
  out.gauge("afterimage_unsafe_rate_budget", "Share of served answers that may be wrong", {},
            unsafe_budget());
  for (const TenantCounts& tenant : counts.tenants) {
    for (std::size_t i = 0; i < kOutcomes; ++i) {
      if (tenant.outcomes[i] == 0) continue;
      out.counter(
          "afterimage_tenant_requests_total", "Requests by tenant",
          {{"tenant", tenant.name}, {"outcome", std::string(to_string(static_cast<Outcome>(i)))}},
          number(tenant.outcomes[i]));
    }
  }
  out.gauge("afterimage_draining",
            "1 while the server finishes the requests it has and accepts no new ones", {},
            gateway.draining() ? 1 : 0);
  count(out, "afterimage_log_lines_lost_total",
        "Log lines dropped because the log could not keep up", gateway.parts().log.lost());
}

}  // namespace

void publish_stats(Metrics& metrics, Gateway& gateway, std::function<HttpServerStats()> connections,
                   const std::string& version) {
  metrics.gauge("afterimage_build_info", "Always 1", {{"version", version}}).set(1);
  if (const auto engine = gateway.parts().backend.exactness(); engine.has_value()) {
    metrics
        .gauge("afterimage_engine_exact",
               "1 if the engine of this process passed its self-check, so that reuse changes no "
               "bit of its results")
        .set(engine->exact ? 1 : 0);
  }
  const auto started = gateway.parts().ids.clock().now().time_since_epoch();
  metrics.gauge("process_start_time_seconds", "Start of the process, seconds since 1970")
      .set(std::chrono::duration<double>(started).count());
  metrics.on_scrape([&gateway, connections = std::move(connections)](MetricsWriter& out) {
    const ReuseStats stats = gateway.parts().reuse.stats();
    write_requests(out, gateway);
    write_answers(out, stats.answers);
    const SimilarAnswers* const similar = gateway.parts().similar;
    write_similarity(out, similar == nullptr ? SimilarAnswersStats() : similar->stats());
    write_encoder(out, stats.encoder, stats.encoder_archive);
    write_prefix(out, stats.prefix, stats.prefix_archive);
    if (stats.moved.has_value()) write_moved(out, *stats.moved);
    write_memory(out, stats);
    write_server(out, connections());
    if (const auto load = gateway.parts().backend.load(); load.has_value()) {
      write_engine(out, *load);
    }
    if (const auto counts = gateway.parts().backend.prefetched(); counts.has_value()) {
      write_prefetches(out, *counts);
    }
  });
}

}  // namespace afterimage
