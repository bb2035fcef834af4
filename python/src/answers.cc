// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>

#include "afterimage/question.h"
#include "answer_store.h"
#include "bindings.h"
#include "caches/answers/eligibility.h"
#include "caches/similarity/hashed_ngrams.h"
#include "foundation/types/digest_hash.h"

namespace afterimage::python {

namespace {

MatchLevel level_named(std::string_view name) {
  for (const MatchLevel level : kMatchLevels) {
    if (to_string(level) == name) return level;
  }
  raise(ErrorCode::kInvalidArgument,
        "expected a match level (text:exact, text:canonical, text:near), got '" +
            std::string(name) + "'");
}

Duration seconds(double count) { return Duration(static_cast<std::int64_t>(count * 1e9)); }
double seconds(Duration span) { return static_cast<double>(span.count()) * 1e-9; }

Role role_named(std::string_view name) {
  for (const Role role : {Role::kSystem, Role::kUser, Role::kAssistant, Role::kTool}) {
    if (to_string(role) == name) return role;
  }
  raise(ErrorCode::kInvalidArgument,
        "expected a role (system, user, assistant, tool), got '" + std::string(name) + "'");
}

/// (role, parts): a part is text, the digest of an image, (modality, digest), or None for the
/// question's text.
ScopeMessage message_of(nb::handle object) {
  const auto pair = nb::cast<nb::tuple>(object);
  if (pair.size() != 2) {
    raise(ErrorCode::kInvalidArgument, "expected messages of (role, parts)");
  }
  ScopeMessage message{.role = role_named(nb::cast<std::string>(pair[0]))};
  for (const nb::handle part : nb::cast<nb::sequence>(pair[1])) {
    if (part.is_none()) {
      message.parts.emplace_back(QuestionSlot{});
    } else if (nb::isinstance<nb::str>(part)) {
      message.parts.emplace_back(nb::cast<std::string>(part));
    } else if (nb::isinstance<ContentDigest>(part)) {
      message.parts.emplace_back(ScopeMedia{.content = nb::cast<ContentDigest>(part)});
    } else if (nb::isinstance<nb::tuple>(part)) {
      const auto media = nb::cast<nb::tuple>(part);
      message.parts.emplace_back(
          ScopeMedia{.modality = modality_named(nb::cast<std::string>(media[0])),
                     .content = nb::cast<ContentDigest>(media[1])});
    } else {
      raise(ErrorCode::kInvalidArgument,
            "expected parts that are text, a ContentDigest, (modality, ContentDigest) or None for "
            "the question");
    }
  }
  return message;
}

ScopeId scope_of(const SpaceHolder& space, const nb::sequence& messages, std::string tools,
                 std::string response_format, std::map<std::string, std::string> sampling,
                 std::map<std::string, std::string> other) {
  Scope scope{.inputs = space.space.prefix_root({}, {}, {}),
              .tools = std::move(tools),
              .response_format = std::move(response_format),
              .sampling = std::move(sampling),
              .other = std::move(other)};
  std::size_t slots = 0;
  for (const nb::handle message : messages) {
    scope.messages.push_back(message_of(message));
    for (const auto& part : scope.messages.back().parts) {
      slots += std::holds_alternative<QuestionSlot>(part) ? 1 : 0;
    }
  }
  if (slots != 1) {
    raise(ErrorCode::kInvalidArgument,
          "expected exactly one None, for the question's text, in all messages, got " +
              std::to_string(slots));
  }
  return identify(scope, space.space);
}

nb::list steps_of(const AnswerLookup& lookup) {
  nb::list steps;
  for (const MatchStep& step : lookup.steps) {
    const bool similar = lookup.by_similarity && &step == &lookup.steps.back();
    steps.append(nb::make_tuple(similar ? "similarity" : to_string(step.level),
                                to_string(step.verdict), step.candidate));
  }
  return steps;
}

/// A Python function from texts to vectors. Vectors are made of length 1.
class PythonEmbedder final : public Embedder {
 public:
  PythonEmbedder(nb::callable function, std::string name)
      : function_(std::move(function)), name_(std::move(name)) {
    dimensions_ = vectors_of(std::vector<std::string>{"A text."}).front().size();
  }
  ~PythonEmbedder() override {
    const nb::gil_scoped_acquire held;
    function_.reset();
  }
  PythonEmbedder(const PythonEmbedder&) = delete;
  PythonEmbedder& operator=(const PythonEmbedder&) = delete;

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::size_t dimensions() const override { return dimensions_; }
  [[nodiscard]] Result<std::vector<Vector>> embed(std::span<const EmbedInput> inputs) override {
    std::vector<std::string> texts;
    for (const EmbedInput& input : inputs) {
      if (!std::holds_alternative<std::string_view>(input)) {
        return fail(ErrorCode::kUnsupported, "embed() takes texts");
      }
      texts.emplace_back(std::get<std::string_view>(input));
    }
    const nb::gil_scoped_acquire held;
    try {
      return vectors_of(texts);
    } catch (const std::exception& problem) {  // costs hits only
      return fail(ErrorCode::kUnavailable, problem.what());
    }
  }

