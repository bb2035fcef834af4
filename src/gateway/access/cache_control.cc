// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/access/cache_control.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>

#include "caches/identity/fields.h"
#include "foundation/crypto/sha256.h"
#include "foundation/text/ascii.h"
#include "gateway/config/settings.h"

namespace afterimage {
namespace {

using std::chrono::seconds;

// RFC 9111 1.2.2: larger values are clamped to this.
constexpr std::int64_t kMaxSeconds = 1LL << 31U;
constexpr std::size_t kMaxNameLength = 128;  // of a namespace or a tag
constexpr std::size_t kMaxTags = 32;

std::unexpected<Error> invalid_header(std::string_view header, std::string_view value,
                                      std::string_view expected) {
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{}: '{}' is not {}", header, value.substr(0, kMaxNameLength), expected));
}

/// Removes and returns the next item of a list without quoted strings.
std::string_view take_item(std::string_view& list) {
  const std::size_t comma = std::min(list.find(','), list.size());
  const std::string_view item = ascii::trimmed(list.substr(0, comma));
  list.remove_prefix(std::min(comma + 1, list.size()));
  return item;
}

template <typename Value>
void lower_to(std::optional<Value>& current, Value value) {
  current = current.has_value() ? std::min(*current, value) : value;
}
template <typename Value>
void raise_to(std::optional<Value>& current, Value value) {
  current = current.has_value() ? std::max(*current, value) : value;
}

/// delta-seconds of RFC 9111 1.2.2; nullopt: not that.
std::optional<Duration> parse_seconds(std::string_view text) {
  if (text.empty() || !std::ranges::all_of(text, ascii::is_digit)) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) value = kMaxSeconds;
  return seconds(std::min(value, kMaxSeconds));
}

/// Go's duration syntax ("30s", "5m", "2h30m", "1.5h", "300ms"), or whole seconds.
std::optional<Duration> parse_go_duration(std::string_view text) {
  if (const auto plain = parse_seconds(text); plain.has_value()) return plain;
  constexpr std::array<std::pair<std::string_view, double>, 6> kUnits{
      {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1.0}, {"m", 60.0}, {"h", 3600.0}}};
  double total = 0;
  while (!text.empty()) {
    const std::string_view digits = text.substr(0, text.find_first_not_of("0123456789."));
    double number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number,
                                              std::chars_format::fixed);
    if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
    text.remove_prefix(digits.size());
    const std::size_t letters = std::min(text.find_first_of("0123456789."), text.size());
    const auto unit =
        std::ranges::find(kUnits, text.substr(0, letters), [](const auto& u) { return u.first; });
    if (unit == kUnits.end()) return std::nullopt;
    total += number * unit->second;
    text.remove_prefix(letters);
  }
  if (!(total <= static_cast<double>(kMaxSeconds))) return seconds(kMaxSeconds);
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(total));
}

bool is_true(std::string_view value) { return ascii::lowered(value) == "true"; }
bool is_false(std::string_view value) { return ascii::lowered(value) == "false"; }

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxNameLength && std::ranges::all_of(text, [](char c) {
    return ascii::is_letter(c) || ascii::is_digit(c) || std::string_view("._-:/@+=").contains(c);
  });
}

/// Everything that headers and body say, before precedence is resolved.
struct ParsedDirectives {
  CacheDirectives directives;  // restrictions, and choices of X-Afterimage-* headers
  bool has_cache_control = false;
  bool pragma_no_cache = false;
  std::optional<std::string> name_space;  // X-Afterimage-Namespace
  std::optional<Duration> other_ttl;      // from other gateways' headers
  std::vector<std::string> other_name_spaces;
};

// Cache-Control, RFC 9111 5.2: token [ "=" ( token / quoted-string ) ], separated by commas.

bool is_token_char(char c) {
  return ascii::is_letter(c) || ascii::is_digit(c) ||
         std::string_view("!#$%&'*+-.^_`|~").contains(c);
}

