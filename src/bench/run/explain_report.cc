// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/run/explain.h"
#include "caches/prefix/prefix_explanation.h"
#include "foundation/text/quantities.h"

namespace afterimage {
namespace {

using OrderedJson = nlohmann::ordered_json;

/// Request text on one line, with control characters replaced.
std::string on_one_line(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, ' ');
  return text;
}

void add_opening(std::string& out, const RequestExplanation& e) {
  out += fmt::format("{} is request {} of {}; ", on_one_line(e.id), e.place, e.of);
  out += e.place == 1 ? "no request was served before it.\n"
                      : fmt::format("the {} before it {} served first.\n",
                                    e.place == 2 ? "one" : std::to_string(e.place - 1),
                                    e.place == 2 ? "was" : "were");
  for (const FailedRequest& failed : e.failed) {
    out += fmt::format("{} failed and left nothing in the cache: {}\n", on_one_line(failed.id),
                       failed.error);
  }
  const auto percent = 100 * std::uint64_t{e.resumed_from.value()} /
                       std::max<std::uint64_t>(e.prefix.length.value(), 1);
  out += fmt::format("Of its {}, {} were reused ({} %) and {} computed.\n",
                     plural(e.prefix.length.value(), "prompt token"), e.resumed_from.value(),
                     percent, e.computed().value());
  out += fmt::format("The engine's resumed runs are {}: {}.\n",
                     e.exactness.exact ? "exact" : "not exact",
                     e.exactness.basis.empty() ? "it was not checked" : e.exactness.basis);
  if (e.restore_failed) {
    out += "The cached KV could not be restored, so the whole prompt was computed.\n";
  }
}

void add_words(std::string& out, const DivergenceQuote& quote, std::string_view other) {
  out += fmt::format("The prompts diverge {} message {} ({}):\n",
                     quote.whole_message ? "at the start of" : "in", quote.message,
                     to_string(quote.role));
  const auto line = [&](std::string_view who, const std::string& text, bool ends) {
    out +=
        fmt::format("  {:<{}}  {}\n", who, std::max<std::size_t>(other.size(), 12),
                    ends           ? "(the prompt ends)"
                    : text.empty() ? "(the message ends)"
                                   : on_one_line(text.substr(0, text.find_last_not_of(' ') + 1)));
  };
  if (!quote.before.empty()) line("both", quote.before, false);
  line("this request", quote.asked, quote.asked_ends);
  line(other, quote.cached, quote.cached_ends);
}

void add_shared(std::string& out, const RequestExplanation& e) {
  out += "\nClosest earlier prompt\n\n";
  if (!e.closest.has_value()) {
    out += "Nothing was cached yet: it is the first request";
    out += e.tenant.empty()
               ? ".\n"
               : fmt::format(" of tenant {}, and tenants share nothing.\n", on_one_line(e.tenant));
    return;
  }
  const ClosestRequest& closest = *e.closest;
  const std::string other = on_one_line(closest.id);
  if (!closest.quote.has_value()) {
    out += fmt::format("Its whole prompt is the same as that of {}.\n", other);
  } else {
    out += fmt::format("Its first {} are those of {}, {}.\n",
                       plural(closest.shared.value(), "token"), other,
                       closest.shared == closest.length
                           ? "all of that prompt"
                           : fmt::format("whose prompt has {}", closest.length.value()));
    add_words(out, *closest.quote, other);
  }
  if (e.prefix.matched < closest.shared) {
    out += fmt::format("Of those tokens only the first {} are still cached.\n",
                       e.prefix.matched.value());
  }
}

std::string name_of(const LayerGroup& group) {
  std::string kind(to_string(group.kind));
  if (group.kind == KvKind::kSliding) return fmt::format("{}({})", kind, group.window.value());
  if (group.kind == KvKind::kShared) return fmt::format("{}({})", kind, group.owner);
  return kind;
}

/// What a layer group needs to resume, and why it cannot resume later.
std::string limit_reason(const GroupVerdict& verdict, const LayerGroup& group,
                         const KvLayout& layout) {
  switch (verdict.limit) {
    case ResumeLimit::kPromptEnd:
      return "the last token is always computed: its logits choose the answer's first token";
    case ResumeLimit::kMatched:
      return "the following tokens are not cached";
    case ResumeLimit::kMediaSpan:
      return "a later point would be inside a media item that cannot be split";
    case ResumeLimit::kAlignment:
      return fmt::format("the engine resumes only at multiples of {}", layout.alignment.value());
    case ResumeLimit::kCovered:
    case ResumeLimit::kWindow:
    case ResumeLimit::kState:
      break;
  }
  const std::string_view until =
      verdict.alone.value() > 0 ? "cached here but not later" : "not cached anywhere yet";
  switch (group.kind) {
    case KvKind::kFull:
      return "needs all preceding tokens: no more are cached";
    case KvKind::kSliding:
      return fmt::format("needs the {} preceding tokens: {}", group.window.value(), until);
    case KvKind::kRecurrent:
      return fmt::format("needs its state at exactly that token: {}", until);
    case KvKind::kShared:
      return fmt::format("uses the KV of group {}", group.owner);
  }
  return "unknown";
}

/// The layer kinds with the earliest resume point: "sliding and recurrent".
std::string limiting_kinds(const PrefixExplanation& prefix) {
  const auto least = std::ranges::min_element(prefix.point.groups, {}, &GroupVerdict::alone)->alone;
  std::vector<std::string> kinds;
  for (std::size_t g = 0; g < prefix.point.groups.size(); ++g) {
    const std::string kind(to_string(prefix.kinds[g]));
    if (prefix.point.groups[g].alone != least || prefix.kinds[g] == KvKind::kShared) continue;
    if (std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(kind);
  }
  return fmt::format("{}", fmt::join(kinds, " and "));
}

void add_groups(std::string& out, const RequestExplanation& e) {
  out += fmt::format("\n{:<8}{:<14}{:>8}{:>18}   {}\n", "group", "kind", "layers",
                     "could resume at", "because");
  for (std::size_t g = 0; g < e.prefix.point.groups.size(); ++g) {
    const LayerGroup& group = e.layout.groups[g];
    const GroupVerdict& verdict = e.prefix.point.groups[g];
    out += fmt::format("{:<8}{:<14}{:>8}{:>18}   {}\n", g, name_of(group), group.layers,
                       verdict.alone.value(), limit_reason(verdict, group, e.layout));
  }
}

void add_resume(std::string& out, const RequestExplanation& e) {
  const ResumePoint& point = e.prefix.point;
  if (point.groups.empty()) return;  // nothing is cached in its namespace
  const std::uint32_t at = point.length.value();
  out += fmt::format("\nWhy it resumes at token {}", at);
  out += at < e.prefix.matched.value() && point.with_snapshot.has_value()
             ? fmt::format(" and not at {}\n\n", point.with_snapshot->value())
             : "\n\n";
  const bool groups_decide = point.limit == ResumeLimit::kCovered ||
                             point.limit == ResumeLimit::kWindow ||
                             point.limit == ResumeLimit::kState;
  out += "Each kind of layer caches other state, and all of them must resume at the same token.\n";
  out += fmt::format("Here {} (reason: {}):\n",
                     groups_decide ? "the " + limiting_kinds(e.prefix) + " layers set the limit"
                                   : "no layer sets the limit",
                     to_string(point.limit));
  add_groups(out, e);
  out += "\n";
  if (point.with_snapshot.has_value()) {
    out += fmt::format(
        "With a snapshot (window rows and states) at {}, it would have resumed there: {} "
        "more.\n",
        point.with_snapshot->value(),
        plural((*point.with_snapshot - point.length).value(), "token"));
    out +=
        "A request saves snapshots where it diverges from cached prompts, so that the next one "
        "resumes there,\nafter media, and one token before its end.\n";
  }
  if (e.evictions > 0) {
    out += fmt::format("The budget of {} is too small: {} of KV had been evicted (see --budget).\n",
                       readable(e.budget), plural(e.evictions, "piece"));
  }
}

std::string media_outcome(const ExplainedMedia& item) {
  switch (item.source) {
    case MediaSource::kCovered:
      return "lies in the reused prefix: needs no encoder";
    case MediaSource::kReused:
      if (item.first_asked_by.empty()) return "all of its parts reused from other items";
      return "encoder output reused; first encoded for " + on_one_line(item.first_asked_by);
    case MediaSource::kRepeated:
      return "also occurs earlier in this request: one output serves both";
    case MediaSource::kAwaited:
      return "another request was encoding it";
    case MediaSource::kEncoded:
      return item.first_asked_by.empty() ? "encoded: first occurrence"
                                         : "encoded again: " + on_one_line(item.first_asked_by) +
                                               " had it encoded, but the output was evicted";
    case MediaSource::kUncached:
      return "encoded and not cached: it does not fit the budget";
    case MediaSource::kLoaded:
      return "encoder output loaded from a lower tier";
    case MediaSource::kDeclined:
      return "encoded again: loading its output from a lower tier would take longer";
    case MediaSource::kPartly:
      return "some of its parts were encoded, the others reused";
  }
  return "unknown";
}

void add_media(std::string& out, const RequestExplanation& e) {
  if (e.media.empty()) return;
  out += "\nMedia\n\n";
  std::size_t widest = 0;
  for (const ExplainedMedia& item : e.media) {
    widest = std::max(widest, short_name(item.name).size());
  }
  for (const ExplainedMedia& item : e.media) {
    out += fmt::format("{:<6} {:<{}}  tokens {:>5} to {:<5}  {}\n", to_string(item.modality),
                       on_one_line(short_name(item.name)), widest, item.offset.value(),
                       (item.offset + item.length).value() - 1, media_outcome(item));
  }
}

OrderedJson closest_json(const ClosestRequest& closest) {
  OrderedJson json = {{"id", closest.id},
                      {"shared_tokens", closest.shared.value()},
                      {"prompt_tokens", closest.length.value()}};
  if (!closest.quote.has_value()) return json;
  const DivergenceQuote& quote = *closest.quote;
  const auto text = [](const std::string& said, bool ends) {
    return ends ? OrderedJson() : OrderedJson(said);
  };
  json["parts"] = {{"message", quote.message},
                   {"role", to_string(quote.role)},
                   {"both", quote.before},
                   {"this", text(quote.asked, quote.asked_ends)},
                   {"other", text(quote.cached, quote.cached_ends)}};
  return json;
}

OrderedJson groups_json(const RequestExplanation& e) {
  OrderedJson groups = OrderedJson::array();
  for (std::size_t g = 0; g < e.prefix.point.groups.size(); ++g) {
    groups.push_back({{"kind", name_of(e.layout.groups[g])},
                      {"layers", e.layout.groups[g].layers},
                      {"could_resume_at", e.prefix.point.groups[g].alone.value()},
                      {"limit", to_string(e.prefix.point.groups[g].limit)}});
  }
  return groups;
}

OrderedJson media_json(const RequestExplanation& e) {
  OrderedJson media = OrderedJson::array();
  for (const ExplainedMedia& item : e.media) {
    media.push_back({{"name", item.name},
                     {"modality", to_string(item.modality)},
                     {"offset", item.offset.value()},
                     {"length", item.length.value()},
                     {"source", to_string(item.source)},
                     {"first_asked_by", item.first_asked_by}});
  }
  return media;
}

}  // namespace

std::string short_name(const std::string& name) {
  constexpr std::size_t kLongest = 48;
  return name.size() > kLongest && name.starts_with("data:") ? name.substr(0, kLongest) + "…"
                                                             : name;
}

std::string to_text(const RequestExplanation& explanation) {
  std::string out;
  add_opening(out, explanation);
  add_shared(out, explanation);
  add_resume(out, explanation);
  add_media(out, explanation);
  return out;
}

std::string to_json(const RequestExplanation& e) {
  OrderedJson failed = OrderedJson::array();
  for (const FailedRequest& f : e.failed) failed.push_back({{"id", f.id}, {"error", f.error}});
  const bool in_namespace = !e.prefix.point.groups.empty();
  const OrderedJson json = {
      {"id", e.id},
      {"request", e.place},
      {"of", e.of},
      {"prompt_tokens", e.prefix.length.value()},
      {"resumed_from", e.resumed_from.value()},
      {"computed", e.computed().value()},
      {"exact", e.exactness.exact},
      {"exactness", e.exactness.basis},
      {"restore_failed", e.restore_failed},
      {"matched", e.prefix.matched.value()},
      {"divergence", to_string(e.prefix.divergence)},
      {"limit", in_namespace ? OrderedJson(to_string(e.prefix.point.limit)) : OrderedJson()},
      {"with_snapshot", e.prefix.point.with_snapshot
                            ? OrderedJson(e.prefix.point.with_snapshot->value())
                            : OrderedJson()},
      {"groups", groups_json(e)},
      {"closest", e.closest ? closest_json(*e.closest) : OrderedJson()},
      {"media", media_json(e)},
      {"evictions", e.evictions},
      {"failed_before", std::move(failed)}};
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace afterimage
