// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/experiment/experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "afterimage/identity.h"
#include "afterimage/question.h"
#include "caches/identity/fields.h"
#include "caches/language/same_answer.h"
#include "foundation/crypto/sha256.h"
#include "lab/datasets/answer_match.h"
#include "lab/datasets/prompt.h"
#include "lab/experiment/similarity_levels.h"

namespace afterimage {
namespace {

constexpr Bytes kCacheBudget = 4_GiB;
constexpr std::size_t kTopKeys = 5;

/// The first semantic cache's name for the technique of each text level.
std::string_view technique_of(MatchLevel level) {
  constexpr std::array<std::string_view, kMatchLevels.size()> kNames{"exact_text", "canonical_text",
                                                                     "near_text"};
  return kNames[static_cast<std::size_t>(level)];
}

Techniques all_techniques(const ExperimentSpec& spec) {
  Techniques all{{"kv_cache"}, {"exact_text"}, {"semantic_text"}};
  for (const LayerSpec& layer : spec.layers) all.push_back({"embedding:" + layer.name});
  for (const char* name : {"canonical_text", "near_text", "fusion"}) all.push_back({name});
  return all;
}

void note(Techniques& techniques, std::string_view name, TechniqueStatus status) {
  const auto it = std::ranges::find(techniques, name, &Technique::name);
  if (it != techniques.end()) it->status = status;
}

const std::string& reference_of(const Sample& sample) {
  return sample.answer.empty() ? sample.full_answer : sample.answer;
}

class Runner {
 public:
  Runner(const ExperimentSpec& spec, CacheMode mode, const ExperimentWorld& world, Namespace space,
         AnswerCache& cache, SimilarityLevels& similarity)
      : spec_(spec),
        mode_(mode),
        world_(world),
        space_(std::move(space)),
        cache_(cache),
        similarity_(similarity) {}

  /// Brings the caches to where a recorded sample left them.
  Result<void> repeat(const Sample& sample, const SampleResult& recorded) {
    SampleResult now = begin(sample);
    Question question(scope_of(sample), now.chunk_text);
    const bool is_found = decide(question, sample, now).has_value();
    if (recorded.decision == Decision::kFailed) return {};
    if (now.source != recorded.source) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("sample {} was decided by \"{}\" and is by \"{}\" now: start again "
                              "without what was recorded",
                              sample.dataset_id, recorded.source, now.source));
    }
    const Answer answer{.text = recorded.response, .finish_reason = "stop"};
    if (recorded.decision != Decision::kServed) similarity_.learn(question, answer);
    now.latency = recorded.latency;
    if (!is_found && is_cacheable()) insert_answer(question, answer, now);
    return {};
  }

  SampleResult ask(const Sample& sample) {
    SampleResult result = begin(sample);
    const Duration began = world_.clock.now();
    Question question(scope_of(sample), result.chunk_text);
    std::optional<Answer> given = decide(question, sample, result);
    const bool served = given.has_value() && mode_ == CacheMode::kLive;
    const Result<Answer> answer = served ? *given : world_.engine.answer(sample, result.prompt);
    result.latency = world_.clock.now() - began;
    if (!answer.has_value()) {
      result.decision = Decision::kFailed;
      result.error = answer.error().message;
      return result;
    }
    if (const auto reused = world_.engine.reused_tokens(); !served && reused.has_value()) {
      note(result.techniques, "kv_cache",
           *reused > 0 ? TechniqueStatus::kHit : TechniqueStatus::kMiss);
    }
    result.response = answer->text;
    result.is_correct = answer_matches(answer->text, reference_of(sample));
    result.decision = served              ? Decision::kServed
                      : given.has_value() ? Decision::kMatched
                                          : Decision::kMissed;
    if (given.has_value()) {
      result.is_wrong = served ? differs(*given, sample, result.prompt) : !same(*given, *answer);
    }
    if (!served) similarity_.learn(question, *answer);
    if (!given.has_value() && is_cacheable()) insert_answer(question, *answer, result);
    return result;
  }

 private:
  [[nodiscard]] SampleResult begin(const Sample& sample) const {
    return {.prompt = render_prompt(spec_.prompt_template, sample),
            .chunk_text = chunk_text(sample, spec_.source, spec_.chunk_window),
            .techniques = all_techniques(spec_)};
  }
  [[nodiscard]] bool is_cacheable() const { return spec_.temperature == 0; }

