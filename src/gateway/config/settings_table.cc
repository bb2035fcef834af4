// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/config/settings_table.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "foundation/text/ascii.h"
#include "foundation/text/quantities.h"
#include "gateway/config/host_pattern.h"
#include "policy/eviction/policies.h"
#include "storage/redis/remote_address.h"

namespace afterimage {
namespace {

std::unexpected<Error> wrong(std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

// Reading: a value of TOML to a value of ours.

std::string_view kind_of(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a section";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::string:
      return "a text";
    case toml::node_type::integer:
    case toml::node_type::floating_point:
      return "a number";
    case toml::node_type::boolean:
      return "true or false";
    case toml::node_type::none:
    case toml::node_type::date:
    case toml::node_type::time:
    case toml::node_type::date_time:
      break;
  }
  return "a date or a time";
}

std::unexpected<Error> wrong_kind(const toml::node& node, std::string_view expected) {
  return wrong(fmt::format("this is {}; write {}", kind_of(node), expected));
}

Result<void> read_value(const toml::node& node, std::string& value) {
  const toml::value<std::string>* text = node.as_string();
  if (text == nullptr) return wrong_kind(node, R"(a text, such as "…")");
  if (text->get().contains('\0')) return wrong("a text without NUL is wanted");
  value = text->get();
  return {};
}

Result<void> read_value(const toml::node& node, bool& value) {
  const toml::value<bool>* flag = node.as_boolean();
  if (flag == nullptr) return wrong_kind(node, "true or false");
  value = flag->get();
  return {};
}

template <std::unsigned_integral Number>
Result<void> read_value(const toml::node& node, Number& value) {
  const toml::value<std::int64_t>* number = node.as_integer();
  if (number == nullptr) return wrong_kind(node, "a whole number, such as 64");
  if (!std::in_range<Number>(number->get())) {
    return wrong(
        fmt::format("{} is not from 0 to {}", number->get(), std::numeric_limits<Number>::max()));
  }
  value = static_cast<Number>(number->get());
  return {};
}

Result<void> read_value(const toml::node& node, double& value) {
  if (!node.is_number()) return wrong_kind(node, "a number, such as 0.5");
  value = *node.value<double>();
  return {};
}

Result<void> read_value(const toml::node& node, Duration& value) {
  if (!node.is_string()) return wrong_kind(node, R"(a text with a unit, such as "90 s")");
  AFI_TRY(value, parse_duration(node.as_string()->get()));
  return {};
}

Result<void> read_value(const toml::node& node, Bytes& value) {
  if (!node.is_string()) return wrong_kind(node, R"(a text with a unit, such as "512 MiB")");
  AFI_TRY(value, parse_size(node.as_string()->get()));
  return {};
}

Result<void> read_value(const toml::node& node, TextRung& value) {
  std::string name;
  AFI_TRY_VOID(read_value(node, name));
  for (const TextRung rung : kTextRungs) {
    const std::string_view full = to_string(rung);
    if (name != full && name != full.substr(full.find(':') + 1)) continue;
    value = rung;
    return {};
  }
  return wrong(fmt::format(R"('{}' is no rung: write "exact", "canonical" or "near")", name));
}

Result<void> read_value(const toml::node& node, std::vector<std::string>& value) {
  const toml::array* list = node.as_array();
  if (list == nullptr) return wrong_kind(node, R"(a list of texts, such as ["…", "…"])");
  value.clear();
  for (const toml::node& item : *list) AFI_TRY_VOID(read_value(item, value.emplace_back()));
  return {};
}

template <typename Value>
Result<void> read_value(const toml::node& node, std::optional<Value>& value) {
  return read_value(node, value.emplace());
}

// Printing: the other way round.

std::string print_text(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      quoted += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::optional<std::string> print_value(const std::string& value) { return print_text(value); }
std::optional<std::string> print_value(bool value) { return value ? "true" : "false"; }
template <std::unsigned_integral Number>
std::optional<std::string> print_value(Number value) {
  return std::to_string(value);
}
// "{}" of fmt is the shortest text that is read as the same number; "1" and "1e+20" are TOML, too.
std::optional<std::string> print_value(double value) { return fmt::format("{}", value); }
std::optional<std::string> print_value(Duration value) { return print_text(print_duration(value)); }
std::optional<std::string> print_value(Bytes value) { return print_text(print_size(value)); }
std::optional<std::string> print_value(TextRung value) {
  const std::string_view full = to_string(value);
  return print_text(full.substr(full.find(':') + 1));
}
std::optional<std::string> print_value(const std::vector<std::string>& value) {
  std::vector<std::string> quoted;
  for (const std::string& item : value) quoted.push_back(print_text(item));
  return fmt::format("[{}]", fmt::join(quoted, ", "));
}
template <typename Value>
std::optional<std::string> print_value(const std::optional<Value>& value) {
  return value.has_value() ? print_value(*value) : std::nullopt;
}

// Checking: what a value may be.

struct AnyValue {
  template <typename Value>
  Result<void> operator()(const Value&) const {
    return {};
  }
};

template <typename Value>
auto between(Value least, Value most) {
  return [least, most](const Value& value) -> Result<void> {
    // Written so that a number that is none (nan) is outside.
    if (value >= least && value <= most) return {};
    return wrong(fmt::format("{} is not from {} to {}", *print_value(value), *print_value(least),
                             *print_value(most)));
  };
}

auto one_of(std::vector<std::string_view> names) {
  return [names = std::move(names)](const std::string& value) -> Result<void> {
    if (std::ranges::count(names, value) != 0) return {};
    return wrong(fmt::format("'{}' is none of {}", value, fmt::join(names, ", ")));
  };
}

template <typename Check>
auto each(Check check) {
  return [check](const std::vector<std::string>& values) -> Result<void> {
    for (const std::string& value : values) AFI_TRY_VOID(check(value));
    return {};
  };
}

template <typename Check>
auto or_empty(Check check) {
  return [check](const std::string& value) -> Result<void> {
    return value.empty() ? Result<void>() : check(value);
  };
}

Result<void> check_listen_address(const std::string& address) {
  if (address == "localhost" || is_numeric_host(address)) return {};
  return wrong(
      fmt::format("'{}' is no address of a machine: write 127.0.0.1, 0.0.0.0, ::1, or "
                  "localhost, without a port or brackets",
                  address));
}

Result<void> check_token(const std::string& token) {
  constexpr std::size_t kShortest = 16;
  constexpr std::size_t kLongest = 1024;
  const bool visible = std::ranges::all_of(token, [](char c) { return c > ' ' && c < 0x7F; });
  if (visible && token.size() >= kShortest && token.size() <= kLongest) return {};
  return wrong("a token has 16 to 1024 visible ASCII characters and no spaces");
}

Result<void> check_host(const std::string& host) {
  if (canonical_host(host).has_value()) return {};
  return wrong(fmt::format("'{}' is no name of a host: write afterimage.example.org", host));
}

Result<void> check_host_pattern(const std::string& pattern) {
  AFI_TRY_VOID(parse_host_pattern(pattern));
  return {};
}

Result<void> check_absolute(const std::string& path) {
  if (path.starts_with('/')) return {};
  return wrong(fmt::format("'{}' is not absolute: begin it with /", path));
}

Result<void> check_folder(const std::string& path) {
  AFI_TRY_VOID(check_absolute(path));
  if (path.find_first_not_of('/') != std::string::npos) return {};
  return wrong("'/' would open every file of this machine: name a folder");
}

Result<void> check_upstream(const std::string& url) {
  constexpr std::string_view kSecure = "https://";
  const bool secure = url.starts_with(kSecure);
  const auto parsed = canonical_url(secure ? "http://" + url.substr(kSecure.size()) : url);
  if (parsed.has_value() && url.find_first_of("?#\\") == std::string::npos) {
    return {};
  }
  // The address is not repeated: it may carry a password.
  return wrong(
      "this is no address of a server: write http://host, http://host:8000 or "
      "http://host:8000/base, without a user, '?' or '#'");
}

Result<void> check_remote(const std::string& url) {
  AFI_TRY_VOID(parse_remote_url(url));
  return {};
}

Result<void> check_word(const std::string& word) {
  constexpr std::size_t kLongest = 64;
  const bool plain = std::ranges::all_of(word, [](char c) {
    return ascii::is_letter(c) || ascii::is_digit(c) || c == '.' || c == '_' || c == '-';
  });
  if (plain && !word.empty() && word.size() <= kLongest) return {};
  return wrong(fmt::format("'{}' is no name: 1 to 64 letters, digits, '.', '_' and '-'", word));
}

Result<void> check_tenant_name(const std::string& name) {
  AFI_TRY_VOID(check_word(name));
  if (name != "anonymous" && !name.starts_with("key-")) return {};
  return wrong(fmt::format("'{}' is how tenants that are not listed are called", name));
}

Result<void> check_key_digest(const std::string& digest) {
  const bool hex = std::ranges::all_of(digest, [](char c) {
    return ascii::is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  });
  if (hex && digest.size() == 64) return {};
  // Not repeated: somebody may have written the key itself.
  return wrong(
      "this is no SHA-256 of a key, which has 64 hex digits: write what "
      "`printf %s KEY | sha256sum` prints");
}

Result<void> check_variable(const std::string& name) {
  const bool plain = std::ranges::all_of(
      name, [](char c) { return ascii::is_letter(c) || ascii::is_digit(c) || c == '_'; });
  if (plain && !name.empty() && !ascii::is_digit(name.front())) return {};
  return wrong(fmt::format("'{}' is no name of an environment variable", name));
}

Result<void> check_said(const std::string& text) {
  return text.empty() ? wrong("it is empty") : Result<void>();
}

std::vector<std::string_view> policies() {
  const auto names = policy_names();
  return {names.begin(), names.end()};
}

// The table.

template <typename Section, typename Value>
auto at(Section Settings::* section, Value Section::* member) {
  return [section, member](auto& settings) -> auto& { return settings.*section.*member; };
}
template <typename Owner, typename Value>
auto at(Value Owner::* member) {
  return [member](auto& owner) -> auto& { return owner.*member; };
}

template <typename Value, typename Check>
Result<void> check_value(const Value& value, const Check& check) {
  return check(value);
}
template <typename Value, typename Check>
Result<void> check_value(const std::optional<Value>& value, const Check& check) {
  return check(*value);
}

template <typename Owner>
struct SettingText {
  std::string_view key;
  std::string_view help;
  std::string_view example = "";
  bool secret = false;
};

template <typename Owner, typename Get, typename Check = AnyValue>
Setting<Owner> setting(SettingText<Owner> text, TakesEffect effect, Get get, Check check = {}) {
  using Value = std::remove_cvref_t<decltype(get(std::declval<Owner&>()))>;
  return {.key = text.key,
          .help = text.help,
          .example = text.example,
          .effect = effect,
          .secret = text.secret,
          .read = [get, check](const toml::node& node, Owner& owner) -> Result<void> {
            Value value{};
            AFI_TRY_VOID(read_value(node, value));
            AFI_TRY_VOID(check_value(value, check));
            get(owner) = std::move(value);
            return {};
          },
          .print = [get](const Owner& owner) { return print_value(get(owner)); }};
}

using namespace std::chrono_literals;
using Text = SettingText<Settings>;
using TenantText = SettingText<TenantSettings>;
constexpr TakesEffect kAtReload = TakesEffect::kAtReload;
constexpr TakesEffect kAtStart = TakesEffect::kAtStart;
constexpr std::uint32_t kMany = 1'000'000;
constexpr Duration kYears = std::chrono::days(3650);
const auto kTimeout = between<Duration>(1ms, std::chrono::days(1));
const auto kLifetime = between<Duration>(1s, kYears);
const auto kShare = between(0.0, 1.0);

void add_servers(std::vector<Setting<Settings>>& table) {
  const auto listen = [](auto member) { return at(&Settings::listen, member); };
  const auto admin = [](auto member) { return at(&Settings::admin, member); };
  const auto upstream = [](auto member) { return at(&Settings::upstream, member); };
  const auto engine = [](auto member) { return at(&Settings::engine, member); };
  const auto port = between<std::uint16_t>(0, 65'535);
  const auto add = [&](Text text, TakesEffect effect, auto get, auto check) {
    table.push_back(setting(text, effect, get, check));
  };
  add({"secret_file", "32 bytes that salt every key; empty: made anew at each start."}, kAtStart,
      at(&Settings::secret_file), or_empty(check_absolute));

  add({"listen.address", "Where clients connect; 0.0.0.0 or :: for every network."}, kAtStart,
      listen(&ListenSettings::address), check_listen_address);
  add({"listen.port", "0: any that is free."}, kAtStart, listen(&ListenSettings::port), port);

  add({"admin.address", "Where operators connect; one that is not loopback needs a token."},
      kAtStart, admin(&AdminSettings::address), check_listen_address);
  add({"admin.port", "0: any that is free."}, kAtStart, admin(&AdminSettings::port), port);
  add({"admin.token", "What operators show as \"Authorization: Bearer …\"; empty: nothing.", "",
       true},
      kAtReload, admin(&AdminSettings::token), or_empty(check_token));
  add({"admin.hosts", "Names by which browsers address it, besides those of loopback."}, kAtReload,
      admin(&AdminSettings::hosts), each(check_host));

  add({"upstream.url", "The server that answers; empty: the built-in engine."}, kAtStart,
      upstream(&UpstreamSettings::url), or_empty(check_upstream));
  add({"upstream.key_env",
       "An environment variable with the key it asks for; empty: clients send their own."},
      kAtStart, upstream(&UpstreamSettings::key_env), AnyValue());
  add({"upstream.epoch", "Change it when the weights behind a model's name change."}, kAtStart,
      upstream(&UpstreamSettings::epoch), AnyValue());
  add({"upstream.connect_timeout", "For a connection to be made."}, kAtStart,
      upstream(&UpstreamSettings::connect_timeout), kTimeout);
  add({"upstream.idle_timeout", "Between two pieces of an answer."}, kAtStart,
      upstream(&UpstreamSettings::idle_timeout), kTimeout);
  add({"upstream.max_connections", "At one time."}, kAtStart,
      upstream(&UpstreamSettings::max_connections), between(1U, kMany));

  add({"engine.model", "The name of the built-in engine's model."}, kAtStart,
      engine(&EngineSettings::model), check_said);
  add({"engine.max_tokens", "Of an answer, if a request does not say."}, kAtStart,
      engine(&EngineSettings::max_tokens), between(1U, kMany));
}

void add_answers(std::vector<Setting<Settings>>& table) {
  const auto memory = [](auto member) { return at(&Settings::memory, member); };
  const auto answers = [](auto member) { return at(&Settings::answers, member); };
  const auto add = [&](Text text, TakesEffect effect, auto get, auto check) {
    table.push_back(setting(text, effect, get, check));
  };
  add({"memory.budget", "For everything that is kept in memory."}, kAtStart,
      memory(&MemorySettings::budget), between(1_MiB, Bytes(1ULL << 50U)));
  add({"memory.policy", "Who leaves first."}, kAtStart, memory(&MemorySettings::policy),
      one_of(policies()));
  add({"memory.disk", "A folder for what memory cannot hold; empty: memory only."}, kAtStart,
      memory(&MemorySettings::disk), or_empty(check_folder));
  add({"memory.disk_size", "How much of that folder is used."}, kAtStart,
      memory(&MemorySettings::disk_size), between(1_MiB, Bytes(1ULL << 60U)));
  add({"memory.encrypt_key_file",
       "Keys of 64 hex digits, one a line: the first encrypts what is kept in that folder."},
      kAtStart, memory(&MemorySettings::encrypt_key_file), or_empty(check_absolute));
  add({"memory.encrypt_key_env", "The environment variable that holds them, instead."}, kAtStart,
      memory(&MemorySettings::encrypt_key_env), or_empty(check_variable));

  add({"memory.governor",
       "auto, or a control group's folder: give back what others need; empty: keep the budget."},
      kAtStart, memory(&MemorySettings::governor), AnyValue());

  const auto remote = [](auto member) { return at(&Settings::remote, member); };
  add({"remote.url", "Redis or Valkey, shared with other processes: redis://user@host:port,….",
       R"("redis://127.0.0.1:6379")"},
      kAtStart, remote(&RemoteSettings::url), or_empty(check_remote));
  add({"remote.password_env", "An environment variable with the password, if it asks for one."},
      kAtStart, remote(&RemoteSettings::password_env), check_variable);
  add({"remote.ttl", "What is put there is forgotten after so long."}, kAtStart,
      remote(&RemoteSettings::ttl), kLifetime);
  add({"remote.in_flight", "Memory for copies on their way there; no entry is larger."}, kAtStart,
      remote(&RemoteSettings::in_flight), between(1_MiB, 1_GiB));

  add({"answers.enabled", "false: every request is asked, and nothing is kept."}, kAtReload,
      answers(&AnswerSettings::enabled), AnyValue());
  add({"answers.max_match", "The loosest likeness that is served: exact, canonical or near."},
      kAtReload, answers(&AnswerSettings::max_match), AnyValue());
  add({"answers.ttl", "How long an answer is kept if a request does not say; unset: for ever.",
       "\"24 h\""},
      kAtReload, answers(&AnswerSettings::ttl), kLifetime);
  add({"answers.max_ttl", "The longest that a request may ask for; unset: any.", "\"7 d\""},
      kAtReload, answers(&AnswerSettings::max_ttl), kLifetime);
  add({"answers.assume_greedy_when_unset",
       "Treat a request without a temperature as temperature 0, for the very same words."},
      kAtReload, answers(&AnswerSettings::assume_greedy_when_unset), AnyValue());
  add({"answers.tool_calls", "Keep answers that call tools; served to the same words only."},
      kAtReload, answers(&AnswerSettings::tool_calls), AnyValue());
  add({"answers.cache_truncated",
       "Keep answers that max_tokens truncated; served to the very same request only."},
      kAtReload, answers(&AnswerSettings::cache_truncated), AnyValue());
  add({"answers.finish_abandoned", "Let the server finish for the cache when all clients left."},
      kAtReload, answers(&AnswerSettings::finish_abandoned), AnyValue());
  add({"answers.verify_sample_rate",
       "The share of hits looser than exact that are asked all the same, to compare."},
      kAtReload, answers(&AnswerSettings::verify_sample_rate), kShare);
  add({"answers.max_answer", "Larger ones are not kept."}, kAtReload,
      answers(&AnswerSettings::max_answer), between(1_KiB, 1_GiB));
  add({"answers.timing_protection",
       "Whose hits take as long as asking did, so that time tells nothing: off, shared or all."},
      kAtReload, answers(&AnswerSettings::timing_protection), one_of({"off", "shared", "all"}));
  add({"answers.least_hit_time", "And at least so long."}, kAtReload,
      answers(&AnswerSettings::least_hit_time), between<Duration>(0ms, std::chrono::minutes(10)));
  add({"answers.coalesce_timeout",
       "With remote.url: how long to wait for what another gateway is asking; 0 s: ask at once."},
      kAtReload, answers(&AnswerSettings::coalesce_timeout),
      between<Duration>(0ms, std::chrono::minutes(10)));
}

void add_limits(std::vector<Setting<Settings>>& table) {
  const auto media = [](auto member) { return at(&Settings::media, member); };
  const auto limits = [](auto member) { return at(&Settings::limits, member); };
  const auto add = [&](Text text, TakesEffect effect, auto get, auto check) {
    table.push_back(setting(text, effect, get, check));
  };
  add({"media.hosts",
       "Whose http URLs are fetched: \"images.example.org\", \"*.example.org:8080\"."},
      kAtReload, media(&MediaSettings::hosts), each(check_host_pattern));
  add({"media.folders", "Whose file URLs are read."}, kAtReload, media(&MediaSettings::folders),
      each(check_folder));
  add({"media.private_addresses", "Also fetch from loopback and private networks."}, kAtReload,
      media(&MediaSettings::private_addresses), AnyValue());
  add({"media.max_size", "Of one file."}, kAtReload, media(&MediaSettings::max_size),
      between(1_KiB, 4_GiB));
  add({"media.max_items", "Of one request."}, kAtReload, media(&MediaSettings::max_items),
      between(1U, 10'000U));
  add({"media.timeout", "To fetch one file, redirects included."}, kAtReload,
      media(&MediaSettings::timeout), kTimeout);
  add({"media.max_redirects", "Each is checked like the first address."}, kAtReload,
      media(&MediaSettings::max_redirects), between(0U, 20U));

  add({"limits.body", "Of one request."}, kAtReload, limits(&LimitSettings::body),
      between(1_KiB, 4_GiB));
  add({"limits.bodies", "Of all requests that are being read or answered, together."}, kAtStart,
      limits(&LimitSettings::bodies), between(1_MiB, Bytes(1ULL << 40U)));
  add({"limits.headers", "Of one request."}, kAtStart, limits(&LimitSettings::headers),
      between(1_KiB, 1_MiB));
  add({"limits.connections", "At one time."}, kAtStart, limits(&LimitSettings::connections),
      between(1U, kMany));
  add({"limits.threads", "0: one a core, at most 8."}, kAtStart, limits(&LimitSettings::threads),
      between(0U, 256U));
  add({"limits.header_timeout", "For a request's headers to arrive."}, kAtStart,
      limits(&LimitSettings::header_timeout), kTimeout);
  add({"limits.body_timeout", "For a request's body to arrive."}, kAtStart,
      limits(&LimitSettings::body_timeout), kTimeout);
  add({"limits.idle_timeout", "Between two requests of a connection."}, kAtStart,
      limits(&LimitSettings::idle_timeout), kTimeout);
  add({"limits.write_timeout", "For a client that does not read."}, kAtStart,
      limits(&LimitSettings::write_timeout), kTimeout);
  add({"limits.drain", "For requests under way when the program is told to end."}, kAtReload,
      limits(&LimitSettings::drain), between<Duration>(0s, std::chrono::days(1)));
}

void add_records(std::vector<Setting<Settings>>& table) {
  table.push_back(setting(Text{"log.level", "debug, info, warn, error or off."}, kAtReload,
                          at(&Settings::log, &LogSettings::level),
                          one_of({"debug", "info", "warn", "error", "off"})));
  table.push_back(setting(Text{"log.requests", "A line for each request."}, kAtReload,
                          at(&Settings::log, &LogSettings::requests)));
  table.push_back(setting(
      Text{"tenancy.unknown_keys",
           "Requests whose key is not listed: \"each\" key is a tenant of its own, or \"refuse\"."},
      kAtReload, at(&Settings::tenancy, &TenancySettings::unknown_keys),
      one_of({"each", "refuse"})));
}

std::vector<Setting<Settings>> make_settings_table() {
  std::vector<Setting<Settings>> table;
  add_servers(table);
  add_answers(table);
  add_limits(table);
  add_records(table);
  return table;
}

std::vector<Setting<TenantSettings>> make_tenant_table() {
  std::vector<Setting<TenantSettings>> table;
  const auto add = [&](TenantText text, auto member, auto check) {
    table.push_back(setting(text, kAtReload, at(member), check));
  };
  add({"name", "For people and metrics.", "\"acme\""}, &TenantSettings::name, check_tenant_name);
  add({"key_sha256", "SHA-256 of its API keys: what `printf %s KEY | sha256sum` prints.",
       "[\"64 hex digits\"]"},
      &TenantSettings::key_sha256, each(check_key_digest));
  add({"key_env", "Environment variables that hold its API keys.", "[\"ACME_KEY\"]"},
      &TenantSettings::key_env, each(check_variable));
  add({"group", "Tenants of one group share what they keep.", "\"public\""}, &TenantSettings::group,
      or_empty(check_word));
  add({"max_bytes", "Of what is kept for it; unset: no limit of its own.", "\"512 MiB\""},
      &TenantSettings::max_bytes, between(0_B, Bytes(1ULL << 60U)));
  add({"max_entries", "Of what is kept for it; unset: no limit of its own.", "100000"},
      &TenantSettings::max_entries, between<std::uint64_t>(0, 1ULL << 40U));
  add({"requests_per_minute", "More are refused with 429; unset: any number.", "600"},
      &TenantSettings::requests_per_minute, between(0.001, 1e9));
  add({"max_match", "Instead of answers.max_match.", "\"exact\""}, &TenantSettings::max_match,
      AnyValue());
  return table;
}

}  // namespace

std::span<const Setting<Settings>> settings_table() {
  static const std::vector<Setting<Settings>> kTable = make_settings_table();
  return kTable;
}

std::span<const Setting<TenantSettings>> tenant_table() {
  static const std::vector<Setting<TenantSettings>> kTable = make_tenant_table();
  return kTable;
}

}  // namespace afterimage
