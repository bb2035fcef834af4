// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/config/settings_table.h"

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "afterimage/eviction_policy.h"
#include "afterimage/pressure.h"
#include "gateway/config/replica_setting.h"
#include "gateway/config/setting_checks.h"
#include "gateway/config/setting_values.h"
#include "gateway/config/tenant_name.h"

namespace afterimage {
namespace {

std::vector<std::string_view> policies() {
  const auto names = policy_names();
  return {names.begin(), names.end()};
}

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
          .read = [get, check = std::move(check)](const toml::node& node,
                                                  Owner& owner) -> Result<void> {
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
constexpr std::uint32_t kMaxCount = 1'000'000;
constexpr Duration kTenYears = std::chrono::days(3650);
const auto kTimeoutRange = between<Duration>(1ms, std::chrono::days(1));
const auto kTtlRange = between<Duration>(1s, kTenYears);
const auto kFraction = between(0.0, 1.0);

void add_replicas(std::vector<Setting<Settings>>& table) {
  const auto upstream = [](auto member) { return at(&Settings::upstream, member); };
  const auto add = [&](Text text, TakesEffect effect, auto get, auto check) {
    table.push_back(setting(text, effect, get, std::move(check)));
  };
  add({"upstream.replicas",
       "Several servers instead of url: \"http://a:8000 weight=2 models=qwen*\", …: docs/fleet.md.",
       R"(["http://10.0.0.1:8000", "http://10.0.0.2:8000 weight=2"])"},
      kAtReload, upstream(&UpstreamSettings::replicas), each(check_replica));
  add({"upstream.fleet",
       "Name of the replicas as one; it is part of the identity of cached answers."},
      kAtStart, upstream(&UpstreamSettings::fleet), check_not_empty);
  add({"upstream.routing",
       "Which replica: content (soonest done, given what its caches hold), least-loaded, "
       "round-robin."},
      kAtReload, upstream(&UpstreamSettings::routing),
      one_of({"content", "least-loaded", "round-robin"}));
  add({"upstream.queue", "Requests that may wait for a replica; more are refused with 429."},
      kAtReload, upstream(&UpstreamSettings::queue), between(0U, kMaxCount));
  add({"upstream.queue_timeout", "How long a request may wait for a replica before 503."},
      kAtReload, upstream(&UpstreamSettings::queue_timeout), kTimeoutRange);
  add({"upstream.retry_budget",
       "Retries on another replica, as a share of the requests of the last minute; 0: none."},
      kAtReload, upstream(&UpstreamSettings::retry_budget), kFraction);
  add({"upstream.fatal_refusal",
       "How long a request is refused that two replicas died of; 0 s: it is not."},
      kAtReload, upstream(&UpstreamSettings::fatal_refusal),
      between<Duration>(0s, std::chrono::days(1)));
  add({"upstream.health_path", "Path that tells whether a replica is well: any answer below 500."},
      kAtReload, upstream(&UpstreamSettings::health_path), check_path);
  add({"upstream.health_interval", "How often each replica is asked for it."}, kAtReload,
      upstream(&UpstreamSettings::health_interval), kTimeoutRange);
  add({"upstream.ca_file",
       "PEM file of the authorities that are trusted for https upstreams; empty: the system's."},
      kAtStart, upstream(&UpstreamSettings::ca_file), or_empty(check_absolute));
  add({"upstream.live",
       "How long stored answers are served of an upstream that looks things up; unset: "
       "answers.ttl.",
       "\"1 h\""},
      kAtReload, upstream(&UpstreamSettings::live), kTtlRange);
  add({"upstream.cache_salt",
       "Keep tenants apart in the server's prefix cache too (cache_salt); unset: vLLM and SGLang.",
       "true"},
      kAtStart, upstream(&UpstreamSettings::cache_salt), AnyValue());
}

void add_listeners(std::vector<Setting<Settings>>& table) {
  const auto listen = [](auto member) { return at(&Settings::listen, member); };
  const auto admin = [](auto member) { return at(&Settings::admin, member); };
  const auto port = between<std::uint16_t>(0, 65'535);
  const auto add = [&](Text text, TakesEffect effect, auto get, auto check) {
    table.push_back(setting(text, effect, get, check));
  };
  add({"secret_file",
       "File with 32 bytes that salt all cache keys (absolute path); empty: random at each start."},
      kAtStart, at(&Settings::secret_file), or_empty(check_absolute));

  add({"listen.address",
       "IP address or localhost where clients connect; 0.0.0.0 or :: for all interfaces."},
      kAtStart, listen(&ListenSettings::address), check_listen_address);
  add({"listen.port", "TCP port for clients; 0: any free port."}, kAtStart,
      listen(&ListenSettings::port), port);
  add({"listen.tls_certificate",
       "PEM file of a certificate and its chain, for https; read again at reload. Empty: http."},
      kAtStart, listen(&ListenSettings::tls_certificate), or_empty(check_absolute));
  add({"listen.tls_key", "PEM file of its private key; empty: it is in the certificate's file."},
      kAtStart, listen(&ListenSettings::tls_key), or_empty(check_absolute));
  add({"listen.cors_origins",
       "Whose pages may use the API from a browser: [\"https://app.example.org\"], or [\"*\"] for "
       "all."},
      kAtReload, listen(&ListenSettings::cors_origins), each(check_origin));

  add({"admin.address",
       "Address of the admin server; an address other than loopback requires admin.token."},
      kAtStart, admin(&AdminSettings::address), check_listen_address);
  add({"admin.port", "TCP port of the admin server; 0: any free port."}, kAtStart,
      admin(&AdminSettings::port), port);
  add({"admin.token",
       "Token required by the admin server as \"Authorization: Bearer …\"; empty: none.", "", true},
      kAtReload, admin(&AdminSettings::token), or_empty(check_token));
  add({"admin.hosts",
       "Host names that browsers may use for the admin server, besides loopback names."},
      kAtReload, admin(&AdminSettings::hosts), each(check_host));
  add({"admin.tls_certificate", "As listen.tls_certificate, for the admin server."}, kAtStart,
      admin(&AdminSettings::tls_certificate), or_empty(check_absolute));
  add({"admin.tls_key", "As listen.tls_key, for the admin server."}, kAtStart,
      admin(&AdminSettings::tls_key), or_empty(check_absolute));
}

void add_upstream(std::vector<Setting<Settings>>& table) {
  const auto upstream = [](auto member) { return at(&Settings::upstream, member); };
  const auto add = [&](Text text, TakesEffect effect, auto get, auto check) {
    table.push_back(setting(text, effect, get, check));
  };
  add({"upstream.url",
       "Base URL of the model server, http or https; empty: use the built-in engine."},
      kAtStart, upstream(&UpstreamSettings::url), or_empty(check_server_url));
  add({"upstream.key_env",
       "Environment variable with the API key of the upstream; empty: forward the client's key."},
      kAtStart, upstream(&UpstreamSettings::key_env), AnyValue());
  add({"upstream.epoch",
       "Version of the weights; change it when the weights behind a model name change."},
      kAtStart, upstream(&UpstreamSettings::epoch), AnyValue());
  add({"upstream.connect_timeout", "Timeout for connecting to the upstream."}, kAtStart,
      upstream(&UpstreamSettings::connect_timeout), kTimeoutRange);
  add({"upstream.idle_timeout", "Maximum time between two pieces of an upstream response."},
      kAtStart, upstream(&UpstreamSettings::idle_timeout), kTimeoutRange);
  add({"upstream.max_connections",
       "Maximum number of concurrent requests to the upstream, or to each replica."},
      kAtStart, upstream(&UpstreamSettings::max_connections), between(1U, kMaxCount));
}

void add_prompt(std::vector<Setting<Settings>>& table) {
  table.push_back(setting<Settings>(
      {"prompt.stabilise",
       "Changes of prompts that keep prefixes stable: docs/stable-prompts.md lists them; []: none.",
       R"(["billing-lines", "tool-order"])"},
      kAtReload, at(&Settings::prompt, &PromptSettings::stabilise),
      each(one_of({"billing-lines", "tool-order", "schema-keys", "date-line"}))));
}

void add_engine(std::vector<Setting<Settings>>& table) {
  const auto engine = [](auto member) { return at(&Settings::engine, member); };
  const auto add = [&](Text text, TakesEffect effect, auto get, auto check) {
    table.push_back(setting(text, effect, get, check));
  };
  add({"engine.model", "Model name of the built-in engine."}, kAtStart,
      engine(&EngineSettings::model), check_not_empty);
  add({"engine.max_tokens",
       "Maximum tokens of an answer if a request sets no limit; unset: llama none, reference 64.",
       "1024"},
      kAtStart, engine(&EngineSettings::max_tokens), between(1U, kMaxCount));
  add({"engine.seed",
       "Seed of sampled answers to requests that name none; unset: another answer each time.",
       "42"},
      kAtStart, engine(&EngineSettings::seed), AnyValue());
  add({"engine.slots", "Whether GET /slots tells clients which lanes are busy."}, kAtStart,
      engine(&EngineSettings::slots), AnyValue());
  add({"engine.verbose",
       "Add the rendered prompt and the settings to every answer, as \"__verbose\"; none is "
       "cached."},
      kAtStart, engine(&EngineSettings::verbose), AnyValue());
  add({"engine.kv_events",
       "Address and port where gateways follow changes of the KV cache (ZeroMQ); empty: nowhere."},
      kAtStart, engine(&EngineSettings::kv_events), or_empty(check_kv_events));
}

void add_memory(std::vector<Setting<Settings>>& table) {
  const auto memory = [](auto member) { return at(&Settings::memory, member); };
  const auto add = [&](Text text, TakesEffect effect, auto get, auto check) {
    table.push_back(setting(text, effect, get, std::move(check)));
  };
  add({"memory.budget", "Maximum memory for all caches together."}, kAtStart,
      memory(&MemorySettings::budget), between(1_MiB, Bytes(1ULL << 50U)));
  add({"memory.policy", "Eviction policy; worth evicts what saves the least time per byte."},
      kAtStart, memory(&MemorySettings::policy), one_of(policies()));
  add({"memory.max_kv_tokens",
       "Maximum number of tokens with KV in memory (built-in engines); 0: the budget decides."},
      kAtStart, memory(&MemorySettings::max_kv_tokens), between<std::uint64_t>(0, 1ULL << 50U));
  add({"memory.max_sequences",
       "Maximum number of sequences with KV in memory (built-in engines); 0: the budget decides."},
      kAtStart, memory(&MemorySettings::max_sequences), between<std::uint64_t>(0, 1'000'000));
  add({"memory.disk",
       "Absolute path of a folder for entries that do not fit in memory; empty: memory only."},
      kAtStart, memory(&MemorySettings::disk), or_empty(check_folder));
  add({"memory.disk_size", "Maximum size of the cache in memory.disk."}, kAtStart,
      memory(&MemorySettings::disk_size), between(1_MiB, Bytes(1ULL << 60U)));
  add({"memory.disk_flush_interval",
       "Longest time that a stored entry waits to be written to memory.disk: what kill -9 can "
       "lose."},
      kAtStart, memory(&MemorySettings::disk_flush_interval),
      between<Duration>(std::chrono::milliseconds(10), std::chrono::hours(1)));
  add({"memory.disk_all",
       "Write each new entry to memory.disk, even while almost none is asked for again."},
      kAtStart, memory(&MemorySettings::disk_all), AnyValue());
  add({"memory.gpu_size",
       "Spare GPU memory for entries that do not fit in memory, given back when needed; 0: none.",
       R"("8 GiB")"},
      kAtStart, memory(&MemorySettings::gpu_size), between(0_B, Bytes(1ULL << 50U)));
  add({"memory.gpu", "Which GPU, as CUDA counts."}, kAtStart, memory(&MemorySettings::gpu),
      between(0U, 1023U));
  add({"memory.encrypt_key_file",
       "File with a key of 64 hex digits per line; the first encrypts disk and remote entries."},
      kAtStart, memory(&MemorySettings::encrypt_key_file), or_empty(check_absolute));
  add({"memory.encrypt_key_env",
       "Environment variable with these keys, instead of a file; both empty: no encryption."},
      kAtStart, memory(&MemorySettings::encrypt_key_env), or_empty(check_variable));
}

void add_pressure(std::vector<Setting<Settings>>& table) {
  const auto memory = [](auto member) { return at(&Settings::memory, member); };
  const auto add = [&](Text text, TakesEffect effect, auto get, auto check) {
    table.push_back(setting(text, effect, get, std::move(check)));
  };
  add({"memory.governor",
       "Shrink caches under pressure: of auto, host, cgroup, a cgroup folder, nvml:N (a GPU); or "
       "empty."},
      kAtStart, memory(&MemorySettings::governor), AnyValue());
  add({"memory.modes",
       "When the governor's modes begin: headroom, seed, or four percentages in use: "
       "docs/pressure.md."},
      kAtStart, memory(&MemorySettings::modes), [](const std::string& modes) -> Result<void> {
        AFI_TRY_VOID(parse_modes(modes));
        return {};
      });
  add({"memory.idle_limit",
       "Longest time that an entry stays in memory unused, less under pressure; unset: no limit.",
       R"("10 min")"},
      kAtStart, memory(&MemorySettings::idle_limit), kTtlRange);

  add({"memory.min_encoder_entries",
       "Encoder outputs that a new one must leave in memory, or it is not cached; auto: by load.",
       "\"auto\""},
      kAtStart, memory(&MemorySettings::min_encoder_entries), AnyValue());
  add({"memory.max_encoder_entries", "Maximum number of encoder outputs in memory."}, kAtStart,
      memory(&MemorySettings::max_encoder_entries), between<std::uint64_t>(1, 1'000'000));
  add({"prefix.enabled",
       "Cache KV of prompts (built-in engines); false: every prompt is computed from its start."},
      kAtStart, at(&Settings::prefix, &PrefixSettings::enabled), AnyValue());
}

void add_remote(std::vector<Setting<Settings>>& table) {
  const auto remote = [](auto member) { return at(&Settings::remote, member); };
  const auto add = [&](Text text, TakesEffect effect, auto get, auto check) {
    table.push_back(setting(text, effect, get, std::move(check)));
  };
  add({"remote.url",
       "Redis or Valkey servers for a shared cache: redis://user@host:port,…; docs/remote.md.",
       R"("redis://127.0.0.1:6379")"},
      kAtStart, remote(&RemoteSettings::url), or_empty(check_remote));
  add({"remote.password_env",
       "Environment variable with the password of these servers, if they require one."},
      kAtStart, remote(&RemoteSettings::password_env), check_variable);
  add({"remote.ttl", "Time to live of entries on these servers."}, kAtStart,
      remote(&RemoteSettings::ttl), kTtlRange);
  add({"remote.in_flight",
       "Maximum memory for writes to these servers in progress; larger entries are not written."},
      kAtStart, remote(&RemoteSettings::in_flight), between(1_MiB, 1_GiB));
  add({"remote.timeout",
       "Longest time of an operation on these servers, at least three round trips; 4 times to "
       "connect."},
      kAtStart, remote(&RemoteSettings::timeout), between<Duration>(1ms, 5s));
  add({"remote.sentinel_password_env",
       "Environment variable with the password of the Sentinels, if they require one."},
      kAtStart, remote(&RemoteSettings::sentinel_password_env), check_variable);
}

void add_remote_tls(std::vector<Setting<Settings>>& table) {
  const auto add = [&](Text text, auto member, auto check) {
    const auto get = [member](auto& settings) -> auto& { return settings.remote.tls.*member; };
    table.push_back(setting(text, kAtStart, get, std::move(check)));
  };
  add({"remote.tls.ca_file",
       "PEM file of the authorities that sign these servers' certificates; empty: the system's."},
      &RemoteTlsOptions::ca_file, or_empty(check_absolute));
  add({"remote.tls.certificate_file",
       "PEM file of a client certificate and its chain, if these servers require one."},
      &RemoteTlsOptions::certificate_file, or_empty(check_absolute));
  add({"remote.tls.key_file",
       "PEM file of its private key; empty: it is in the certificate's file."},
      &RemoteTlsOptions::key_file, or_empty(check_absolute));
  add({"remote.tls.server_name",
       "Name that these servers' certificates must have; empty: the host's in the URL."},
      &RemoteTlsOptions::server_name, or_empty(check_server_name));
}

void add_answers(std::vector<Setting<Settings>>& table) {
  const auto answers = [](auto member) { return at(&Settings::answers, member); };
  const auto add = [&](Text text, TakesEffect effect, auto get, auto check) {
    table.push_back(setting(text, effect, get, std::move(check)));
  };
  add({"answers.enabled",
       "Cache answers; false: every request goes to the model and no answer is cached."},
      kAtReload, answers(&AnswerSettings::enabled), AnyValue());
  add({"answers.match_level",
       "Loosest match to serve: exact, canonical or near; a request may ask for a stricter one."},
      kAtReload, answers(&AnswerSettings::match_level), AnyValue());
  add({"answers.ttl", "Time to live of an answer if the request sets none; unset: no expiry.",
       "\"24 h\""},
      kAtReload, answers(&AnswerSettings::ttl), kTtlRange);
  add({"answers.max_ttl", "Longest time to live that a request may set; unset: no limit.",
       "\"7 d\""},
      kAtReload, answers(&AnswerSettings::max_ttl), kTtlRange);
  add({"answers.sampled",
       "Sampled requests: per-requester (no answer twice to one requester), replay (one for all) "
       "or off."},
      kAtReload, answers(&AnswerSettings::sampled), one_of({kPerRequester, kReplay, kSampledOff}));
  add({"answers.draws",
       "Maximum number of answers to one sampled request that are cached for other requesters."},
      kAtReload, answers(&AnswerSettings::draws), between(1U, 64U));
  add({"answers.tool_calls",
       "Cache answers with tool calls; they are served for exact matches only."},
      kAtReload, answers(&AnswerSettings::tool_calls), AnyValue());
  add({"answers.cache_truncated",
       "Cache answers that max_tokens truncated; they are served for exact matches only."},
      kAtReload, answers(&AnswerSettings::cache_truncated), AnyValue());
  add({"answers.split_batches",
       "Cache each input of a batch of embeddings for itself, for other batches and alone; false: "
       "as one."},
      kAtReload, answers(&AnswerSettings::split_batches), AnyValue());
  add({"answers.finish_abandoned",
       "Finish and cache an answer that all clients left; false: cancel, except draws of sampled "
       "requests."},
      kAtReload, answers(&AnswerSettings::finish_abandoned), AnyValue());
  add({"answers.verify_sample_rate",
       "Share of non-exact hits, 0 to 1, for which the model is also called to compare answers."},
      kAtReload, answers(&AnswerSettings::verify_sample_rate), kFraction);
  add({"answers.max_answer", "Maximum size of a cached answer; larger answers are not cached."},
      kAtReload, answers(&AnswerSettings::max_answer), between(1_KiB, 1_GiB));
  add({"answers.timing_protection",
       "Delay hits to defend against timing attacks: off, shared (tenants of a group) or all."},
      kAtReload, answers(&AnswerSettings::timing_protection), one_of({"off", "shared", "all"}));
  add({"answers.least_hit_time",
       "Minimum duration of a hit that answers.timing_protection delays."},
      kAtReload, answers(&AnswerSettings::least_hit_time),
      between<Duration>(0ms, std::chrono::minutes(10)));
  add({"answers.coalesce_timeout",
       "How long to wait for another gateway that computes the same answer; 0 s: do not wait."},
      kAtReload, answers(&AnswerSettings::coalesce_timeout),
      between<Duration>(0ms, std::chrono::minutes(10)));
}

void add_moved_media(std::vector<Setting<Settings>>& table) {
  const auto moved = [](auto member) { return at(&Settings::moved_media, member); };
  const auto add = [&](Text text, auto get, auto check) {
    table.push_back(setting(text, kAtStart, get, std::move(check)));
  };
  add({"moved_media.mode",
       "KV of images at other positions: off; certified: bounded answers, marked and not cached."},
      moved(&MovedMediaSettings::mode), one_of({"off", "certified"}));
  add({"moved_media.certificate",
       "File that `afterimage-lab certify` wrote for this model (absolute path); required for it."},
      moved(&MovedMediaSettings::certificate), or_empty(check_absolute));
  add({"moved_media.max_loss",
       "Share of answer tokens, 0 to 1, that may differ; the certificate must exclude more."},
      moved(&MovedMediaSettings::max_loss), between(0.0001, 1.0));
  add({"moved_media.sample_every",
       "One bounded answer in so many is computed again exactly and compared."},
      moved(&MovedMediaSettings::sample_every), between(1U, 1'000'000U));
  add({"moved_media.capacity", "Maximum memory for KV of images to move, out of memory.budget."},
      moved(&MovedMediaSettings::capacity), between(1_MiB, Bytes(1ULL << 50U)));
}

void add_similarity(std::vector<Setting<Settings>>& table) {
  const auto similarity = [](auto member) { return at(&Settings::similarity, member); };
  const auto add = [&](Text text, auto get, auto check) {
    table.push_back(setting(text, kAtStart, get, std::move(check)));
  };
  add({"similarity.mode",
       "Answers to similar questions: off; shadow: compare them with the model's, serve none; on."},
      similarity(&SimilaritySettings::mode), one_of({"off", "shadow", "on"}));
  add({"similarity.folder",
       "Folder of bench/train_similar.py: turns similarity on, with its models and thresholds."},
      similarity(&SimilaritySettings::folder), or_empty(check_absolute));
  add({"similarity.embedder",
       "Makes vectors of questions: built-in, the URL of a /v1/embeddings, or the path of a GGUF "
       "file."},
      similarity(&SimilaritySettings::embedder), check_embedder);
  add({"similarity.model", "The embedding model's name on that server."},
      similarity(&SimilaritySettings::model), AnyValue());
  add({"similarity.key_env", "Environment variable with that server's API key."},
      similarity(&SimilaritySettings::key_env), or_empty(check_variable));
  add({"similarity.projection",
       "Path of a matrix that vectors are multiplied with, of bench/train_similar.py; \"\": none."},
      similarity(&SimilaritySettings::projection), or_empty(check_absolute));
  add({"similarity.threshold", "Least cosine, 0 to 1, of the vectors of two similar questions."},
      similarity(&SimilaritySettings::threshold), kFraction);
  add({"similarity.verifier",
       "Cross-encoder that must confirm a match: URL of a /v1/rerank, or path of a GGUF; \"\": "
       "none."},
      similarity(&SimilaritySettings::verifier), or_empty(check_verifier));
  add({"similarity.verifier_model", "The cross-encoder's name on that server."},
      similarity(&SimilaritySettings::verifier_model), AnyValue());
  add({"similarity.verifier_key_env", "Environment variable with that server's API key."},
      similarity(&SimilaritySettings::verifier_key_env), or_empty(check_variable));
  add({"similarity.verifier_threshold",
       "Least score that confirms: a logit (GGUF, llama-server) or a probability (vLLM, Cohere, "
       "Jina)."},
      similarity(&SimilaritySettings::verifier_threshold), between(-100.0, 100.0));
  add({"similarity.verifier_overrules_vetoes",
       "Let the cross-encoder judge questions with other numbers, names or negations, too."},
      similarity(&SimilaritySettings::verifier_overrules_vetoes), AnyValue());
  add({"similarity.may_differ",
       "The only words, in lower case, in which two similar questions may differ; []: any.",
       R"(["what", "which"])"},
      similarity(&SimilaritySettings::may_differ), each(check_word));
  add({"similarity.only_if_faster",
       "Leave most questions out while vectors and scores take longer than answers of the model."},
      similarity(&SimilaritySettings::only_if_faster), AnyValue());
  add({"similarity.error_budget",
       "Share of wrong answers, 0 to 1, that the evidence must exclude before any is served."},
      similarity(&SimilaritySettings::error_budget), between(0.001, 0.5));
  add({"similarity.deadline",
       "How long to wait for a vector, and for a score; without them nothing is similar."},
      similarity(&SimilaritySettings::deadline), between<Duration>(1ms, std::chrono::minutes(1)));
}

void add_files_and_responses(std::vector<Setting<Settings>>& table) {
  const auto files = [](auto member) { return at(&Settings::files, member); };
  const auto responses = [](auto member) { return at(&Settings::responses, member); };
  const auto add = [&](Text text, auto get, auto check) {
    table.push_back(setting(text, kAtStart, get, std::move(check)));
  };
  const auto size = between(0_B, Bytes(1ULL << 50U));
  add({"files.size", "Maximum memory for uploaded files; 0 B: /v1/files is the upstream's."},
      files(&FileSettings::size), size);
  add({"files.ttl", "Time to live of an uploaded file."}, files(&FileSettings::ttl), kTtlRange);
  add({"responses.size",
       "Maximum memory for responses that previous_response_id names; 0 B: none is kept."},
      responses(&ResponseSettings::size), size);
  add({"responses.ttl", "Time to live of a stored response."}, responses(&ResponseSettings::ttl),
      kTtlRange);
}

void add_limits(std::vector<Setting<Settings>>& table) {
  const auto media = [](auto member) { return at(&Settings::media, member); };
  const auto limits = [](auto member) { return at(&Settings::limits, member); };
  const auto http = [](auto member) {
    return [member](auto& settings) -> auto& { return settings.limits.http.*member; };
  };
  const auto add = [&](Text text, TakesEffect effect, auto get, auto check) {
    table.push_back(setting(text, effect, get, check));
  };
  add({"media.hosts",
       "Hosts whose http URLs may be fetched: \"images.example.org\", \"*.example.org:8080\"."},
      kAtReload, media(&MediaSettings::hosts), each(check_host_pattern));
  add({"media.folders", "Absolute paths of folders whose files may be read through file URLs."},
      kAtReload, media(&MediaSettings::folders), each(check_folder));
  add({"media.private_addresses", "Also fetch media from loopback and private networks."},
      kAtReload, media(&MediaSettings::private_addresses), AnyValue());
  add({"media.max_size", "Maximum size of one media file."}, kAtReload,
      media(&MediaSettings::max_size), between(1_KiB, 4_GiB));
  add({"media.max_items", "Maximum number of media items in one request."}, kAtReload,
      media(&MediaSettings::max_items), between(1U, 10'000U));
  add({"media.timeout", "Timeout for fetching one media file, redirects included."}, kAtReload,
      media(&MediaSettings::timeout), kTimeoutRange);
  add({"media.max_redirects",
       "Maximum redirects of one fetch; each target is checked like the first address."},
      kAtReload, media(&MediaSettings::max_redirects), between(0U, 20U));
  add({"media.memory",
       "Maximum memory for fetched files; their servers are asked whether they changed. 0 B: none "
       "is "
       "kept."},
      kAtStart, media(&MediaSettings::memory), between(0_B, Bytes(1ULL << 50U)));

  add({"limits.body", "Maximum size of one request body."}, kAtReload, http(&HttpLimits::body),
      between(1_KiB, 4_GiB));
  add({"limits.bodies", "Maximum total size of the bodies of all requests being read or answered."},
      kAtStart, http(&HttpLimits::bodies), between(1_MiB, Bytes(1ULL << 40U)));
  add({"limits.headers", "Maximum size of the headers of one request."}, kAtStart,
      http(&HttpLimits::headers), between(1_KiB, 1_MiB));
  add({"limits.unread",
       "Maximum total size of responses that wait for clients; then the longest waiting are cut "
       "off."},
      kAtReload, http(&HttpLimits::unread), between(1_MiB, Bytes(1ULL << 40U)));
  add({"limits.connections", "Maximum number of concurrent client connections."}, kAtStart,
      http(&HttpLimits::connections), between(1U, kMaxCount));
  add({"limits.threads", "Number of I/O threads; 0: one per core, at most 8."}, kAtStart,
      limits(&LimitSettings::threads), between(0U, 256U));
  add({"limits.busy_poll",
       "Time an I/O thread polls for quick work before it sleeps; none with 0 s or a built-in "
       "engine."},
      kAtStart, limits(&LimitSettings::busy_poll), between<Duration>(0s, 10ms));
  add({"limits.header_timeout", "Timeout for receiving the headers of a request."}, kAtStart,
      http(&HttpLimits::header_timeout), kTimeoutRange);
  add({"limits.body_timeout", "Timeout for receiving the body of a request."}, kAtStart,
      http(&HttpLimits::body_timeout), kTimeoutRange);
  add({"limits.idle_timeout", "How long a connection may stay idle between two requests."},
      kAtStart, http(&HttpLimits::idle_timeout), kTimeoutRange);
  add({"limits.write_timeout", "Timeout for a client that does not read its response."}, kAtStart,
      http(&HttpLimits::write_timeout), kTimeoutRange);
  add({"limits.drain", "How long shutdown waits for running requests."}, kAtReload,
      limits(&LimitSettings::drain), between<Duration>(0s, std::chrono::days(1)));
}

void add_telemetry(std::vector<Setting<Settings>>& table) {
  const auto add = [&](Text text, TakesEffect effect, auto member, auto check) {
    table.push_back(setting(text, effect, at(&Settings::telemetry, member), std::move(check)));
  };
  add({"telemetry.otlp_endpoint",
       "Base URL of an OpenTelemetry collector (OTLP over HTTP) for traces; empty: none.",
       R"("http://127.0.0.1:4318")"},
      kAtStart, &TelemetrySettings::otlp_endpoint, or_empty(check_server_url));
  add({"telemetry.headers_env",
       "Environment variable with headers for it, such as \"api-key=…,x=y\"; empty: none."},
      kAtStart, &TelemetrySettings::headers_env, or_empty(check_variable));
  add({"telemetry.service_name", "Value of service.name in traces."}, kAtStart,
      &TelemetrySettings::service_name, check_not_empty);
  add({"telemetry.sample_ratio",
       "Share, 0 to 1, of traces that begin here; a request's traceparent says it for others."},
      kAtReload, &TelemetrySettings::sample_ratio, kFraction);
  add({"telemetry.queue", "Spans that may wait to be sent; more are dropped and counted."},
      kAtStart, &TelemetrySettings::queue, between(1U, kMaxCount));
}

void add_tenancy(std::vector<Setting<Settings>>& table) {
  const auto add = [&](Text text, TakesEffect effect, auto member, auto check) {
    table.push_back(setting(text, effect, at(&Settings::tenancy, member), std::move(check)));
  };
  add({"tenancy.unknown_keys",
       "Unlisted API keys: \"each\" is a tenant of its own, or \"refuse\" them with 401."},
      kAtReload, &TenancySettings::unknown_keys, one_of({"each", "refuse"}));
  add({"tenancy.keys_file",
       "File for API keys made through the admin API (hashes only), and their usage; empty: none.",
       R"("/var/lib/afterimage/keys.json")"},
      kAtStart, &TenancySettings::keys_file, or_empty(check_absolute));
  add({"tenancy.prices",
       "Prices of a million tokens, by model: \"qwen* prompt=0.15 output=0.6\"; the first match "
       "holds.",
       R"(["qwen* prompt=0.15 output=0.6"])"},
      kAtReload, &TenancySettings::prices, each(check_price));
  add({"tenancy.hit_price", "Share of its price, 0 to 1, that an answer from the cache costs."},
      kAtReload, &TenancySettings::hit_price, kFraction);
  add({"tenancy.save_usage",
       "How often the keys' usage is saved beside keys_file; a crash forgets at most so much."},
      kAtStart, &TenancySettings::save_usage, between<Duration>(1s, std::chrono::hours(1)));
}

void add_log_and_tenancy(std::vector<Setting<Settings>>& table) {
  table.push_back(setting(Text{"log.level", "Log level: debug, info, warn, error or off."},
                          kAtReload, at(&Settings::log, &LogSettings::level),
                          one_of({"debug", "info", "warn", "error", "off"})));
  table.push_back(setting(Text{"log.requests", "Log one line per request."}, kAtReload,
                          at(&Settings::log, &LogSettings::requests)));
  table.push_back(setting(Text{"explain.memory",
                               "Maximum memory for digests of the last prompts, to say where a "
                               "prompt parts from them; 0 B: none."},
                          kAtStart, at(&Settings::explain, &ExplainSettings::memory),
                          between(0_B, Bytes(1ULL << 40U))));
  table.push_back(setting(Text{"explain.keep_text",
                               "Keep 200 bytes of text around each place where a prompt changed, "
                               "unless hits are hidden."},
                          kAtReload, at(&Settings::explain, &ExplainSettings::keep_text)));
  add_telemetry(table);
  add_tenancy(table);
}

std::vector<Setting<Settings>> make_settings_table() {
  std::vector<Setting<Settings>> table;
  add_listeners(table);
  add_upstream(table);
  add_replicas(table);
  add_prompt(table);
  add_engine(table);
  add_memory(table);
  add_pressure(table);
  add_remote(table);
  add_remote_tls(table);
  add_moved_media(table);
  add_answers(table);
  add_similarity(table);
  add_limits(table);
  add_files_and_responses(table);
  add_log_and_tenancy(table);
  return table;
}

std::vector<Setting<TenantSettings>> make_tenant_table() {
  std::vector<Setting<TenantSettings>> table;
  const auto add = [&](TenantText text, auto member, auto check) {
    table.push_back(setting(text, kAtReload, at(member), std::move(check)));
  };
  add({"name", "Name of the tenant in logs, metrics and the admin API.", "\"acme\""},
      &TenantSettings::name, check_tenant_name);
  add({"key_sha256", "SHA-256 of its API keys, as printed by `printf %s KEY | sha256sum`.",
       "[\"64 hex digits\"]"},
      &TenantSettings::key_sha256, each(check_key_digest));
  add({"key_env", "Environment variables that hold its API keys.", "[\"ACME_KEY\"]"},
      &TenantSettings::key_env, each(check_variable));
  add({"group", "Tenants of one group share their cached content; unset: not shared.",
       "\"public\""},
      &TenantSettings::group, or_empty(check_name));
  add({"max_bytes", "Maximum size of its cached content; unset: no limit of its own.",
       "\"512 MiB\""},
      &TenantSettings::max_bytes, between(0_B, Bytes(1ULL << 60U)));
  add({"max_entries", "Maximum number of its cached entries; unset: no limit of its own.",
       "100000"},
      &TenantSettings::max_entries, between<std::uint64_t>(0, 1ULL << 40U));
  add({"requests_per_minute",
       "Request quota; requests beyond it are refused with 429; unset: no quota.", "600"},
      &TenantSettings::requests_per_minute, between(0.001, 1e9));
  add({"match_level", "Loosest match for this tenant, instead of answers.match_level.",
       "\"exact\""},
      &TenantSettings::match_level, AnyValue());
  add({"sampled", "per-requester, replay or off for this tenant, instead of answers.sampled.",
       "\"replay\""},
      &TenantSettings::sampled, or_empty(one_of({kPerRequester, kReplay, kSampledOff})));
  add({"similarity", "false: no answers to similar questions for this tenant.", "false"},
      &TenantSettings::similarity, AnyValue());
  add({"memory_share",
       "Share of memory.budget, 0 to 1, that other tenants never take; unset: none of its own.",
       "0.25"},
      &TenantSettings::memory_share, between(0.000001, 1.0));
  add({"budgets",
       "Requests, tokens or money a minute, day or month; beyond them 429: docs/keys.md.",
       R"(["1000 requests/day", "20 money/month"])"},
      &TenantSettings::budgets, each(check_budget));
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