 private:
  [[nodiscard]] std::vector<Vector> vectors_of(const std::vector<std::string>& texts) const {
    auto vectors = nb::cast<std::vector<Vector>>(function_(texts));
    const auto fits = [&](const Vector& v) {
      return !v.empty() && (dimensions_ == 0 || v.size() == dimensions_);
    };
    if (vectors.size() != texts.size() || !std::ranges::all_of(vectors, fits)) {
      raise(ErrorCode::kInvalidArgument,
            "expected embed() to return one vector for each text, all of one length");
    }
    for (Vector& vector : vectors) {
      double squares = 0;
      for (const float x : vector) squares += static_cast<double>(x) * x;
      const double length = std::sqrt(squares);
      for (float& x : vector) x = length > 0 ? static_cast<float>(x / length) : 0.0F;
    }
    return vectors;
  }

  nb::callable function_;
  std::string name_;
  std::size_t dimensions_ = 0;
};

SimilarityArgs similarity_of(std::string_view mode, const nb::object& embed, std::string name,
                             double threshold, double error_budget) {
  if (mode != "shadow" && mode != "on") {
    raise(ErrorCode::kInvalidArgument,
          "expected mode \"shadow\" or \"on\", got '" + std::string(mode) + "'");
  }
  if (!(threshold > 0 && threshold <= 1) || !(error_budget > 0 && error_budget < 1)) {
    raise(ErrorCode::kInvalidArgument, "expected threshold in (0, 1] and error_budget in (0, 1)");
  }
  SimilarityArgs args{.mode = mode == "on" ? SimilarityMode::kLearned : SimilarityMode::kWatch,
                      .embedder = nullptr,
                      .threshold = static_cast<float>(threshold),
                      .error_budget = error_budget};
  if (embed.is_none()) {
    args.embedder = std::make_shared<HashedNgrams>(or_raise(HashedNgrams::create()));
  } else if (name.empty()) {
    raise(ErrorCode::kInvalidArgument,
          "expected a name with embed: model and version, so that its vectors are never compared "
          "with another's");
  } else {
    args.embedder =
        std::make_shared<PythonEmbedder>(nb::cast<nb::callable>(embed), std::move(name));
  }
  return args;
}

class PyAnswerCache {
 public:
  explicit PyAnswerCache(std::shared_ptr<AnswerStore> store) : store_(std::move(store)) {}

  [[nodiscard]] std::shared_ptr<AnswerStore> open() const {
    if (store_ == nullptr) raise(ErrorCode::kInvalidArgument, "this answer cache is closed");
    return store_;
  }

  AnswerLookup find(const ScopeId& scope, std::string question, std::string_view match_level,
                    std::optional<double> max_age_seconds) {
    const auto store = open();
    Question scoped(scope, std::move(question));
    const LookupRules rules = rules_of(match_level, max_age_seconds);
    return without_gil([&] { return store->find(scoped, rules); });
  }

  void insert(const ScopeId& scope, std::string question, const Answer& answer, double cost_seconds,
              std::optional<double> ttl_seconds, std::vector<std::string> tags) {
    const auto store = open();
    Question scoped(scope, std::move(question));
    const AnswerFacts facts = facts_of(cost_seconds, ttl_seconds, std::move(tags));
    or_raise(without_gil([&] { return store->insert(scoped, answer, facts); }));
  }

