// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/question.h"
#include "afterimage/result.h"
#include "afterimage/units.h"
#include "foundation/http/server.h"
#include "storage/redis/remote_tls.h"

namespace afterimage {

/// Settings of `afterimage serve` with their defaults. `afterimage serve --print-config` prints
/// them as a TOML file; settings_table.cc maps every member to its key, help line and limits.
struct ListenSettings {
  std::string address = "127.0.0.1";
  std::uint16_t port = 8080;    // 0: any free port
  std::string tls_certificate;  // PEM file of the certificate and its chain; empty: plain HTTP
  std::string tls_key;          // PEM file of its private key; empty: it is in tls_certificate
  /// Whose pages may use the API from a browser: "https://app.example.org", or "*" for all.
  std::vector<std::string> cors_origins = {};

  bool operator==(const ListenSettings&) const = default;
};

struct AdminSettings {
  std::string address = "127.0.0.1";
  std::uint16_t port = 8081;       // 0: any free port
  std::string token;               // empty: none required; then only a loopback address is allowed
  std::vector<std::string> hosts;  // host names that browsers may use, besides loopback names
  std::string tls_certificate;     // as of ListenSettings
  std::string tls_key;

  bool operator==(const AdminSettings&) const = default;
};

struct UpstreamSettings {
  std::string url;      // "http://127.0.0.1:8000"; empty: use the built-in engine
  std::string key_env;  // environment variable with the upstream's API key, sent instead of the
                        // client's key; empty: forward the client's key
  std::string epoch;    // version of the weights: change it when they change under the same name
  Duration connect_timeout = std::chrono::seconds(5);
  Duration idle_timeout = std::chrono::seconds(300);  // between two pieces of a response
  std::uint32_t max_connections = 1024;               // to `url`, or to each replica
  std::vector<std::string> replicas;  // several servers instead of `url`: see ReplicaSetting
  std::string fleet = "fleet";        // names the replicas as one: answers are cached under it
  std::string routing = "content";    // which replica: "content", "least-loaded", "round-robin"
  std::uint32_t queue = 1024;         // requests that may wait for a replica; more are refused
  Duration queue_timeout = std::chrono::seconds(30);
  double retry_budget = 0.2;  // retries on another replica, as a share of the requests
  Duration fatal_refusal = std::chrono::minutes(5);  // of a request that ended two replicas
  std::string health_path = "/health";
  Duration health_interval = std::chrono::seconds(5);
  std::string ca_file;  // PEM file of the authorities trusted for https; empty: the system's
  std::optional<Duration> live = std::nullopt;  // its answers are served for at most so long
  /// Whether prompts are sent with a cache_salt of their tenant; unset: to vLLM and SGLang.
  std::optional<bool> cache_salt = std::nullopt;

  bool operator==(const UpstreamSettings&) const = default;
  /// Another server computes, and not the engine of this process.
  [[nodiscard]] bool is_set() const { return !url.empty() || !replicas.empty(); }
};

/// What of a prompt may be changed so that it begins as the one before.
struct PromptSettings {
  /// "billing-lines", "tool-order", "schema-keys", "date-line": see gateway/protocol/stabilise.h.
  std::vector<std::string> stabilise = {"billing-lines"};

  bool operator==(const PromptSettings&) const = default;
};

struct EngineSettings {  // the built-in engine
  std::string model = "afterimage-reference";
  /// For requests that set no limit; absent: the engine's own (llama: none, reference: 64).
  std::optional<std::uint32_t> max_tokens = std::nullopt;
  std::optional<std::uint64_t> seed = std::nullopt;  // for requests that name none
  bool slots = true;                                 // whether clients may see what lanes do
  bool verbose = false;                              // as if every request had "verbose"
  std::string kv_events;  // "address:port" to publish KV events at; or empty
  std::string file;       // the model's file, for clients; from the command line, not a setting