  /// The scope: everything but the question itself.
  ScopeId scope_of(const Sample& sample) const {
    ScopeMessage message{.role = Role::kUser, .parts = {}};
    const bool same_image = spec_.images == "same";
    if (sample.content.has_value() && same_image) {
      message.parts.emplace_back(ScopeMedia{.content = *sample.content, .options = {}});
    }
    Sample named = sample;
    if (!same_image) named.image_id.clear();
    for (PromptPart& part : prompt_parts(spec_.prompt_template, named)) {
      if (auto* text = std::get_if<std::string>(&part)) {
        message.parts.emplace_back(std::move(*text));
      } else {
        message.parts.emplace_back(QuestionSlot{});
      }
    }
    Scope scope{.messages = {std::move(message)},
                .sampling = {{"temperature", fmt::format("{}", spec_.temperature)},
                             {"max_tokens", std::to_string(spec_.max_tokens)}}};
    scope.other.emplace("chunk_source", spec_.chunk_source);
    if (sample.content.has_value() && !same_image) scope.other.emplace("images", spec_.images);
    const bool is_missing = !sample.content.has_value() && sample.names_picture();
    if (is_missing) {
      scope.other.emplace("missing_picture",
                          sample.image_id.empty() ? sample.image_names.front() : sample.image_id);
    }
    ScopeId id = identify(scope, space_);
    // It is still a question about an image, where articles and plurals may matter.
    if (is_missing || sample.content.has_value())
      id.loosest = std::min(id.loosest, MatchLevel::kCanonical);
    return id;
  }

  /// Looks up match level by match level until a cached answer matches the sample.
  std::optional<Answer> decide(Question& question, const Sample& sample, SampleResult& result) {
    if (!is_cacheable()) return std::nullopt;
    if (spec_.enable_exact_text_cache) {
      AnswerLookup found = cache_.find(question);
      for (const MatchStep& step : found.steps) {
        const bool hit = found.answer.has_value() && &step == &found.steps.back();
        note(result.techniques, technique_of(step.level),
             hit ? TechniqueStatus::kHit : TechniqueStatus::kMiss);
      }
      if (found.answer.has_value()) {
        if (mode_ == CacheMode::kDryRun) cache_.retract_hit(found);
        result.source = to_string(found.steps.back().level);
        result.candidate = found.steps.back().candidate;
        result.score = 1;
        return std::move(found.answer);
      }
    }
    auto like = similarity_.find(question, sample, result.prompt, result.techniques);
    if (!like.has_value()) {
      result.error = like.error().message;
      return std::nullopt;
    }
    if (!like->has_value()) return std::nullopt;
    result.source = std::move((*like)->source);
    result.candidate = std::move((*like)->candidate);
    result.score = (*like)->score;
    return std::move((*like)->answer);
  }

  /// Of an oracle's answers to the letter; models word the same answer in several ways.
  [[nodiscard]] bool same(const Answer& given, const Answer& own) const {
    if (world_.engine.is_oracle()) return given.text == own.text;
    return same_answer(given.text, own.text) == SameAnswer::kSame;
  }
  /// Whether the engine's own answer differs; also if it gives none. An oracle's is known without
  /// asking it.
  bool differs(const Answer& given, const Sample& sample, const std::string& prompt) {
    const Result<Answer> own = world_.engine.is_oracle() ? OracleEngine().answer(sample, prompt)
                                                         : world_.engine.answer(sample, prompt);
    return !own.has_value() || !same(given, *own);
  }

  void insert_answer(Question& question, const Answer& answer, SampleResult& result) {
    Result<void> kept = cache_.insert(question, answer, {.cost = result.latency});
    if (kept.has_value()) kept = similarity_.insert(question);
    if (!kept.has_value()) result.error = kept.error().message;
  }

  const ExperimentSpec& spec_;
  CacheMode mode_;
  const ExperimentWorld& world_;
  Namespace space_;
  AnswerCache& cache_;
  SimilarityLevels& similarity_;
};