  AnswerLookup get_or_answer(const ScopeId& scope, std::string question,
                             const nb::callable& generate, std::string_view match_level,
                             std::optional<double> max_age_seconds,
                             std::optional<double> ttl_seconds, std::vector<std::string> tags) {
    const auto store = open();
    Question scoped(scope, std::move(question));
    const LookupRules rules = rules_of(match_level, max_age_seconds);
    const AnswerFacts facts = facts_of(0, ttl_seconds, std::move(tags));
    std::exception_ptr raised;
    const auto ask = [&]() -> Result<AnswerOnce::Generated> {
      const nb::gil_scoped_acquire held;
      try {
        const nb::object made = generate();
        if (nb::isinstance<nb::str>(made)) {
          return AnswerOnce::Generated{
              {.text = nb::cast<std::string>(made), .finish_reason = "stop"}, facts};
        }
        return AnswerOnce::Generated{nb::cast<Answer>(made), facts};
      } catch (...) {
        raised = std::current_exception();
        return fail(ErrorCode::kUnavailable, "generate() raised an exception");
      }
    };
    auto found = without_gil([&] { return store->get_or_answer(scoped, rules, ask); });
    if (raised != nullptr) std::rethrow_exception(raised);
    return or_raise(std::move(found));
  }

  bool report_wrong(const ScopeId& scope, std::string question, std::string_view match_level) {
    const auto store = open();
    Question scoped(scope, std::move(question));
    const LookupRules rules = rules_of(match_level, std::nullopt);
    return or_raise(without_gil([&] { return store->report_wrong(scoped, rules); }));
  }

  bool erase(const ScopeId& scope, std::string question) {
    const auto store = open();
    Question scoped(scope, std::move(question));
    return or_raise(without_gil([&] { return store->erase(scoped); }));
  }

  std::uint64_t erase_tag(std::string tag) {
    if (tag.empty()) raise(ErrorCode::kInvalidArgument, "expected a tag, got an empty one");
    return erase_all({.tag = std::move(tag)});
  }

  std::uint64_t erase_older_than(double seconds) {
    return erase_all({.older_than = checked_seconds(seconds, "seconds")});
  }

  std::uint64_t clear() { return erase_all({}); }

  void flush() {
    const auto store = open();
    or_raise(without_gil([&] { return store->flush(); }));
  }

  void close() {
    auto store = std::exchange(store_, nullptr);
    const nb::gil_scoped_release released;  // closing may flush to disk
    store.reset();
  }

  [[nodiscard]] std::string degraded_reason() const {
    const auto archive = open()->archive_stats();
    return archive.has_value() ? archive->degraded_reason : "";
  }

  [[nodiscard]] nb::dict stats() const {
    const auto store = open();
    const AnswerCacheStats cache = store->cache_stats();
    const AnswerOnceStats once = store->once_stats();
    nb::dict stats;
    for (const MatchLevel level : kMatchLevels) {
      const MatchLevelStats& of = cache.levels[static_cast<std::size_t>(level)];
      const std::string name(to_string(level));
      stats[(name + " served").c_str()] = of.served;
      stats[(name + " missed").c_str()] = of.missed;
    }
    stats["entries"] = cache.entries.value();
    stats["resident_bytes"] = cache.resident.value();
    stats["insertions"] = cache.insertions;
    stats["evictions"] = cache.evictions;
    stats["expired"] = cache.expired;
    stats["asked"] = once.led;
    stats["joined"] = once.joined;
    stats["seconds_saved"] = seconds(cache.answer_time_saved);
    stats["answered_elsewhere"] = store->answered_elsewhere();
    if (const auto archive = store->archive_stats()) add_archive(stats, *archive);
    if (const auto similarity = store->similarity_stats()) add_similarity(stats, *similarity);
    return stats;
  }

 private:
  static LookupRules rules_of(std::string_view match_level, std::optional<double> max_age_seconds) {
    LookupRules rules{.serve = level_named(match_level)};
    if (max_age_seconds.has_value()) rules.max_age = seconds(*max_age_seconds);
    return rules;
  }
  static AnswerFacts facts_of(double cost_seconds, std::optional<double> ttl_seconds,
                              std::vector<std::string> tags) {
    AnswerFacts facts{.cost = seconds(cost_seconds), .tags = std::move(tags)};
    if (ttl_seconds.has_value()) facts.ttl = seconds(*ttl_seconds);
    return facts;
  }

  static void add_archive(nb::dict& stats, const AnswerArchiveStats& archive) {
    stats["tier_kept"] = archive.kept;
    stats["tier_refused"] = archive.refused;
    stats["tier_restored"] = archive.restored;
    stats["tier_erased"] = archive.erased;
    stats["tier_expired"] = archive.expired;
    stats["tier_failed"] = archive.failed;
  }

