// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "afterimage/answer_once.h"
#include "afterimage/clock.h"
#include "afterimage/eviction_policy.h"
#include "afterimage/question.h"
#include "bindings.h"

namespace afterimage::python {

namespace {

struct AnswerStore {
  explicit AnswerStore(Bytes capacity) : budget(capacity) {}

  SystemClock clock;
  MemoryBudget budget;
  std::unique_ptr<AnswerCache> cache;
  std::unique_ptr<AnswerOnce> front;
};

MatchLevel rung_named(std::string_view name) {
  for (const MatchLevel rung : kMatchLevels) {
    if (to_string(rung) == name) return rung;
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
    steps.append(nb::make_tuple(to_string(step.rung), to_string(step.verdict), step.candidate));
  }
  return steps;
}

class PyAnswerCache {
 public:
  PyAnswerCache(std::uint64_t budget, const std::string& policy, std::uint64_t max_entries) {
    auto store = std::make_shared<AnswerStore>(Bytes(budget));
    store->cache = or_raise(AnswerCache::create(
        {.max_entries = EntryCount(max_entries), .policy = or_raise(make_policy(policy))},
        store->budget, store->clock));
    store->front = std::make_unique<AnswerOnce>(*store->cache, store->clock);
    store_ = std::move(store);
  }

  AnswerLookup find(const ScopeId& scope, std::string question, std::string_view max_match,
                    std::optional<double> max_age_seconds) {
    Question scoped(scope, std::move(question));
    const LookupRules rules = rules_of(max_match, max_age_seconds);
    return without_gil([&] { return store_->cache->find(scoped, rules); });
  }

  void insert(const ScopeId& scope, std::string question, const Answer& answer, double cost_seconds,
              std::optional<double> ttl_seconds, std::vector<std::string> tags) {
    Question scoped(scope, std::move(question));
    const AnswerFacts facts = facts_of(cost_seconds, ttl_seconds, std::move(tags));
    or_raise(without_gil([&] { return store_->cache->insert(scoped, answer, facts); }));
  }

  AnswerLookup get_or_answer(const ScopeId& scope, std::string question,
                             const nb::callable& generate, std::string_view max_match,
                             std::optional<double> max_age_seconds,
                             std::optional<double> ttl_seconds, std::vector<std::string> tags) {
    Question scoped(scope, std::move(question));
    const LookupRules rules = rules_of(max_match, max_age_seconds);
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
    auto found = without_gil([&] { return store_->front->get_or_answer(scoped, rules, ask); });
    if (raised != nullptr) std::rethrow_exception(raised);
    return or_raise(std::move(found));
  }

  bool erase(const ScopeId& scope, std::string question) {
    Question scoped(scope, std::move(question));
    return without_gil([&] { return store_->cache->erase(scoped); });
  }

  std::uint64_t erase_tag(std::string tag) {
    if (tag.empty()) raise(ErrorCode::kInvalidArgument, "expected a tag, got an empty one");
    return without_gil([&] { return store_->cache->erase({.tag = std::move(tag)}); })
        .entries.value();
  }

  [[nodiscard]] nb::dict stats() const {
    const AnswerCacheStats cache = store_->cache->stats();
    nb::dict stats;
    for (const MatchLevel rung : kMatchLevels) {
      const RungStats& of = cache.rungs[static_cast<std::size_t>(rung)];
      const std::string name(to_string(rung));
      stats[(name + " served").c_str()] = of.served;
      stats[(name + " missed").c_str()] = of.missed;
    }
    stats["insertions"] = cache.insertions;
    stats["evictions"] = cache.evictions;
    stats["expired"] = cache.expired;
    stats["asked"] = store_->front->stats().led;
    stats["joined"] = store_->front->stats().joined;
    stats["seconds_saved"] = seconds(cache.answer_time_saved);
    return stats;
  }

 private:
  static LookupRules rules_of(std::string_view max_match, std::optional<double> max_age_seconds) {
    LookupRules rules{.serve = rung_named(max_match)};
    if (max_age_seconds.has_value()) rules.max_age = seconds(*max_age_seconds);
    return rules;
  }
  static AnswerFacts facts_of(double cost_seconds, std::optional<double> ttl_seconds,
                              std::vector<std::string> tags) {
    AnswerFacts facts{.cost = seconds(cost_seconds), .tags = std::move(tags)};
    if (ttl_seconds.has_value()) facts.ttl = seconds(*ttl_seconds);
    return facts;
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
      .def_prop_ro("seconds_saved", [](const AnswerLookup& self) { return seconds(self.saved); })
      .def_prop_ro("steps", steps_of, nb::sig("def steps(self) -> list[tuple[str, str, str]]"),
                   "The match steps tried: (match level, verdict, the question that the "
                   "candidate answers).");
}

}  // namespace

void bind_answers(nb::module_& module) {
  bind_answer_types(module);
  nb::class_<PyAnswerCache>(
      module, "AnswerCache",
      "Answer once: a cache of answers, matched by exact, canonical or near-identical question "
      "text within\n"
      "one scope.\n"
      "\n"
      "Unit     Bytes of answers, questions and tags, under a hard budget.\n"
      "Threads  Any. The GIL is released while looking up and waiting.")
      .def(nb::init<std::uint64_t, const std::string&, std::uint64_t>(), nb::arg("budget_bytes"),
           nb::kw_only(), nb::arg("policy") = "worth", nb::arg("max_entries") = 1'000'000)
      .def("find", &PyAnswerCache::find, nb::arg("scope"), nb::arg("question"), nb::kw_only(),
           nb::arg("max_match") = "text:near", nb::arg("max_age_seconds") = nb::none(),
           "Looks up to the loosest match level max_match: text:exact, text:canonical or "
           "text:near.")
      .def("insert", &PyAnswerCache::insert, nb::arg("scope"), nb::arg("question"),
           nb::arg("answer"), nb::kw_only(), nb::arg("cost_seconds") = 0.0,
           nb::arg("ttl_seconds") = nb::none(), nb::arg("tags") = std::vector<std::string>(),
           "InvalidArgument: the answer is incomplete. NoSpace: it does not fit the budget.")
      .def("get_or_answer", &PyAnswerCache::get_or_answer, nb::arg("scope"), nb::arg("question"),
           nb::arg("generate"), nb::kw_only(), nb::arg("max_match") = "text:near",
           nb::arg("max_age_seconds") = nb::none(), nb::arg("ttl_seconds") = nb::none(),
           nb::arg("tags") = std::vector<std::string>(),
           nb::sig("def get_or_answer(self, scope: Scope, question: str, generate: "
                   "collections.abc.Callable[[], str | Answer], *, max_match: str = 'text:near', "
                   "max_age_seconds: float | None = None, ttl_seconds: float | None = None, tags: "
                   "collections.abc.Sequence[str] = []) -> AnswerLookup"),
           "The cached answer, or the one that another caller is generating, or that of "
           "generate().")
      .def("erase", &PyAnswerCache::erase, nb::arg("scope"), nb::arg("question"),
           "False: no answer to exactly this text is cached.")
      .def("erase_tag", &PyAnswerCache::erase_tag, nb::arg("tag"),
           "Removes all answers with this tag; returns how many.")
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