struct Directive {
  std::string name;                     // in lower case
  std::optional<std::string> argument;  // without quotes
};

/// Removes and returns the next directive. nullopt: malformed; the list then continues at the next
/// comma that is not inside quotes.
std::optional<Directive> take_directive(std::string_view& list) {
  std::size_t at = 0;
  const auto rest_is_broken = [&] {
    list.remove_prefix(std::min(list.find(',', at), list.size()));
    return std::nullopt;
  };
  while (at < list.size() && is_token_char(list[at])) ++at;
  Directive directive{.name = ascii::lowered(list.substr(0, at)), .argument = std::nullopt};
  if (directive.name.empty()) return rest_is_broken();
  if (at < list.size() && list[at] == '=') {
    ++at;
    std::string& argument = directive.argument.emplace();
    if (at < list.size() && list[at] == '"') {
      for (++at; at < list.size() && list[at] != '"'; ++at) {
        if (list[at] == '\\' && at + 1 < list.size()) ++at;
        argument += list[at];
      }
      if (at == list.size()) {  // unterminated quote: the rest cannot be interpreted
        list = {};
        return std::nullopt;
      }
      ++at;
    } else {
      while (at < list.size() && is_token_char(list[at])) argument += list[at++];
    }
  }
  const std::string_view after = ascii::trimmed(list.substr(at, list.find(',', at) - at));
  if (!after.empty()) return rest_is_broken();
  list.remove_prefix(std::min(list.find(',', at), list.size()));
  return directive;
}

void apply_directive(const Directive& directive, CacheDirectives& directives) {
  const std::string& name = directive.name;
  if (name == "no-store") {
    directives.no_store = true;
  } else if (name == "no-cache") {
    directives.no_cache = true;
  } else if (name == "only-if-cached") {
    directives.only_if_cached = true;
  } else if (name == "max-age" || name == "s-maxage") {
    // s-maxage is defined for responses only; clients that send it mean the age of a cached answer.
    lower_to(directives.max_age,
             parse_seconds(directive.argument.value_or("")).value_or(seconds(0)));
  } else if (name == "min-fresh") {
    const auto fresh = parse_seconds(directive.argument.value_or(""));
    if (fresh.has_value()) raise_to(directives.min_fresh, *fresh);
    directives.no_cache = directives.no_cache || !fresh.has_value();
  }
}

void read_cache_control(std::string_view list, CacheDirectives& directives) {
  while (true) {
    list.remove_prefix(std::min(list.find_first_not_of(" \t,"), list.size()));
    if (list.empty()) return;
    const auto directive = take_directive(list);
    if (directive.has_value()) {
      apply_directive(*directive, directives);
    } else {  // it may have been any restriction
      directives.no_store = true;
      directives.no_cache = true;
    }
  }
}

void read_pragma(std::string_view list, bool& no_cache) {
  while (!list.empty()) {
    // Take the item before the short-circuit test, or the loop would not advance.
    const std::string_view item = take_item(list);
    no_cache = no_cache || ascii::lowered(item) == "no-cache";
  }
}

// X-Afterimage-* headers: an invalid value is an error.

constexpr std::string_view kCacheHeader = "X-Afterimage-Cache";
constexpr std::string_view kTtlHeader = "X-Afterimage-TTL";
constexpr std::string_view kNamespaceHeader = "X-Afterimage-Namespace";
constexpr std::string_view kTagsHeader = "X-Afterimage-Tags";
constexpr std::string_view kAgentHeader = "X-Afterimage-Agent";
constexpr std::string_view kDrawHeader = "X-Afterimage-Draw";
constexpr std::string_view kNotStoredHeader = "X-Afterimage-Not-Stored";
constexpr std::string_view kSampledHeader = "X-Afterimage-Sampled";
constexpr std::string_view kConversationHeader = "X-Afterimage-Conversation";