void add(ExperimentTotals& totals, const Sample& sample, const SampleResult& result) {
  ++totals.prompts;
  const bool served = result.decision == Decision::kServed;
  const bool matched = result.decision == Decision::kMatched;
  totals.served += served ? 1 : 0;
  totals.matched_not_used += matched ? 1 : 0;
  totals.missed += result.decision == Decision::kMissed ? 1 : 0;
  totals.failed += result.decision == Decision::kFailed ? 1 : 0;
  totals.wrong_served += served && result.is_wrong ? 1 : 0;
  totals.wrong_matched += matched && result.is_wrong ? 1 : 0;
  totals.judged += result.is_correct.has_value() ? 1 : 0;
  totals.correct += result.is_correct.value_or(false) ? 1 : 0;
  totals.latency += result.latency;
  (served ? totals.latency_served : totals.latency_other) += result.latency;
  if (served || matched) {
    SourceTotals& source = totals.sources[result.source];
    ++source.count;
    source.wrong += result.is_wrong ? 1 : 0;
    source.latency += result.latency;
  }
  totals.expected += sample.expected_hit.empty() ? 0 : 1;
  for (const Technique& technique : result.techniques) {
    const bool met = technique == Technique{sample.expected_hit, TechniqueStatus::kHit};
    totals.expected_met += met ? 1 : 0;
    if (!totals.techniques.contains(technique.name)) {
      totals.technique_order.push_back(technique.name);
    }
    ++totals.techniques[technique.name][technique.status];
  }
}

}  // namespace

std::string_view to_string(TechniqueStatus status) {
  constexpr std::array<std::string_view, 3> kNames{"skip", "miss", "hit"};
  return kNames[static_cast<std::size_t>(status)];
}

ExperimentTotals totals_of(std::span<const Sample> samples, std::span<const SampleResult> results) {
  ExperimentTotals totals;
  for (const SampleResult& result : results) add(totals, samples[result.sample], result);
  return totals;
}

KeyUse key_use(std::span<const Sample> samples, const ExperimentSpec& spec) {
  std::map<std::string, std::size_t> counts;
  for (const Sample& sample : samples) {
    ++counts[chunk_text(sample, spec.source, spec.chunk_window)];
  }
  KeyUse use{.prompts = samples.size(), .keys = counts.size()};
  for (const auto& [key, count] : counts) {
    if (count < 2) continue;
    ++use.repeated;
    use.top.emplace_back(key, count);
  }
  std::ranges::stable_sort(use.top, std::ranges::greater(),
                           &std::pair<std::string, std::size_t>::second);
  use.top.resize(std::min(use.top.size(), kTopKeys));
  return use;
}

std::vector<std::string> remarks_on(const ExperimentSpec& spec, CacheMode mode,
                                    const SampleEngine& engine) {
  std::vector<std::string> remarks;
  if (engine.is_oracle()) {
    remarks.push_back(
        fmt::format("answers come from the data set (oracle): {} is not run", spec.model));
  }
  if (const std::string answers = engine.model(); !answers.empty() && answers != spec.model) {
    remarks.push_back(
        fmt::format("{} answers: {} is a name in the logs and is not run", answers, spec.model));
  }
  if (mode == CacheMode::kDryRun) {
    remarks.emplace_back("dry run: matches are counted, and the engine answers every time");
  }
  if (spec.temperature > 0) {
    remarks.push_back(fmt::format("temperature {}: answers are random, so none is cached or served",
                                  spec.temperature));
  }
  if (spec.source == ChunkSource::kAnswer) {
    remarks.emplace_back("the key is the answer itself: the results are a bound, not a cache");
  }
  if (spec.enable_fusion_cache && !engine.shows_states()) {
    remarks.emplace_back(
        "this engine does not expose its states of image and question: fusion serves nothing");
  }
  if (spec.images == "similar") {
    remarks.emplace_back("answers about similar images count as matches: none is ever served");
  }
  const auto has_layer = [&](std::string_view name) {
    return std::ranges::find(spec.layers, name, &LayerSpec::name) != spec.layers.end();
  };
  const bool embeds_text =
      spec.enable_semantic_text_cache || (spec.hook.prompt && has_layer("prompt"));
  if (spec.hook.vision && has_layer("vision")) {
    remarks.emplace_back(
        engine.shows_states()
            ? "the layer \"vision\" compares what the engine's encoder makes of images"
            : "the layer \"vision\" compares grids of colours: only an engine of this "
              "process has an encoder of images");
  }
  if (embeds_text && !names_encoder(spec)) {
    remarks.push_back(
        fmt::format("hashed n-grams of 384 dimensions replace {}: similarities differ from it",
                    spec.index_encoder));
  }
  for (const std::string& layer : layers_without_vectors(spec)) {
    remarks.push_back(
        fmt::format("the layer \"{}\" gets no vectors from the hook \"{}\": it is skipped", layer,
                    spec.embedding_hook));
  }
  return remarks;
}