  bool operator==(const EngineSettings&) const = default;
};

/// A whole number, or "auto".
struct CountOrAuto {
  std::uint64_t count = 0;
  bool is_auto = false;
  bool operator==(const CountOrAuto&) const = default;
};

struct MemorySettings {
  Bytes budget = 4_GiB;
  std::string policy = "worth";
  std::uint64_t max_kv_tokens = 0;  // 0: the budget decides
  std::uint64_t max_sequences = 0;  // 0: the budget decides
  std::string disk;                 // a folder; empty: memory only
  Bytes disk_size = 64_GiB;
  Duration disk_flush_interval = std::chrono::seconds(1);  // most that kill -9 loses
  bool disk_all = false;         // write new entries even where almost none is asked for again
  Bytes gpu_size = 0_B;          // 0: no GPU memory is used
  std::uint32_t gpu = 0;         // its index
  std::string encrypt_key_file;  // encrypts disk and remote entries; both empty: no encryption
  std::string encrypt_key_env;   // environment variable with the keys, instead of a file

  bool operator==(const MemorySettings&) const = default;
  /// The memory gauge that makes caches shrink under pressure: "auto" (this machine, or the
  /// container it runs in), the folder of a cgroup, or empty for a fixed budget.
  std::string governor;
  std::string modes = "headroom";  // when the governor's modes begin: parse_modes()
  /// Longest time that an entry stays in memory unused; under pressure a fifth to a twentieth of it.
  std::optional<Duration> idle_limit = std::nullopt;
  CountOrAuto min_encoder_entries;  // what new entries leave; pressure does not
  std::uint64_t max_encoder_entries = 1'000'000;
};

struct PrefixSettings {
  bool enabled = true;  // cache KV of prompts

  bool operator==(const PrefixSettings&) const = default;
};

/// KV of media at other positions than where it was computed: bounded answers instead of exact ones.
struct MovedMediaSettings {
  std::string mode = "off";         // "off"; "certified": with a certificate that meets max_loss
  std::string certificate;          // a file that `afterimage-lab certify` wrote for this model
  double max_loss = 0.01;           // allowed share of answer tokens that differ
  std::uint32_t sample_every = 50;  // one bounded answer in so many is compared with an exact one
  Bytes capacity = 256_MiB;         // of items' KV, out of memory.budget

  bool operator==(const MovedMediaSettings&) const = default;
};

struct RemoteSettings {
  std::string url;  // "redis://user@host:port,…" (docs/remote.md); empty: no shared cache
  std::string password_env = "AFTERIMAGE_REMOTE_PASSWORD";  // an environment variable
  Duration ttl = std::chrono::hours(24);                    // time to live of remote entries
  Bytes in_flight = 64_MiB;  // limit of memory for writes in progress, and so of one entry
  Duration timeout = std::chrono::milliseconds(50);  // of one operation; four times that to connect
  /// An environment variable with the password of the Sentinels, if they have one.
  std::string sentinel_password_env = "AFTERIMAGE_REMOTE_SENTINEL_PASSWORD";
  RemoteTlsOptions tls;  // of rediss:// URLs

  bool operator==(const RemoteSettings&) const = default;
};

/// What serves requests that are sampled: neither temperature 0 nor a seed.
inline constexpr std::string_view kPerRequester = "per-requester";  // draws, none to anybody twice
inline constexpr std::string_view kReplay = "replay";   // one answer, as to other requests
inline constexpr std::string_view kSampledOff = "off";  // nothing

struct AnswerSettings {
  bool enabled = true;
  MatchLevel match_level = MatchLevel::kCanonical;  // loosest match served; requests may tighten it
  std::optional<Duration> ttl = std::nullopt;       // for requests that set none; absent: no expiry
  std::optional<Duration> max_ttl = std::nullopt;   // upper limit of what a request may set
  std::string sampled = std::string(kPerRequester);  // or kReplay, kSampledOff
  std::uint32_t draws = 8;           // of one sampled request that are cached at most
  bool tool_calls = true;            // cache answers with tool calls; exact matches only
  bool cache_truncated = true;       // cache answers that max_tokens truncated; exact matches only
  bool split_batches = true;         // each input of a batch of embeddings is an entry of its own
  bool finish_abandoned = false;     // all clients left: finish the call and cache its answer
  double verify_sample_rate = 0.01;  // share of non-exact hits that are compared with the model
  Bytes max_answer = 4_MiB;          // larger answers are not cached
  /// Hits to delay by as long as the cached answer took to compute: "off", "shared" (tenants of a
  /// group, and requests without a key, which share one tenant) or "all".
  std::string timing_protection = "off";
  Duration least_hit_time{0};  // lower limit of a delayed hit's duration
  /// How long to wait for another gateway's answer to the same request. 0: do not wait, and take no
  /// lease that makes other gateways wait.
  Duration coalesce_timeout = std::chrono::seconds(10);