constexpr std::string_view kWorkflowHeader = "X-Afterimage-Workflow";
constexpr std::string_view kStepHeader = "X-Afterimage-Step";
constexpr std::string_view kNextStepsHeader = "X-Afterimage-Next-Steps";
constexpr std::size_t kMaxNextSteps = 4;

Result<void> read_match_level(std::string_view list, ParsedDirectives& parsed) {
  constexpr std::string_view kExpected = "off, exact, canonical or near";
  if (list.empty()) return invalid_header(kCacheHeader, list, kExpected);
  while (!list.empty()) {
    const std::string_view item = take_item(list);
    if (item.empty()) continue;
    if (item == "off") {
      parsed.directives.off = true;
      continue;
    }
    const auto level = std::ranges::find_if(kMatchLevels, [item](MatchLevel known) {
      const std::string_view full = to_string(known);
      return item == full || item == full.substr(full.find(':') + 1);
    });
    if (level == kMatchLevels.end()) {
      return invalid_header(kCacheHeader, item, kExpected);
    }
    lower_to(parsed.directives.ceiling, *level);
  }
  return {};
}

Result<void> read_ttl(std::string_view value, ParsedDirectives& parsed) {
  const auto ttl = parse_seconds(value);
  if (!ttl.has_value()) return invalid_header(kTtlHeader, value, "a whole number of seconds");
  lower_to(parsed.directives.ttl, *ttl);
  return {};
}

Result<void> read_name_space(std::string_view value, ParsedDirectives& parsed) {
  if (!is_name(value)) {
    return invalid_header(kNamespaceHeader, value,
                          "1 to 128 letters, digits and characters of ._-:/@+=");
  }
  if (parsed.name_space.has_value() && *parsed.name_space != value) {
    return invalid_header(kNamespaceHeader, value, "the only namespace of this request: send one");
  }
  parsed.name_space = value;
  return {};
}

Result<void> read_tags(std::string_view list, ParsedDirectives& parsed) {
  std::vector<std::string>& tags = parsed.directives.tags;
  while (!list.empty()) {
    const std::string_view tag = take_item(list);
    if (tag.empty() || std::ranges::count(tags, tag) != 0) continue;
    const bool visible = std::ranges::all_of(tag, [](char c) { return c > ' ' && c < 0x7F; });
    if (!visible || tag.size() > kMaxNameLength || tags.size() == kMaxTags) {
      return invalid_header(kTagsHeader, tag,
                            "one of at most 32 names of 1 to 128 visible ASCII characters, "
                            "separated by commas");
    }
    tags.emplace_back(tag);
  }
  return {};
}

Result<void> read_sampled(std::string_view value, ParsedDirectives& parsed) {
  std::string& sampled = parsed.directives.sampled;
  if (value != kPerRequester && value != kReplay && value != kSampledOff) {
    return invalid_header(kSampledHeader, value, "per-requester, replay or off");
  }
  if (!sampled.empty() && sampled != value) {
    return invalid_header(kSampledHeader, value, "the only one of this request: send one");
  }
  sampled = value;
  return {};
}

Result<void> read_hint(std::string_view header, std::string_view value, std::string& hint) {
  if (!is_name(value)) {
    return invalid_header(header, value, "1 to 128 letters, digits and characters of ._-:/@+=");
  }
  hint = value;
  return {};
}

Result<void> read_agent(std::string_view value, ParsedDirectives& parsed) {
  return read_hint(kAgentHeader, value, parsed.directives.hints.agent);
}

Result<void> read_workflow(std::string_view value, ParsedDirectives& parsed) {
  return read_hint(kWorkflowHeader, value, parsed.directives.hints.workflow.workflow);
}

Result<void> read_step(std::string_view value, ParsedDirectives& parsed) {
  return read_hint(kStepHeader, value, parsed.directives.hints.workflow.step);
}