  static void add_similarity(nb::dict& stats, const SimilarAnswersStats& similarity) {
    stats["similarity served"] = similarity.level.served;
    stats["similarity missed"] = similarity.level.missed;
    stats["similarity matched_not_used"] = similarity.level.not_used;
    stats["similarity right"] = similarity.level.learned.right;
    stats["similarity wrong"] = similarity.level.learned.wrong;
    stats["similarity demotions"] = similarity.demotions;
    stats["similarity restored"] = similarity.archive.restored;
  }

  std::uint64_t erase_all(const AnswerFilter& filter) {
    const auto store = open();
    return or_raise(without_gil([&] { return store->erase(filter); })).entries.value();
  }

  std::shared_ptr<AnswerStore> store_;
};

nb::tuple eligible(std::string_view question, std::optional<double> temperature, bool seeded,
                   std::uint32_t choices, bool log_probabilities, bool offers_tools,
                   bool has_tool_results) {
  const Eligibility found = eligibility({.temperature = temperature,
                                         .seeded = seeded,
                                         .choices = choices,
                                         .log_probabilities = log_probabilities,
                                         .offers_tools = offers_tools,
                                         .has_tool_results = has_tool_results},
                                        question);
  return nb::make_tuple(to_string(found.limit), found.why);
}

void bind_answer_types(nb::module_& module) {
  nb::class_<ScopeId>(module, "Scope",
                      "Everything besides the question's text that changes the answer. Questions "
                      "are compared only within\n"
                      "one scope, and a different image is a different scope.")
      .def(
          "__init__",
          [](ScopeId* self, const SpaceHolder& space, const nb::sequence& messages,
             std::string tools, std::string response_format,
             std::map<std::string, std::string> sampling,
             std::map<std::string, std::string> other) {
            new (self)
                ScopeId(scope_of(space, messages, std::move(tools), std::move(response_format),
                                 std::move(sampling), std::move(other)));
          },
          nb::arg("space"), nb::arg("messages"), nb::kw_only(), nb::arg("tools") = "",
          nb::arg("response_format") = "",
          nb::arg("sampling") = std::map<std::string, std::string>(),
          nb::arg("other") = std::map<std::string, std::string>(),
          nb::sig("def __init__(self, space: Namespace, messages: "
                  "collections.abc.Sequence[tuple[str, collections.abc.Sequence[str | "
                  "ContentDigest | tuple[str, ContentDigest] | None]]], *, tools: str = '', "
                  "response_format: str = '', sampling: dict[str, str] = {}, other: dict[str, "
                  "str] = {}) -> None"),
          "messages: (role, parts), the whole conversation; a part is text, the digest of an "
          "image, (modality,\n"
          "digest), or None for the question's text.\n"
          "sampling, other: every other field of the request, as text.")
      .def(
          "__eq__",
          [](const ScopeId& self, nb::handle other) {
            return nb::isinstance<ScopeId>(other) && self == nb::cast<const ScopeId&>(other);
          },
          nb::arg("other").none())
      .def("__hash__", [](const ScopeId& self) {
        return static_cast<Py_ssize_t>(DigestHash{}(self.key) >> 1U);
      });

  nb::class_<Answer>(module, "Answer", "A model's answer to one question.")
      .def(
          "__init__",
          [](Answer* self, std::string text, std::string finish_reason, std::string model) {
            new (self) Answer{.text = std::move(text),
                              .finish_reason = std::move(finish_reason),
                              .model = std::move(model)};
          },
          nb::arg("text"), nb::arg("finish_reason") = "stop", nb::arg("model") = "",
          "finish_reason: the OpenAI API's value; only complete answers are cached.")
      .def_ro("text", &Answer::text)
      .def_ro("finish_reason", &Answer::finish_reason)
      .def_ro("model", &Answer::model);

  nb::class_<AnswerLookup>(module, "AnswerLookup", "The result of a look-up, and its steps.")
      .def_ro("answer", &AnswerLookup::answer)
      .def_prop_ro("avoided_work", &AnswerLookup::avoided_work,
                   "True: an answer was found, and no model was called for it.")
      .def_ro("by_similarity", &AnswerLookup::by_similarity,
              "True: it is the answer to a similar question, which the last step names.")
      .def_prop_ro("seconds_saved", [](const AnswerLookup& self) { return seconds(self.saved); })
      .def_prop_ro("steps", steps_of, nb::sig("def steps(self) -> list[tuple[str, str, str]]"),
                   "The match steps tried: (match level, verdict, the question that the "
                   "candidate answers).");
}

}  // namespace

void bind_answers(nb::module_& module) {
  bind_answer_types(module);
  nb::class_<SimilarityArgs>(module, "Similarity",
                             "How an AnswerCache finds answers to similar questions. An answer is "
                             "served once the evidence "
                             "shows, with\n"
                             "95 % confidence, that such matches are wrong in at most error_budget "
                             "of all cases. Evidence is "
                             "each\n"
                             "comparison with what generate() returns; some hundreds are needed.")
      .def(
          "__init__",
          [](SimilarityArgs* self, std::string_view mode, const nb::object& embed, std::string name,
             double threshold, double error_budget) {
            new (self) SimilarityArgs(
                similarity_of(mode, embed, std::move(name), threshold, error_budget));
          },
          nb::arg("mode") = "shadow", nb::kw_only(), nb::arg("embed") = nb::none(),
          nb::arg("name") = "", nb::arg("threshold") = 0.85, nb::arg("error_budget") = 0.01,
          nb::sig("def __init__(self, mode: str = 'shadow', *, embed: "
                  "collections.abc.Callable[[collections.abc.Sequence[str]], "
                  "collections.abc.Sequence[collections.abc.Sequence[float]]] | None = None, name: "
                  "str = '', threshold: float = 0.85, error_budget: float = 0.01) -> None"),
          "mode: \"shadow\" compares and learns and serves nothing; \"on\" serves.\n"
          "embed: texts to vectors, with name as its model and version; None: built in, knows no "
          "synonyms.\n"
          "threshold: minimum cosine of a neighbour.");
  nb::class_<PyAnswerCache>(
      module, "AnswerCache",
      "Answer once: a cache of answers, matched by exact, canonical or near-identical question "
      "text within\n"
      "one scope. With disk= or tier=, answers outlive the process; with servers, processes share "
      "them.\n"
      "\n"
      "Unit     Bytes of answers, questions and tags, under a hard budget.\n"
      "Erasing  Holds in the tier, too, for later processes and for those that share its servers: "
      "see erase().\n"
      "Errors   A failing disk or server costs hits only, except where erasing could not be "
      "recorded.\n"
      "         Servers that cannot be asked what was erased: nothing is served until they can.\n"
      "Threads  Any. The GIL is released while looking up and waiting.")
      .def(
          "__init__",
          [](PyAnswerCache* self, const nb::object& budget_bytes, std::string policy,
             std::uint64_t max_entries, std::optional<std::string> disk, std::uint64_t disk_bytes,
             const nb::object& tier, const nb::bytes& secret, double coalesce_timeout_seconds,
             const std::optional<SimilarityArgs>& similarity) {
            const AnswerStoreArgs args{
                .budget = budget_of(budget_bytes),
                .policy = std::move(policy),
                .max_entries = EntryCount(max_entries),
                .below = {.disk = std::move(disk),
                          .disk_bytes = disk_bytes,
                          .tier = tier.is_none() ? nullptr : tier_store_of(tier)},
                .secret = secret_of(secret),
                .coalesce_timeout =
                    checked_seconds(coalesce_timeout_seconds, "coalesce_timeout_seconds"),
                .similarity = similarity};
            new (self)
                PyAnswerCache(or_raise(without_gil([&] { return AnswerStore::open(args); })));
          },
          nb::arg("budget_bytes"), nb::kw_only(), nb::arg("policy") = "worth",
          nb::arg("max_entries") = 1'000'000, nb::arg("disk") = nb::none(),
          nb::arg("disk_bytes") = 1ULL << 30U, nb::arg("tier") = nb::none(),
          nb::arg("secret") = nb::bytes(Secret{}.data(), Secret{}.size()),
          nb::arg("coalesce_timeout_seconds") = 10.0, nb::arg("similarity") = nb::none(),
          nb::sig("def __init__(self, budget_bytes: int | SharedBudget, *, policy: str = 'worth', "
                  "max_entries: "
                  "int = 1000000, disk: str | None = None, disk_bytes: int = 1073741824, tier: "
                  "Tier | None = None, secret: bytes = ..., coalesce_timeout_seconds: float = "
                  "10.0, similarity: Similarity | None = None) -> None"),
          "disk: a folder, used by one process at a time, with disk_bytes as its hard cap. tier "
          "instead of\n"
          "disk: a DiskTier, a RemoteTier or a TierStack of one of each; encryption is the "
          "tier's. The tier\n"
          "may have entries of other caches, too. secret: 32 bytes, with servers the same in all "
          "processes\n"
          "that share answers; their erasures are shared, too. coalesce_timeout_seconds: with "
          "servers, "
          "how long\n"
          "get_or_answer waits for another process that is generating the same answer; 0: it does "
          "not.\n"
          "similarity: get_or_answer looks for similar questions, too; with a tier, what is learnt "
          "outlives\n"
          "the process.")
      .def("find", &PyAnswerCache::find, nb::arg("scope"), nb::arg("question"), nb::kw_only(),
           nb::arg("match_level") = "text:near", nb::arg("max_age_seconds") = nb::none(),
           "Looks up to the loosest match level match_level: text:exact, text:canonical or "
           "text:near.")
      .def("insert", &PyAnswerCache::insert, nb::arg("scope"), nb::arg("question"),
           nb::arg("answer"), nb::kw_only(), nb::arg("cost_seconds") = 0.0,
           nb::arg("ttl_seconds") = nb::none(), nb::arg("tags") = std::vector<std::string>(),
           "InvalidArgument: the answer is incomplete. NoSpace: it does not fit the budget.")
      .def("get_or_answer", &PyAnswerCache::get_or_answer, nb::arg("scope"), nb::arg("question"),
           nb::arg("generate"), nb::kw_only(), nb::arg("match_level") = "text:near",
           nb::arg("max_age_seconds") = nb::none(), nb::arg("ttl_seconds") = nb::none(),
           nb::arg("tags") = std::vector<std::string>(),
           nb::sig("def get_or_answer(self, scope: Scope, question: str, generate: "
                   "collections.abc.Callable[[], str | Answer], *, match_level: str = 'text:near', "
                   "max_age_seconds: float | None = None, ttl_seconds: float | None = None, tags: "
                   "collections.abc.Sequence[str] = []) -> AnswerLookup"),
           "The cached answer, or the one that another caller is generating, or that of "
           "generate().")
      .def(
          "report_wrong", &PyAnswerCache::report_wrong, nb::arg("scope"), nb::arg("question"),
          nb::kw_only(), nb::arg("match_level") = "text:near",
          "The answer to this question was wrong: erases it, or that of the similar question whose "
          "answer it gets.\n"
          "It counts as evidence, and its neighbours are served by their own evidence only. False: "
          "there is no such answer.")
      .def("erase", &PyAnswerCache::erase, nb::arg("scope"), nb::arg("question"),
           "Removes the answer to exactly this text. False: memory did not hold it.\n"
           "\n"
           "With a tier, also there: no later process finds it. With servers, no process serves "
           "it any more when\n"
           "the call returns, which takes 2.2 seconds.\n"
           "\n"
           "Unavailable: it could not be recorded; the message says what may still be served.")
      .def("erase_tag", &PyAnswerCache::erase_tag, nb::arg("tag"),
           "Removes all answers with this tag, like erase(); returns how many of them were in "
           "memory.")
      .def("erase_older_than", &PyAnswerCache::erase_older_than, nb::arg("seconds"),
           "Removes all answers that were stored more than so many seconds ago, like erase(); "
           "returns how many of\n"
           "them were in memory.")
      .def("clear", &PyAnswerCache::clear,
           "Removes all answers, like erase(); returns how many of them were in memory.")
      .def("flush", &PyAnswerCache::flush,
           "On return, every answer cached before is durable in the tier.")
      .def("close", &PyAnswerCache::close, "May be called twice.")
      .def_prop_ro("degraded_reason", &PyAnswerCache::degraded_reason,
                   "Why the tier is not used as it should be; empty: it is.")
      .def(
          "__enter__", [](nb::object self) { return self; },
          nb::sig("def __enter__(self) -> AnswerCache"))
      .def(
          "__exit__", [](PyAnswerCache& self, nb::handle, nb::handle, nb::handle) { self.close(); },
          nb::arg().none(), nb::arg().none(), nb::arg().none())
      .def("stats", &PyAnswerCache::stats, nb::sig("def stats(self) -> dict[str, int | float]"));
  module.def("eligibility", eligible, nb::arg("question"), nb::kw_only(),
             nb::arg("temperature") = nb::none(), nb::arg("seeded") = false, nb::arg("choices") = 1,
             nb::arg("log_probabilities") = false, nb::arg("offers_tools") = false,
             nb::arg("has_tool_results") = false,
             nb::sig("def eligibility(question: str, *, temperature: float | None = None, seeded: "
                     "bool = False, choices: int = 1, log_probabilities: bool = False, "
                     "offers_tools: bool = False, has_tool_results: bool = False) -> tuple[str, "
                     "str]"),
             "The loosest match level a request may be served from (nothing, exact, text, "
             "similarity), and why.");
}

}  // namespace afterimage::python
