// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bench/run/run.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "afterimage/secret.h"
#include "bench/run/trace_recorder.h"
#include "foundation/text/ascii.h"

namespace afterimage {
namespace {

using Answers = std::vector<Result<Served>>;

template <typename ServeOne>
Answers run_pass(const Workload& workload, std::string_view name, const RunProgress& progress,
                 const Clock& clock, PassReport& report, const ServeOne& serve_one) {
  Answers answers;
  const Duration began = clock.now();
  for (const Request& request : workload.requests) {
    report.arrived.push_back(clock.now() - began);
    answers.push_back(serve_one(request));
    if (progress) progress(name, answers.size(), workload.requests.size());
  }
  report.total = clock.now() - began;
  return answers;
}

void count(const Served& served, PassReport& report) {
  report.encoder_calls += served.encoder_calls;
  report.parts += served.parts;
  report.encoded_parts += served.encoded_parts;
  report.prefilled += served.completion.prefilled.value();
  report.encoding += served.encoding;
  report.ttft.push_back(served.time_to_first_token);
}

bool same(const Served& a, const Served& b) {
  return a.completion.tokens == b.completion.tokens && a.completion.logits == b.completion.logits;
}

RequestReport report_of(const Request& request, const Served& cold, const Served& encode_once,
                        const Served& warm) {
  RequestReport report{.id = request.id.text(),
                       .agent = request.hints.agent,
                       .prompt_tokens = warm.completion.prefilled + warm.completion.resumed_from,
                       .resumed_from = warm.completion.resumed_from,
                       .text = warm.completion.text,
                       .identical = same(cold, encode_once) && same(cold, warm),
                       .cold_ttft = cold.time_to_first_token,
                       .warm_ttft = warm.time_to_first_token};
  const auto media = media_of(request);
  for (std::size_t i = 0; i < media.size(); ++i) {
    report.media.push_back({.name = media[i]->name,
                            .modality = media[i]->modality,
                            .content = warm.prints.contents[i],
                            .source = warm.sources[i]});
  }
  return report;
}

/// The three answers to one request; it failed if one is missing.
struct Outcome {
  const Result<Served>& cold;
  const Result<Served>& encode_once;
  const Result<Served>& warm;