Result<void> read_next_steps(std::string_view list, ParsedDirectives& parsed) {
  std::vector<std::string>& steps = parsed.directives.hints.workflow.next_steps;
  while (!list.empty()) {
    const std::string_view step = take_item(list);
    if (step.empty() || std::ranges::count(steps, step) != 0) continue;
    if (!is_name(step) || steps.size() == kMaxNextSteps) {
      return invalid_header(kNextStepsHeader, step,
                            "one of at most 4 names of 1 to 128 letters, digits and characters of "
                            "._-:/@+=, separated by commas");
    }
    steps.emplace_back(step);
  }
  return {};
}

Result<void> read_conversation(std::string_view value, ParsedDirectives& parsed) {
  for (const ContinuationHint hint : {ContinuationHint::kGoesOn, ContinuationHint::kEnds}) {
    if (value != to_string(hint)) continue;
    parsed.directives.hints.conversation = hint;
    return {};
  }
  return invalid_header(kConversationHeader, value, "goes_on or ends");
}

// Headers of other gateways. Each can only restrict caching, and an invalid value restricts the
// most.

void read_enabled(std::string_view value, ParsedDirectives& parsed) {
  if (!is_true(value)) parsed.directives.off = true;
}

void read_refresh(std::string_view value, ParsedDirectives& parsed) {
  if (!is_false(value)) parsed.directives.no_cache = true;
}

void read_skip(std::string_view value, ParsedDirectives& parsed) {
  if (!is_false(value)) parsed.directives.off = true;
}

void read_no_store(std::string_view value, ParsedDirectives& parsed) {
  if (!is_false(value)) parsed.directives.no_store = true;
}

void read_other_ttl(std::string_view value, ParsedDirectives& parsed) {
  lower_to(parsed.other_ttl, parse_go_duration(value).value_or(seconds(0)));
}

void read_other_name_space(std::string_view value, ParsedDirectives& parsed) {
  if (!value.empty() && std::ranges::count(parsed.other_name_spaces, value) == 0) {
    parsed.other_name_spaces.emplace_back(value);
  }
}

/// How many different answers to store per question. This cache stores one, so a client that asks
/// for more gets fresh answers.
void read_bucket_size(std::string_view value, ParsedDirectives& parsed) {
  if (value != "1") parsed.directives.off = true;
}

/// "direct" means exact matches only, "semantic" whatever the operator allows.
void read_similarity(std::string_view value, ParsedDirectives& parsed) {
  if (ascii::lowered(value) != "semantic") lower_to(parsed.directives.ceiling, MatchLevel::kExact);
}

struct OwnHeader {
  std::string_view name;
  Result<void> (*read)(std::string_view value, ParsedDirectives& parsed);
};
constexpr std::array kOwnHeaders{
    OwnHeader{kCacheHeader, read_match_level},    OwnHeader{kTtlHeader, read_ttl},
    OwnHeader{kNamespaceHeader, read_name_space}, OwnHeader{kTagsHeader, read_tags},
    OwnHeader{kAgentHeader, read_agent},          OwnHeader{kConversationHeader, read_conversation},
    OwnHeader{kWorkflowHeader, read_workflow},    OwnHeader{kStepHeader, read_step},
    OwnHeader{kNextStepsHeader, read_next_steps}, OwnHeader{kSampledHeader, read_sampled},
};

struct Alias {
  std::string_view name;
  void (*read)(std::string_view value, ParsedDirectives& parsed);
};
constexpr std::array kAliases{
    Alias{"X-OpenRouter-Cache", read_enabled},
    Alias{"X-OpenRouter-Cache-TTL", read_other_ttl},
    Alias{"X-OpenRouter-Cache-Clear", read_refresh},
    Alias{"Helicone-Cache-Enabled", read_enabled},
    Alias{"Helicone-Cache-Seed", read_other_name_space},
    Alias{"Helicone-Cache-Bucket-Max-Size", read_bucket_size},
    Alias{"x-portkey-cache-force-refresh", read_refresh},
    Alias{"x-portkey-cache-namespace", read_other_name_space},
    Alias{"x-bf-cache-key", read_other_name_space},
    Alias{"x-bf-cache-ttl", read_other_ttl},
    Alias{"x-bf-cache-type", read_similarity},
    Alias{"x-bf-cache-no-store", read_no_store},
    Alias{"cf-aig-skip-cache", read_skip},
    Alias{"cf-skip-cache", read_skip},
    Alias{"cf-aig-cache-ttl", read_other_ttl},
    Alias{"cf-cache-ttl", read_other_ttl},
};