Result<ExperimentReport> run_experiment(const ExperimentSpec& spec, CacheMode mode,
                                        std::span<const Sample> samples,
                                        const ExperimentWorld& world, const OnSample& on_sample,
                                        const OnReuse& on_start) {
  if (spec.images == "similar" && mode == CacheMode::kLive) {
    return fail(ErrorCode::kInvalidArgument,
                "an answer about another image is never served: \"images\": \"similar\" needs a "
                "dry run");
  }
  MemoryBudget budget(spec.cache_max_size_gb.has_value()
                          ? Bytes(static_cast<Bytes::rep>(*spec.cache_max_size_gb * 1e9))
                          : kCacheBudget);
  AnswerCacheOptions kept;
  if (spec.max_cached_blocks.has_value()) {
    kept.max_entries = EntryCount(static_cast<EntryCount::rep>(*spec.max_cached_blocks));
  }
  AFI_TRY(const auto cache, AnswerCache::create(std::move(kept), budget, world.clock));
  AFI_TRY(const auto similarity, SimilarityLevels::create(spec, {.cache = *cache,
                                                                 .budget = budget,
                                                                 .clock = world.clock,
                                                                 .images = world.images,
                                                                 .engine = world.engine,
                                                                 .text_encoder = world.text_encoder,
                                                                 .samples = samples}));
  AFI_TRY(Namespace space,
          Namespace::of(
              {.model = spec.model, .encoder = spec.model, .chat_template = spec.prompt_template},
              TenantId(), Secret{}));
  Runner runner(spec, mode, world, std::move(space), *cache, *similarity);
  ExperimentReport report;
  const std::vector<SimilarityLevel*> levels = similarity->all();
  if (world.cache_files != nullptr) {
    AFI_TRY(report.reused, load_run_cache(spec, *world.cache_files, *cache, levels));
    if (on_start) on_start(*report.reused);
  }
  const Duration began = world.clock.now();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (i < world.recorded.size()) {
      AFI_TRY_VOID(runner.repeat(samples[i], world.recorded[i]));
      report.samples.push_back(world.recorded[i]);
      continue;
    }
    SampleResult result = runner.ask(samples[i]);
    result.sample = i;
    if (on_sample) on_sample(samples[i], result);
    report.samples.push_back(std::move(result));
  }
  report.wall_time = world.clock.now() - began;
  report.totals = totals_of(samples, report.samples);
  if (world.cache_files != nullptr) {
    AFI_TRY_VOID(save_run_cache(spec, *world.cache_files, *cache, levels));
  }
  return report;
}

std::string outcome_hash(std::span<const SampleResult> results) {
  FieldWriter fields("afterimage/experiment-outcome/1");
  for (const SampleResult& result : results) {
    fields.number("decision", static_cast<std::uint64_t>(result.decision))
        .text("source", result.source)
        .text("candidate", result.candidate)
        .text("response", result.response);
  }
  return to_hex(sha256(fields.message()));
}

std::string data_hash(std::span<const Sample> samples) {
  Sha256 all;
  for (const Sample& sample : samples) {
    FieldWriter fields("afterimage/experiment-sample/1");
    fields.text("id", sample.dataset_id)
        .text("image", sample.image_id)
        .text("question", sample.question)
        .text("answer", sample.answer)
        .text("full_answer", sample.full_answer)
        .text("global_group", sample.global_group)
        .text("local_group", sample.local_group)
        .text("semantic_str", sample.semantic_str)
        .text("program", program_text(sample))
        .text("chunk", sample.chunk_override)
        .text("metadata", sample.metadata)
        .number("images", sample.image_names.size());
    for (const std::string& name : sample.image_names) fields.text("name", name);
    if (sample.content.has_value()) fields.bytes("content", sample.content->bytes);
    const auto digest = sha256(fields.message());
    all.update(digest);
  }
  return to_hex(all.finish());
}

}  // namespace afterimage