  bool operator==(const AnswerSettings&) const = default;
};

inline constexpr std::string_view kBuiltInEmbedder = "built-in";

/// Whether an embedder or a verifier is a file.
[[nodiscard]] inline bool is_model_file(std::string_view model) { return model.starts_with('/'); }

/// Answers to questions that are alike by meaning.
struct SimilaritySettings {
  std::string mode = "off";  // "off"; "shadow": compare and learn, serve nothing; "on"
  /// With models and their thresholds, which then replace those below; "off" means "on". Empty: none.
  std::string folder;
  /// What makes vectors of questions: kBuiltInEmbedder, the URL of a server's /v1/embeddings, or
  /// the absolute path of a GGUF file.
  std::string embedder = std::string(kBuiltInEmbedder);
  std::string model;        // that the server expects
  std::string key_env;      // environment variable with the server's API key
  std::string projection;   // absolute path of a matrix: ProjectedEmbedder; empty: none
  double threshold = 0.85;  // least cosine of two similar questions
  /// What reads both questions: the URL of a server's /v1/rerank, or the absolute path of a GGUF
  /// file; empty: nothing. Its score of a pair must reach the threshold.
  std::string verifier;
  std::string verifier_model;       // that the server expects
  std::string verifier_key_env;     // environment variable with the server's API key
  double verifier_threshold = 0.9;  // least score of two similar questions
  bool verifier_overrules_vetoes = false;
  std::vector<std::string> may_differ;                 // no other words may; empty: any
  bool only_if_faster = true;                          // than the model, as far as is known
  double error_budget = 0.01;                          // share of wrong answers among those served
  Duration deadline = std::chrono::milliseconds(150);  // of a call of either server

  bool operator==(const SimilaritySettings&) const = default;
};

struct MediaSettings {
  std::vector<std::string> hosts;    // hosts whose http URLs may be fetched: see HostPattern
  std::vector<std::string> folders;  // absolute folders whose files file URLs may name
  bool private_addresses = false;    // also fetch from loopback and private networks
  Bytes max_size = 32_MiB;           // of one file
  std::uint32_t max_items = 64;      // in one request
  Duration timeout = std::chrono::seconds(10);
  std::uint32_t max_redirects = 3;  // each target is checked like the first address
  Bytes memory = 64_MiB;            // of fetched files, to ask their servers whether they changed

  bool operator==(const MediaSettings&) const = default;
};

/// What POST /v1/files keeps, in memory.
struct FileSettings {
  Bytes size = 256_MiB;  // of all clients' files; 0: /v1/files is the upstream's
  Duration ttl = std::chrono::hours(24);

  bool operator==(const FileSettings&) const = default;
};

/// What POST /v1/responses keeps, in memory, for previous_response_id.
struct ResponseSettings {
  Bytes size = 64_MiB;  // of all clients' responses; 0: none is kept
  Duration ttl = std::chrono::hours(24);

  bool operator==(const ResponseSettings&) const = default;
};

struct LimitSettings {
  HttpLimits http;
  std::uint32_t threads = 0;  // 0: one per core, at most 8
  /// For how long an I/O thread polls before it sleeps, while work keeps coming; 0: never. Not beside a
  /// built-in engine, which needs the cores.
  Duration busy_poll = std::chrono::microseconds(200);
  Duration drain = std::chrono::seconds(30);  // for running requests at shutdown

  bool operator==(const LimitSettings&) const = default;
};

struct LogSettings {
  std::string level = "info";  // debug, info, warn, error, off
  bool requests = false;       // log one line per request

  bool operator==(const LogSettings&) const = default;
};

/// Why a prompt was not reused.
struct ExplainSettings {
  Bytes memory = 16_MiB;   // for the last prompts of each tenant; 0: none
  bool keep_text = false;  // around the places where prompts part

  bool operator==(const ExplainSettings&) const = default;
};

/// Traces to an OpenTelemetry collector, over OTLP/HTTP.
struct TelemetrySettings {
  std::string otlp_endpoint;  // "http://127.0.0.1:4318"; empty: no traces
  std::string headers_env;    // environment variable with headers for it: "name=value,…"
  std::string service_name = "afterimage";
  double sample_ratio = 1;     // of traces that begin here; others follow the caller's decision
  std::uint32_t queue = 4096;  // spans that wait to be sent; more are dropped and counted