/// Most headers of a request are none of those above: each of them begins with one of these.
constexpr auto kStarts = std::to_array<std::string_view>({"x-", "ca", "pr", "he", "cf"});
constexpr bool may_direct(std::string_view name) {
  const auto lower = [](char c) {
    return ascii::is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
  };
  return std::ranges::any_of(kStarts, [&](std::string_view start) {
    return std::ranges::equal(name.substr(0, start.size()), start, {}, lower);
  });
}
static_assert(may_direct("Cache-Control") && may_direct("Pragma"));
static_assert(std::ranges::all_of(kOwnHeaders, may_direct, &OwnHeader::name));
static_assert(std::ranges::all_of(kAliases, may_direct, &Alias::name));

/// same_header() with a fast path: header names mostly differ in length.
bool is_header(std::string_view name, std::string_view known) {
  return name.size() == known.size() && same_header(name, known);
}

Result<void> read_header(std::string_view name, std::string_view value, ParsedDirectives& parsed) {
  if (is_header(name, "Cache-Control")) {
    parsed.has_cache_control = true;
    read_cache_control(value, parsed.directives);
    return {};
  }
  if (is_header(name, "Pragma")) {
    read_pragma(value, parsed.pragma_no_cache);
    return {};
  }
  for (const OwnHeader& own : kOwnHeaders) {
    if (is_header(name, own.name)) return own.read(value, parsed);
  }
  for (const Alias& alias : kAliases) {
    if (is_header(name, alias.name)) {
      alias.read(value, parsed);
      return {};
    }
  }
  return {};
}

/// A JSON number of seconds. Negative values and NaN count as 0, the strictest value.
Duration to_duration(double value) {
  if (!(value > 0)) return seconds(0);
  if (value >= static_cast<double>(kMaxSeconds)) return seconds(kMaxSeconds);
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value));
}

/// A namespace of other gateways may be any text. One that is not a valid name here is replaced by
/// its digest, and so are several at once, so that different texts stay different namespaces.
std::string namespace_name(std::span<const std::string> texts) {
  if (texts.size() == 1 && is_name(texts.front())) return texts.front();
  FieldWriter fields("afterimage.namespace.1");
  for (const std::string& text : texts) fields.text("", text);
  std::string name = "sha256:";
  for (const std::byte byte : sha256(fields.message())) {
    fmt::format_to(std::back_inserter(name), "{:02x}", std::to_integer<unsigned>(byte));
  }
  return name;
}

void apply_precedence(ParsedDirectives& parsed, const std::optional<ApiCacheDirectives>& body) {
  CacheDirectives& directives = parsed.directives;
  // RFC 9111 5.4: Cache-Control overrides Pragma.
  if (parsed.pragma_no_cache && !parsed.has_cache_control) directives.no_cache = true;
  if (!directives.ttl.has_value()) directives.ttl = parsed.other_ttl;
  if (body.has_value()) {
    directives.no_cache = directives.no_cache || body->no_cache;
    directives.no_store = directives.no_store || body->no_store;
    if (body->max_age_s.has_value()) lower_to(directives.max_age, to_duration(*body->max_age_s));
    if (!directives.ttl.has_value() && body->ttl_s.has_value())
      directives.ttl = to_duration(*body->ttl_s);
    if (parsed.other_name_spaces.empty()) read_other_name_space(body->name_space, parsed);
  }
  if (directives.ttl == seconds(0)) directives.no_store = true;
  if (parsed.name_space.has_value()) {
    directives.name_space = *std::move(parsed.name_space);
  } else if (!parsed.other_name_spaces.empty()) {
    directives.name_space = namespace_name(parsed.other_name_spaces);
  }
}