  [[nodiscard]] bool complete() const {
    return cold.has_value() && encode_once.has_value() && warm.has_value();
  }
  [[nodiscard]] FailedRequest failure(const std::string& id) const {
    const bool everywhere = !cold.has_value() && !encode_once.has_value() && !warm.has_value();
    const auto& failed = !cold.has_value() ? cold : !encode_once.has_value() ? encode_once : warm;
    return {.id = id, .error = to_string(failed.error()), .in_all_runs = everywhere};
  }
};

void judge(const std::string& expected, const Outcome& outcome, RunReport& report) {
  const auto right = [&](const Served& served) {
    constexpr std::string_view kSpace = " \t\r\n";
    return ascii::trimmed(served.completion.text, kSpace) == ascii::trimmed(expected, kSpace) ? 1U
                                                                                              : 0U;
  };
  report.judged += 1;
  report.cold.right += right(*outcome.cold);
  report.encode_once.right += right(*outcome.encode_once);
  report.warm.right += right(*outcome.warm);
  report.requests.back().expected = expected;
  report.requests.back().right = right(*outcome.warm) == 1;
}

void add(const Request& request, const Outcome& outcome, RunReport& report) {
  const Served& warm = *outcome.warm;
  count(*outcome.cold, report.cold);
  count(*outcome.encode_once, report.encode_once);
  count(warm, report.warm);
  report.requests.push_back(report_of(request, *outcome.cold, *outcome.encode_once, warm));
  report.restore_failures += warm.restore_failed ? 1 : 0;
  report.media_items += warm.prints.keys.size();
  report.uncached +=
      static_cast<std::uint64_t>(std::ranges::count(warm.sources, MediaSource::kUncached));
}

void join(const Workload& workload, const Answers& cold, const Answers& encode_once,
          const Answers& warm, RunReport& report) {
  std::set<EncoderKey> distinct;
  std::set<std::string> agents;
  std::map<EncoderKey, std::set<std::string>> sharing;
  for (std::size_t i = 0; i < workload.requests.size(); ++i) {
    const Request& request = workload.requests[i];
    const Outcome outcome{.cold = cold[i], .encode_once = encode_once[i], .warm = warm[i]};
    if (!outcome.complete()) {
      report.failed.push_back(outcome.failure(request.id.text()));
      continue;
    }
    add(request, outcome, report);
    if (const auto it = workload.expected.find(request.id); it != workload.expected.end()) {
      judge(it->second, outcome, report);
    }
    const std::vector<EncoderKey>& keys = warm[i]->prints.keys;
    distinct.insert(keys.begin(), keys.end());
    if (request.hints.agent.empty()) continue;
    agents.insert(request.hints.agent);
    for (std::size_t item = 0; item < keys.size(); ++item) {
      auto& by = sharing[keys[item]];
      by.insert(request.hints.agent);
      if (by.size() < 2 || by.size() <= report.most_shared_by) continue;
      report.most_shared = report.requests.back().media[item].name;
      report.most_shared_by = by.size();
    }
  }
  report.distinct_media = distinct.size();
  report.agents = agents.size();
}

/// Encoding times are taken from the first pass, which encodes everything.
Result<Trace> record(const Workload& workload, const Engine& engine, const RunOptions& options,
                     const Answers& cold, const Answers& warm, const PassReport& pass) {
  AFI_TRY(TraceRecorder recorder, TraceRecorder::open());
  for (std::size_t i = 0; i < workload.requests.size(); ++i) {
    if (!cold[i].has_value() || !warm[i].has_value()) continue;
    AFI_TRY_VOID(recorder.add(workload.requests[i], engine, *warm[i], cold[i]->encodes,
                              pass.arrived[i], options.generate.max_tokens));
  }
  return recorder.trace();
}

/// One pass with reuse, from an empty cache.
Result<Answers> reusing_pass(const Workload& workload, const Engine& engine,
                             const RunOptions& options, bool prefixes, const Clock& clock,
                             const RunProgress& progress, PassReport& pass, ReuseStats& stats) {
  Secret root;
  if (options.secret.has_value()) {
    root = *options.secret;
  } else {
    // Without an installation secret the cache does not outlive the run: a random one suffices.
    AFI_TRY(root, random_secret());
  }
  ReuseOptions reuse_options = options.reuse;
  reuse_options.prefixes = prefixes;
  if (!prefixes) {
    reuse_options.tier = nullptr;
    reuse_options.leases = nullptr;
  }
  AFI_TRY(const auto reuse, Reuse::create(reuse_options, root, clock));
  AFI_TRY_VOID(reuse->space(engine.identity(), TenantId()));
  Answers answers = run_pass(
      workload, prefixes ? "prefill once" : "encode once", progress, clock, pass,
      [&](const Request& request) { return serve(request, engine, *reuse, options.generate); });
  stats = reuse->stats();
  return answers;
}

}  // namespace

Duration PassReport::ttft_percentile(double percent) const {
  if (ttft.empty()) return Duration(0);
  std::vector<Duration> sorted = ttft;
  std::ranges::sort(sorted);
  const double rank = std::ceil(percent / 100 * static_cast<double>(sorted.size()));
  return sorted[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

bool RunReport::outputs_identical() const {
  return !requests.empty() && std::ranges::all_of(requests, &RequestReport::identical) &&
         std::ranges::all_of(failed, &FailedRequest::in_all_runs);
}

Result<RunReport> run_workload(const Workload& workload, const Engine& engine,
                               const RunOptions& options, const Clock& clock,
                               const RunProgress& progress) {
  RunReport report;
  report.engine_name = options.engine_name;
  report.engine = engine.identity();
  report.rejected = workload.rejected;
  const Answers cold = run_pass(
      workload, "without reuse", progress, clock, report.cold, [&](const Request& request) {
        return serve_without_reuse(request, engine, clock, options.generate);
      });
  ReuseStats encode_only;
  AFI_TRY(const Answers encode_once, reusing_pass(workload, engine, options, false, clock, progress,
                                                  report.encode_once, encode_only));
  Tier* const tier = options.reuse.tier;
  if (options.disk != nullptr) report.disk_before = options.disk->stats();
  if (options.remote != nullptr) report.remote_before = options.remote->stats();
  AFI_TRY(const Answers warm, reusing_pass(workload, engine, options, true, clock, progress,
                                           report.warm, report.reuse));
  if (tier != nullptr) {
    // A failing disk costs only later processes their hits; stats() reports it.
    static_cast<void>(tier->flush());
  }
  if (options.gpu != nullptr) report.gpu_after = options.gpu->stats();
  if (options.disk != nullptr) report.disk_after = options.disk->stats();
  if (options.remote != nullptr) report.remote_after = options.remote->stats();
  join(workload, cold, encode_once, warm, report);
  if (options.record) {
    AFI_TRY(report.trace, record(workload, engine, options, cold, warm, report.warm));
  }
  return report;
}

}  // namespace afterimage