  bool operator==(const TelemetrySettings&) const = default;
};

/// A tenant and its API keys. Settings hold only digests of keys and names of environment
/// variables; a key in clear is in memory only while it is hashed.
struct TenantSettings {
  std::string name;
  std::vector<std::string> key_sha256;            // SHA-256 of its API keys: 64 hex digits each
  std::vector<std::string> key_env;               // environment variables that hold its API keys
  std::string group;                              // tenants of a group share their cached content
  std::optional<Bytes> max_bytes = std::nullopt;  // of its cached content
  std::optional<std::uint64_t> max_entries = std::nullopt;
  std::optional<double> requests_per_minute = std::nullopt;
  std::optional<MatchLevel> match_level = std::nullopt;  // instead of answers.match_level
  std::string sampled;                                   // instead of answers.sampled; empty: not
  bool similarity = true;                                // false: as if similarity.mode were "off"
  std::optional<double> memory_share = std::nullopt;     // of memory.budget, kept for the tenant
  std::vector<std::string> budgets;                      // "1000 requests/day": see Budget
  std::uint64_t line = 0;                                // where it begins in the file

  bool operator==(const TenantSettings&) const = default;
};

struct TenancySettings {
  /// Requests whose API key is not listed: "each" makes every such key a tenant of its own, and all
  /// requests without a key one tenant; "refuse" answers 401.
  std::string unknown_keys = "each";
  std::string keys_file;            // of the keys that the admin API makes; empty: it makes none
  std::vector<std::string> prices;  // "qwen* prompt=0.15 output=0.6": see ModelPrice
  double hit_price = 0;             // share of its price that an answer from the cache costs
  Duration save_usage = std::chrono::seconds(5);  // what a crash may forget of the keys' usage
  std::vector<TenantSettings> tenants;

  bool operator==(const TenancySettings&) const = default;
};

struct Settings {
  ListenSettings listen;
  AdminSettings admin;
  UpstreamSettings upstream;
  PromptSettings prompt;
  EngineSettings engine;
  MemorySettings memory;
  PrefixSettings prefix;
  MovedMediaSettings moved_media;
  RemoteSettings remote;
  AnswerSettings answers;
  SimilaritySettings similarity;
  MediaSettings media;
  FileSettings files;
  ResponseSettings responses;
  LimitSettings limits;
  LogSettings log;
  ExplainSettings explain;
  TelemetrySettings telemetry;
  TenancySettings tenancy;
  std::string secret_file;  // 32 bytes, this installation's secret; empty: random in each process

  bool operator==(const Settings&) const = default;
};

/// Reads a settings file.
///
/// Shape    One section per struct, one key per member: [answers] ttl = "24 h"; a table
///          [[tenancy.tenants]] per tenant. Durations and sizes are strings with a unit ("90 s",
///          "10 min", "24 h", "7 d", "512 MiB"), match levels are names ("exact", "text:exact").
/// Errors   kInvalidArgument: not TOML, an unknown key (the message names the nearest known one), a
///          value of the wrong type or out of range, settings that conflict. The message has one
///          line per problem, in the order of the file: "afterimage.toml:12: answers.ttl: …".
///          Conflicts between settings are reported only if every value is valid; a conflict with a
///          default has no line number: "afterimage.toml: answers.ttl: …".
/// Threads  Any.
[[nodiscard]] Result<Settings> parse_settings(std::string_view toml, std::string_view file);

/// Prints a file that parse_settings() reads back to the same settings, with a help line per key.
/// A secret that is set (admin.token) is printed as "…" and commented out, so that "…" never
/// becomes the secret; settings that require it, such as an admin.address other than loopback, are
/// refused until the operator writes the secret in again.
[[nodiscard]] std::string print_settings(const Settings& settings);

/// The keys that differ and take effect only after a restart: "listen.port", …
[[nodiscard]] std::vector<std::string> needs_restart(const Settings& now, const Settings& next);
/// Tenants' shares of the memory, by the name under which their cached content is kept: of their
/// group, whose members' shares add up, or their own.
[[nodiscard]] std::map<std::string, double> memory_shares(const Settings& settings);
/// All keys that differ.
[[nodiscard]] std::vector<std::string> changed_settings(const Settings& now, const Settings& next);

}  // namespace afterimage