// Cache-Status: a structured field list (RFC 8941); this cache adds one member.

/// As an sf-token if possible, else as an sf-string with other bytes replaced by '?'.
void append_detail(std::string_view text, std::string& out) {
  const auto in_token = [](char c) { return is_token_char(c) || c == ':' || c == '/'; };
  if ((ascii::is_letter(text.front()) || text.front() == '*') &&
      std::ranges::all_of(text, in_token)) {
    out += text;
    return;
  }
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c >= ' ' && c < 0x7F ? c : '?';
  }
  out += '"';
}

void append_seconds(Duration duration, std::string& out) {
  std::array<char, 24> digits{};
  const auto whole = std::chrono::floor<seconds>(duration).count();
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), whole).ptr;
  out.append(digits.data(), end);
}

std::string_view status_of(CacheOutcome outcome) {
  switch (outcome) {
    case CacheOutcome::kHit:
      return "; hit";
    case CacheOutcome::kJoined:  // RFC 9211 2.2: nothing was stored yet, so this is not a hit
      return "; fwd=miss; collapsed";
    case CacheOutcome::kMiss:
      return "; fwd=miss";
    case CacheOutcome::kBypass:
      return "; fwd=bypass";
    case CacheOutcome::kRefresh:
      return "; fwd=request";
  }
  return "";
}

}  // namespace

Result<CacheDirectives> cache_directives(const HttpHeaders& headers,
                                         const std::optional<ApiCacheDirectives>& body) {
  ParsedDirectives parsed;
  for (const auto& [name, value] : headers) {
    if (!may_direct(name)) continue;
    AFI_TRY_VOID(read_header(name, ascii::trimmed(value), parsed));
  }
  apply_precedence(parsed, body);
  return std::move(parsed.directives);
}

std::string_view to_string(CacheOutcome outcome) {
  switch (outcome) {
    case CacheOutcome::kHit:
    case CacheOutcome::kJoined:
      return "HIT";
    case CacheOutcome::kMiss:
      return "MISS";
    case CacheOutcome::kBypass:
      return "BYPASS";
    case CacheOutcome::kRefresh:
      return "REFRESH";
  }
  return "";
}

void add_cache_headers(HttpHeaders& headers, const CacheReport& report) {
  const bool hit = report.outcome == CacheOutcome::kHit;
  const bool served = hit || report.outcome == CacheOutcome::kJoined;
  std::string status;
  status.reserve(96);
  status += "afterimage";
  status += status_of(report.outcome);
  if (!hit && report.stored) status += "; stored";
  if (report.ttl.has_value()) {
    status += "; ttl=";
    append_seconds(*report.ttl, status);
  }
  if (!report.detail.empty()) {
    status += "; detail=";
    append_detail(report.detail, status);
  }
  headers.add("Cache-Status", std::move(status));
  headers.set("X-Cache", std::string(to_string(report.outcome)));
  headers.remove("X-Cache-Source");
  headers.remove("Age");
  if (served && !report.detail.empty()) headers.add("X-Cache-Source", report.detail);
  if (hit) {
    std::string age;
    append_seconds(std::max(report.age.value_or(Duration(0)), Duration(0)), age);
    headers.add("Age", std::move(age));
  }
  headers.remove(kNotStoredHeader);
  if (!report.not_stored.empty()) {
    headers.add(std::string(kNotStoredHeader), std::string(report.not_stored));
  }
  headers.remove(kDrawHeader);
  if (report.draw != 0) headers.add(std::string(kDrawHeader), std::to_string(report.draw));
}

}  // namespace afterimage
