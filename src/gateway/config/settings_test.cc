// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/config/settings.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "gateway/config/replica_setting.h"
#include "gateway/config/settings_table.h"
#include "testing/seeds.h"

namespace afterimage {
namespace {

using namespace std::chrono_literals;
using testing::for_each_seed;

const std::string kDigest(64, 'a');
const std::string kOtherDigest(64, 'b');

Result<Settings> parse(const std::string& toml) { return parse_settings(toml, "a.toml"); }

/// The error message for a file, or "nothing".
std::string complaint(const std::string& toml) {
  const auto settings = parse(toml);
  if (settings.has_value()) return "nothing";
  EXPECT_EQ(settings.error().code, ErrorCode::kInvalidArgument) << toml;
  return settings.error().message;
}

/// `key = value` in its section.
std::string one_key(std::string_view key, const std::string& value) {
  const std::string_view section = section_of(key);
  const std::string line = fmt::format("{} = {}\n", leaf_of(key), value);
  return section.empty() ? line : fmt::format("[{}]\n{}", section, line);
}

/// Comparisons ignore where a tenant stands in the file.
Settings without_lines(Settings settings) {
  for (TenantSettings& tenant : settings.tenancy.tenants) tenant.line = 0;
  return settings;
}

TEST(Settings, EmptyFileGivesTheDefaults) {
  EXPECT_EQ(parse("").value(), Settings());
  EXPECT_EQ(parse("# nothing\n\n").value(), Settings());
}

TEST(Settings, ReadsValuesOfEveryType) {
  const Settings settings = parse(R"(
secret_file = "/etc/afterimage/secret"
listen.port = 9000
[answers]
ttl = "24 h"
match_level = "text:near"
verify_sample_rate = 1
cache_truncated = false
max_answer = "1 MiB"
[media]
hosts = ["images.example.org", "*.example.net:8080"]
[limits]
connections = 17
[[tenancy.tenants]]
name = "acme"
key_env = ["ACME_KEY"]
max_entries = 5
max_bytes = "2 GiB"
requests_per_minute = 0.5
match_level = "exact"
)")
                                .value();
  EXPECT_EQ(settings.secret_file, "/etc/afterimage/secret");
  EXPECT_EQ(settings.listen.port, 9000);
  EXPECT_EQ(settings.answers.ttl, 24h);
  EXPECT_EQ(settings.answers.max_ttl, std::nullopt);
  EXPECT_EQ(settings.answers.match_level, MatchLevel::kNear);
  EXPECT_EQ(settings.answers.verify_sample_rate, 1.0);
  EXPECT_FALSE(settings.answers.cache_truncated);
  EXPECT_EQ(settings.answers.max_answer, 1_MiB);
  EXPECT_EQ(settings.media.hosts,
            (std::vector<std::string>{"images.example.org", "*.example.net:8080"}));
  EXPECT_EQ(settings.limits.http.connections, 17U);
  ASSERT_EQ(settings.tenancy.tenants.size(), 1U);
  const TenantSettings& tenant = settings.tenancy.tenants.front();
  EXPECT_EQ(tenant.name, "acme");
  EXPECT_EQ(tenant.key_env, std::vector<std::string>{"ACME_KEY"});
  EXPECT_EQ(tenant.max_entries, 5U);
  EXPECT_EQ(tenant.max_bytes, 2_GiB);
  EXPECT_EQ(tenant.requests_per_minute, 0.5);
  EXPECT_EQ(tenant.match_level, MatchLevel::kExact);
  EXPECT_EQ(tenant.line, 14U);
}

TEST(Settings, ErrorsNameFileLineAndKey) {
  const struct {
    std::string toml;
    std::string expected;
  } kCases[] = {
      {"[listen]\nport = 8080\nport = 1", "a.toml:3: not valid TOML: "},
      {"[answers]\n\nttl = 60",
       "a.toml:3: answers.ttl: this is a number; write a string with a unit"},
      {"[answers]\nttl = \"60\"", "a.toml:2: answers.ttl: '60' is not a whole number and ns"},
      {"[answers]\nttl = \"0 s\"",
       "a.toml:2: answers.ttl: \"0 s\" is not between \"1 s\" and \"3650 d\""},
      {"[listen]\nadress = \"::1\"",
       "a.toml:2: listen.adress: unknown key; the nearest known key is listen.address"},
      {"[answers]\nbudget = \"1 GiB\"",
       "a.toml:2: answers.budget: unknown key; the nearest known key is memory.budget"},
      {"[answers]\nmax_match = \"exact\"",
       "a.toml:2: answers.max_match: answers.match_level takes its place"},
      {"[anwsers]\nttl = \"1 h\"", "a.toml:1: anwsers: unknown key; the nearest known key is "},
      {"listen = 8080", "a.toml:1: listen: this is a section: write [listen]"},
      {"[listen]\nport = \"8080\"", "listen.port: this is a string; write a whole number"},
      {"[listen]\nport = 65536", "listen.port: 65536 is not between 0 and 65535"},
      {"[listen]\nport = -1", "listen.port: -1 is not between 0 and 65535"},
      {"[listen]\nport = 80.5", "listen.port: this is a number; write a whole number"},
      {"[listen]\naddress = \"example.org\"", "listen.address: 'example.org' is not an IP"},
      {"[listen]\naddress = \"[::1]\"", "listen.address: '[::1]' is not an IP address"},
      {"[listen]\naddress = \"127.0.0.1:80\"", "is not an IP address"},
      {"[log]\nrequests = 1", "log.requests: this is a number; write true or false"},
      {"[log]\nlevel = \"verbose\"",
       "log.level: 'verbose' is not one of debug, info, warn, error, off"},
      {"[[tenancy.tenants]]\nname = \"a\"\nkey_env = [\"A\"]\nmemory_share = 0.6\n"
       "[[tenancy.tenants]]\nname = \"b\"\nkey_env = [\"B\"]\nmemory_share = 0.6",
       "a.toml:5: tenancy.tenants.memory_share: with it, the shares of all tenants exceed 1"},
      {"[memory]\npolicy = \"best\"", "memory.policy: 'best' is not one of worth, "},
      {"[memory]\nbudget = \"4 gigs\"", "memory.budget: '4 gigs' is not a whole number and B"},
      {"[memory]\ndisk = \"cache\"",
       "memory.disk: 'cache' is not an absolute path: begin it with /"},
      {"[memory]\nmin_encoder_entries = \"many\"",
       "memory.min_encoder_entries: this is a string; write a whole number, or \"auto\""},
      {"[memory]\nmodes = \"70,60,80,90\"", "memory.modes: modes '70,60,80,90': expected headroom"},
      {"[answers]\nmatch_level = \"semantic\"",
       "answers.match_level: 'semantic' is not a match level: write \"exact\""},
      {"[answers]\nassume_greedy_when_unset = true",
       "a.toml:2: answers.assume_greedy_when_unset: answers.sampled takes its place: write "
       "answers.sampled = \"replay\" instead of true, and \"off\" instead of false"},
      {"[answers]\nsampled = \"on\"",
       "answers.sampled: 'on' is not one of per-requester, replay, off"},
      {"[answers]\ndraws = 0", "answers.draws: 0 is not between 1 and 64"},
      {"[answers]\nverify_sample_rate = 1.01",
       "answers.verify_sample_rate: 1.01 is not between 0 and 1"},
      {"[answers]\nverify_sample_rate = -0.01",
       "answers.verify_sample_rate: -0.01 is not between 0 and 1"},
      {"[answers]\nverify_sample_rate = nan",
       "answers.verify_sample_rate: nan is not between 0 and 1"},
      {"[similarity]\nmay_differ = [\"What\"]",
       "similarity.may_differ: 'What' is not one word in lower case"},
      {"[similarity]\nmay_differ = [\"what is\"]", "similarity.may_differ: 'what is' is not one"},
      {"[similarity]\nmay_differ = [\"what?\"]", "similarity.may_differ: 'what?' is not one"},
      {"[media]\nhosts = \"a.org\"", "media.hosts: this is a string; write a list of strings"},
      {"[media]\nhosts = [1]", "media.hosts: this is a number; write a string"},
      {"[media]\nhosts = [\"http://a.org/\"]",
       "media.hosts: 'http://a.org/' is not a host pattern: write "},
      {"[media]\nhosts = [\"*\"]", "media.hosts: '*' is not a host pattern"},
      {"[media]\nhosts = [\"a.*.org\"]", "media.hosts: 'a.*.org' is not a host pattern"},
      {"[media]\nhosts = [\"a.org:0\"]", "media.hosts: 'a.org:0' is not a host pattern"},
      {"[media]\nfolders = [\"pictures\"]", "media.folders: 'pictures' is not an absolute path"},
      {"[media]\nfolders = [\"//\"]", "media.folders: '/' would allow every file"},
      {"[remote]\nurl = \"redis://user:hush@a\"",
       "remote.url: a redis:// URL must not contain a password"},
      {"[remote]\nurl = \"http://a\"", "remote.url: not a redis:// URL"},
      {"[remote]\ntimeout = \"0 ms\"", "remote.timeout"},
      {"[remote.tls]\nca_file = \"ca.pem\"", "remote.tls.ca_file"},
      {"[remote.tls]\nserver_name = \"a/b\"", "remote.tls.server_name: 'a/b' is not a host name"},
      {"[remote]\ntls = true", "remote.tls: this is a section: write [remote.tls]"},
      {"[listen]\ncors_origins = [\"https://a.org/\"]",
       "listen.cors_origins: 'https://a.org/' is not an origin as browsers send it"},
      {"[listen]\ncors_origins = [\"a.org\"]", "listen.cors_origins: 'a.org' is not an origin"},
      {"[listen]\ncors_origins = [\"https://A.org\"]",
       "listen.cors_origins: 'https://A.org' is not an origin"},
      {"[listen]\ncors_origins = [\"http://a.org:80\"]",
       "listen.cors_origins: 'http://a.org:80' is not an origin"},
      {"[admin]\nhosts = [\"a b\"]", "admin.hosts: 'a b' is not a host name"},
      {"[admin]\ntoken = \"short\"", "admin.token: a token must have 16 to 1024 visible"},
      {"[upstream]\nurl = \"localhost:8000\"", "upstream.url: this is not the URL of a server"},
      {"[upstream]\nurl = \"ftp://localhost\"", "upstream.url: this is not the URL of a server"},
      {"[upstream]\nurl = \"http://u:p@localhost\"",
       "upstream.url: this is not the URL of a server"},
      {"[upstream]\nurl = \"http://localhost/?a=b\"", "upstream.url: this is not the URL"},
      {"[upstream]\nurl = \"http://localhost/#a\"", "upstream.url: this is not the URL"},
      {"[upstream]\nurl = \"http://127.1/\"", "upstream.url: this is not the URL"},
      {"[upstream]\nurl = \"http://[localhost]/\"", "upstream.url: this is not the URL"},
      {"[upstream]\nurl = \"https://\"", "upstream.url: this is not the URL"},
      {"[upstream]\nreplicas = [\"a\"]", "upstream.replicas: this is not the URL of a server"},
      {"[upstream]\nreplicas = [\"http://a weight=0\"]",
       "weight=0 is not a number between 0.01 and 100"},
      {"[upstream]\nreplicas = [\"http://a weight=nan\"]", "weight=nan is not a number between"},
      {"[upstream]\nreplicas = [\"http://a limit=0\"]", "limit=0 is not a whole number between 1"},
      {"[upstream]\nreplicas = [\"http://a models=,\"]", "models= names no model"},
      {"[upstream]\nreplicas = [\"http://a name=a/b\"]", "'a/b' is not a name"},
      {"[upstream]\nreplicas = [\"http://a wait=1\"]", "'wait=' is unknown: a replica has name"},
      {"[upstream]\nreplicas = [\"http://a fast\"]", "after the URL write key=value"},
      {"[upstream]\nreplicas = [\" \"]", "a replica begins with the URL of its server"},
      {"[upstream]\nreplicas = [\"http://a events=b\"]", "events= is not a host and a port"},
      {"[upstream]\nreplicas = [\"http://a replay=b:1\"]", "replay= needs events="},
      {"[upstream]\nreplicas = [\"http://a tokenize=-1\"]",
       "tokenize=-1 is not a whole number between 0 and 1000"},
      {"[upstream]\nreplicas = [\"http://a tokenize=1001\"]", "tokenize=1001 is not a whole"},
      {"[upstream]\nreplicas = [\"http://a cache_salt=yes\"]", "cache_salt=yes is neither true"},
      {"[prompt]\nstabilise = [\"dates\"]", "'dates' is not one of billing-lines, tool-order"},
      {"[upstream]\nrouting = \"random\"", "upstream.routing: 'random' is not one of content, "},
      {"[upstream]\nhealth_path = \"health\"", "upstream.health_path: 'health' is not a path"},
      {"[engine]\nmodel = \"\"", "engine.model: the value must not be empty"},
      {"[engine]\nkv_events = \"127.0.0.1\"",
       "engine.kv_events: '127.0.0.1' is not an address and a port"},
      {"[engine]\nkv_events = \"127.0.0.1:65536\"",
       "engine.kv_events: '127.0.0.1:65536' is not an address and a port"},
      {"[engine]\nkv_events = \"localhost:5557\"",
       "engine.kv_events: 'localhost:5557' is not an address and a port"},
      {"[limits]\nthreads = 257", "limits.threads: 257 is not between 0 and 256"},
      {"[limits]\nidle_timeout = \"0 s\"", "limits.idle_timeout: \"0 s\" is not between \"1 ms\""},
      {"[tenancy]\nunknown_keys = \"allow\"", "'allow' is not one of each, refuse"},
      {"[tenancy]\ntenants = 3", "a.toml:2: tenancy.tenants: write [[tenancy.tenants]] for each"},
      {"[[tenancy.tenants]]\nname = \"key-1\"",
       "a.toml:2: tenancy.tenants.name: 'key-1' is reserved"},
      {"[[tenancy.tenants]]\nname = \"anonymous\"", "'anonymous' is reserved for tenants"},
      {"[[tenancy.tenants]]\nname = \"a b\"", "'a b' is not a name: use 1 to 64 letters"},
      {"[[tenancy.tenants]]\nname = \"a\"\nkey_sha256 = [\"sk-secret\"]",
       "a.toml:3: tenancy.tenants.key_sha256: this is not the SHA-256 of a key"},
      {"[[tenancy.tenants]]\nname = \"a\"\nkey_env = [\"A=B\"]",
       "'A=B' is not the name of an environ"},
      {"[[tenancy.tenants]]\nname = \"a\"\nrequests_per_minute = 0",
       "0 is not between 0.001 and 1"},
      {"[[tenancy.tenants]]\nname = \"a\"\nbudgets = [\"5 requests\"]",
       "a.toml:3: tenancy.tenants.budgets: this is not a budget: write \"1000 requests/day\""},
      {"[tenancy]\nprices = [\"m 1 2\"]", "a.toml:2: tenancy.prices: this is not a price"},
      {"[[tenancy.tenants]]\nnam = \"a\"",
       "tenants.nam: unknown key; the nearest known key is name"},
      {"[[tenancy.tenants]]\nmax_match = \"exact\"",
       "tenants.max_match: match_level takes its place"},
  };
  for (const auto& c : kCases) {
    EXPECT_TRUE(complaint(c.toml).contains(c.expected)) << c.toml << "\n  " << complaint(c.toml);
  }
}

TEST(Settings, ErrorsNeverRepeatKeysOrPasswords) {
  for (const char* toml :
       {"[upstream]\nurl = \"http://user:sesame@localhost\"", "[admin]\ntoken = \"sesame\"",
        "[[tenancy.tenants]]\nname = \"a\"\nkey_sha256 = [\"sesame\"]"}) {
    EXPECT_FALSE(complaint(toml).contains("sesame")) << complaint(toml);
  }
}

TEST(Settings, ReportsAllProblemsInTheOrderOfTheFile) {
  EXPECT_EQ(complaint("[log]\nlevel = \"loud\"\n[answers]\nttk = 1\nenabled = 1\n"),
            "a.toml:2: log.level: 'loud' is not one of debug, info, warn, error, off\n"
            "a.toml:4: answers.ttk: unknown key; the nearest known key is answers.ttl\n"
            "a.toml:5: answers.enabled: this is a number; write true or false");
}

TEST(Settings, TheNearestOfALongKeyIsFoundByItsBeginning) {
  const std::string key = "listen.address" + std::string(100'000, 'x');
  EXPECT_TRUE(
      complaint(key + " = 1").ends_with("x: unknown key; the nearest known key is listen.address"))
      << complaint(key + " = 1").substr(100'000);
}

TEST(Settings, RefusesSettingsThatConflict) {
  const std::string acme =
      "[[tenancy.tenants]]\nname = \"acme\"\nkey_sha256 = [\"" + kDigest + "\"]\n";
  const struct {
    std::string toml;
    std::string expected;
  } kCases[] = {
      {"[admin]\naddress = \"0.0.0.0\"", "a.toml:2: admin.address: '0.0.0.0' is reachable from "},
      {"[admin]\naddress = \"::\"", "a.toml:2: admin.address: '::' is reachable"},
      {"[admin]\naddress = \"10.0.0.1\"", "a.toml:2: admin.address: '10.0.0.1' is reachable"},
      {"[admin]\nport = 8080", "a.toml:2: admin.port: 8080 is also listen.port"},
      {"[listen]\nport = 8081", "a.toml: admin.port: 8081 is also listen.port"},
      {"[listen]\nport = 8081\naddress = \"0.0.0.0\"",
       "a.toml: admin.port: 8081 is also listen.port"},
      {"[upstream]\nurl = \"http://localhost:8080\"", "a.toml:2: upstream.url: this server itself"},
      {"[upstream]\nurl = \"http://127.0.0.1:8080/v1\"", "this server itself listens"},
      {"[upstream]\nurl = \"http://a\"\nreplicas = [\"http://b\"]",
       "a.toml:3: upstream.replicas: upstream.url is also set"},
      {"[upstream]\nreplicas = [\"http://a\", \"http://a/b\"]",
       "a.toml:2: upstream.replicas: two replicas are named a: give one a name="},
      {"[upstream]\nreplicas = [\"http://127.0.0.1:8080\"]",
       "this server itself listens at 127.0.0.1:8080"},
      {"[answers]\nttl = \"2 h\"\nmax_ttl = \"1 h\"", "a.toml:2: answers.ttl: it exceeds "},
      {"[memory]\nbudget = \"2 MiB\"", "a.toml: answers.max_answer: it exceeds memory.budget"},
      {"[moved_media]\nmode = \"certified\"",
       "a.toml:2: moved_media.mode: it needs moved_media.certificate"},
      {"[similarity]\nmode = \"on\"\nverifier_overrules_vetoes = true",
       "a.toml:3: similarity.verifier_overrules_vetoes: it needs similarity.verifier"},
      {"[similarity]\nverifier_model = \"m\"",
       "a.toml:2: similarity.verifier_model: it needs similarity.verifier"},
      {"[upstream]\nurl = \"http://a\"\n[moved_media]\nmode = \"certified\"\n"
       "certificate = \"/c\"",
       "a.toml:4: moved_media.mode: an upstream computes"},
      {"[limits]\nbody = \"2 GiB\"", "a.toml:2: limits.body: it exceeds limits.bodies"},
      {"[tenancy]\nunknown_keys = \"refuse\"", "a.toml:2: tenancy.unknown_keys: without [[ten"},
      {"[[tenancy.tenants]]\nname = \"a\"\nkey_env = [\"A\"]\nbudgets = [\"5 money/day\"]",
       "a.toml:1: tenancy.tenants.budgets: a budget of money needs tenancy.prices"},
      {"[[tenancy.tenants]]\nkey_env = [\"A\"]",
       "a.toml:1: tenancy.tenants.name: the tenant has no name"},
      {"[[tenancy.tenants]]\nname = \"a\"",
       "a.toml:1: tenancy.tenants.key_sha256: tenant a has no"},
      {acme + acme, "a.toml:4: tenancy.tenants.name: two tenants are named acme"},
      {acme + acme, "key_sha256: '" + kDigest + "' is already a key of tenant acme"},
      {acme + "[[tenancy.tenants]]\nname = \"b\"\nkey_sha256 = [\"" + std::string(64, 'A') + "\"]",
       "is already a key of tenant acme"},
      {"[[tenancy.tenants]]\nname = \"a\"\nkey_env = [\"A\", \"A\"]",
       "'A' is already a key of tenant a"},
  };
  for (const auto& c : kCases) {
    EXPECT_TRUE(complaint(c.toml).contains(c.expected)) << c.toml << "\n  " << complaint(c.toml);
  }
}

TEST(ReplicaSetting, ReadsEveryOption) {
  EXPECT_EQ(parse_replica("http://10.0.0.1:8000/v1").value().name, "10.0.0.1:8000");
  EXPECT_EQ(parse_replica("http://10.0.0.1:8000/v1").value().tokenize, 5U);
  const ReplicaSetting expected{.url = "http://a:1",
                                .name = "first",
                                .weight = 2.5,
                                .models = {"qwen*", "llava"},
                                .limit = 7,
                                .events = "a:5557",
                                .replay = "a:5558",
                                .tokenize = 0,
                                .cache_salt = false};
  EXPECT_EQ(parse_replica(" http://a:1  name=first weight=2.5 models=qwen*,llava limit=7 "
                          "events=tcp://a:5557 replay=a:5558 tokenize=0 cache_salt=false")
                .value(),
            expected);
}

TEST(ReplicaSetting, PatternsDecideWhichModelsItServes) {
  const auto serves = [](std::vector<std::string> models, std::string_view model) {
    return serves_model({.url = {}, .name = {}, .models = std::move(models)}, model);
  };
  EXPECT_TRUE(serves({}, "anything"));
  EXPECT_TRUE(serves({"qwen*"}, "qwen3-vl"));
  EXPECT_TRUE(serves({"a", "*vl*"}, "qwen3-vl-8b"));
  EXPECT_TRUE(serves({"a*b*c"}, "aXbXbXc"));
  EXPECT_FALSE(serves({"qwen*"}, "Qwen3"));
  EXPECT_FALSE(serves({"a*b*c"}, "aXbXbX"));
  EXPECT_FALSE(serves({"qwen"}, "qwen3"));
  EXPECT_FALSE(serves({""}, "qwen3"));
}

TEST(Settings, AcceptsSettingsThatDoNotConflict) {
  for (const std::string toml :
       {"[admin]\naddress = \"0.0.0.0\"\ntoken = \"0123456789abcdef\"",
        "[admin]\naddress = \"127.8.9.1\"", "[admin]\naddress = \"localhost\"",
        "[listen]\naddress = \"10.0.0.1\"\nport = 8081", "[listen]\nport = 0\n[admin]\nport = 0",
        "[upstream]\nurl = \"http://localhost:8000\"",
        "[upstream]\nurl = \"https://api.example.org/v1\"",
        "[upstream]\nurl = \"http://[::1]:8000/base\"",
        "[upstream]\nreplicas = [\"http://a\", \"http://a/b name=b weight=0.5 limit=7\"]",
        "[upstream]\nreplicas = [\"http://a:1 models=q*,m events=a:5557 replay=tcp://a:5558\"]",
        "[answers]\nttl = \"1 h\"\nmax_ttl = \"1 h\"", "[upstream]\nurl = \"http://10.0.0.9:8080\"",
        "[memory]\ndisk = \"/var/cache/afterimage\"", "[tenancy]\ntenants = []"}) {
    EXPECT_EQ(complaint(toml), "nothing") << toml;
  }
}

TEST(Settings, RefusesHostileFiles) {
  EXPECT_TRUE(
      complaint(std::string((1U << 20U) + 1, '#')).contains("the limit for settings is 1048576"));
  EXPECT_TRUE(complaint("a = \"\xff\"").contains("not valid TOML"));
  EXPECT_TRUE(complaint("a = " + std::string(100'000, '[')).contains("not valid TOML"));
  EXPECT_TRUE(complaint("[upstream]\nepoch = \"a\\u0000b\"").contains("must not contain NUL"));
}

TEST(Settings, SharesOfAGroupAddUpAndNeedARestart) {
  const auto tenant = [](std::string_view name, std::string_view more) {
    return fmt::format("[[tenancy.tenants]]\nname = \"{0}\"\nkey_env = [\"{0}\"]\n{1}\n", name,
                       more);
  };
  const Settings settings = parse(tenant("A", "group = \"g\"\nmemory_share = 0.25") +
                                  tenant("B", "group = \"g\"\nmemory_share = 0.125") +
                                  tenant("C", "memory_share = 0.5") + tenant("D", ""))
                                .value();
  EXPECT_EQ(memory_shares(settings), (std::map<std::string, double>{{"g", 0.375}, {"C", 0.5}}));
  EXPECT_EQ(needs_restart(Settings(), settings),
            std::vector<std::string>{"tenancy.tenants.memory_share"});
  EXPECT_EQ(needs_restart(settings, settings), std::vector<std::string>());
}

// The table.

TEST(SettingsTable, HasExactlyOneKeyPerMember) {
  // A new member does not compile here until it is named, which is the reminder to add its key.
  std::map<std::string_view, std::size_t> members;
  const Settings s;
  const auto count = [&](std::string_view section, const auto&... member) {
    members[section] = sizeof...(member);
  };
  {
    const auto& [listen, admin, upstream, prompt, engine, memory, prefix, moved_media, remote,
                 answers, similarity, media, files, responses, limits, log, explain, telemetry,
                 tenancy, secret_file] = s;
    count("", secret_file);
  }
  {
    const auto& [a, b, c, d, e] = s.listen;
    count("listen", a, b, c, d, e);
  }
  {
    const auto& [a, b, c, d, e, f] = s.admin;
    count("admin", a, b, c, d, e, f);
  }
  {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r] = s.upstream;
    count("upstream", a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r);
  }
  {
    const auto& [a] = s.prompt;
    count("prompt", a);
  }
  {
    const auto& [a, b, c, d, e, f, file] = s.engine;  // `file` is read from the command line
    count("engine", a, b, c, d, e, f);
  }
  {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q] = s.memory;
    count("memory", a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q);
  }
  {
    const auto& [a] = s.prefix;
    count("prefix", a);
  }
  {
    const auto& [a, b, c, d, e] = s.moved_media;
    count("moved_media", a, b, c, d, e);
  }
  {
    const auto& [a, b, c, d, e, f, tls] = s.remote;
    count("remote", a, b, c, d, e, f);
  }
  {
    const auto& [a, b, c, d] = s.remote.tls;
    count("remote.tls", a, b, c, d);
  }
  {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o] = s.answers;
    count("answers", a, b, c, d, e, f, g, h, i, j, k, l, m, n, o);
  }
  {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = s.similarity;
    count("similarity", a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p);
  }
  {
    const auto& [a, b, c, d, e, f, g, h] = s.media;
    count("media", a, b, c, d, e, f, g, h);
  }
  {
    const auto& [a, b] = s.files;
    count("files", a, b);
  }
  {
    const auto& [a, b] = s.responses;
    count("responses", a, b);
  }
  {
    const auto& [http, a, b, c] = s.limits;
    const auto& [d, e, f, g, h, i, j, k, l] = http;
    count("limits", a, b, c, d, e, f, g, h, i, j, k, l);
  }
  {
    const auto& [a, b] = s.log;
    count("log", a, b);
  }
  {
    const auto& [a, b] = s.explain;
    count("explain", a, b);
  }
  {
    const auto& [a, b, c, d, e] = s.telemetry;
    count("telemetry", a, b, c, d, e);
  }
  {
    const auto& [a, b, c, d, e, tenants] = s.tenancy;
    count("tenancy", a, b, c, d, e);
  }
  std::map<std::string_view, std::size_t> keys;
  for (const auto& setting : settings_table()) ++keys[section_of(setting.key)];
  EXPECT_EQ(keys, members);
  const TenantSettings tenant;
  const auto& [a, b, c, d, e, f, g, h, i, j, k, l, line] = tenant;
  (void)line;
  count("tenant", a, b, c, d, e, f, g, h, i, j, k, l);
  EXPECT_EQ(tenant_table().size(), members["tenant"]);
}

TEST(SettingsTable, HelpFitsOnOneLine) {
  std::set<std::string_view> keys;
  const auto check = [&](const auto& setting) {
    EXPECT_TRUE(keys.insert(setting.key).second) << setting.key << " is listed twice";
    EXPECT_TRUE(setting.help.ends_with('.')) << setting.key;
    EXPECT_FALSE(setting.help.contains('\n')) << setting.key;
    EXPECT_LE(setting.help.size(), 98U) << setting.key;
  };
  for (const auto& setting : settings_table()) check(setting);
  keys.clear();
  for (const auto& setting : tenant_table()) check(setting);
}

/// A value other than the default, for every key.
const std::map<std::string_view, std::string>& other_values() {
  static const std::map<std::string_view, std::string> kValues{
      {"secret_file", R"("/s")"},
      {"listen.address", R"("0.0.0.0")"},
      {"listen.port", "1"},
      {"listen.cors_origins", R"(["https://a.example"])"},
      {"admin.address", R"("localhost")"},
      {"admin.port", "1"},
      {"admin.token", R"("0123456789abcdef")"},
      {"admin.hosts", R"(["a.org"])"},
      {"upstream.url", R"("http://a.org")"},
      {"upstream.epoch", R"("2")"},
      {"upstream.connect_timeout", R"("1 s")"},
      {"upstream.idle_timeout", R"("1 s")"},
      {"upstream.max_connections", "1"},
      {"upstream.replicas", R"(["http://a.org"])"},
      {"upstream.fleet", R"("gpus")"},
      {"upstream.routing", R"("round-robin")"},
      {"upstream.queue", "1"},
      {"upstream.queue_timeout", R"("1 s")"},
      {"upstream.retry_budget", "0.1"},
      {"upstream.fatal_refusal", "\"1 min\""},
      {"upstream.health_path", R"("/ping")"},
      {"upstream.health_interval", R"("1 s")"},
      {"engine.model", R"("m")"},
      {"engine.max_tokens", "1"},
      {"engine.seed", "1"},
      {"engine.slots", "false"},
      {"engine.verbose", "true"},
      {"engine.kv_events", R"("127.0.0.1:5557")"},
      {"memory.budget", R"("1 GiB")"},
      {"memory.policy", R"("lru")"},
      {"memory.max_kv_tokens", "5"},
      {"memory.disk", R"("/d")"},
      {"memory.disk_size", R"("1 GiB")"},
      {"memory.disk_flush_interval", R"("200 ms")"},
      {"memory.disk_all", "true"},
      {"memory.gpu_size", R"("1 GiB")"},
      {"memory.gpu", "1"},
      {"memory.encrypt_key_file", R"("/k")"},
      {"memory.encrypt_key_env", R"("KEYS")"},
      {"memory.governor", R"("auto")"},
      {"memory.idle_limit", R"("10 min")"},
      {"memory.min_encoder_entries", R"("auto")"},
      {"memory.max_encoder_entries", "3"},
      {"memory.max_sequences", "3"},
      {"memory.modes", R"("60,70,80,90")"},
      {"prefix.enabled", "false"},
      {"moved_media.mode", R"("certified")"},
      {"moved_media.certificate", R"("/c")"},
      {"moved_media.max_loss", "0.5"},
      {"moved_media.sample_every", "1"},
      {"moved_media.capacity", R"("1 GiB")"},
      {"upstream.key_env", R"("MODEL_KEY")"},
      {"remote.url", R"("redis://u@a.org:7000,b.org")"},
      {"remote.password_env", R"("REDIS_PASSWORD")"},
      {"remote.ttl", R"("1 h")"},
      {"remote.in_flight", R"("1 GiB")"},
      {"remote.timeout", R"("100 ms")"},
      {"remote.sentinel_password_env", R"("SENTINEL_PASSWORD")"},
      {"remote.tls.ca_file", R"("/ca.pem")"},
      {"remote.tls.certificate_file", R"("/me.pem")"},
      {"remote.tls.key_file", R"("/me.key")"},
      {"remote.tls.server_name", R"("cache.example")"},
      {"answers.enabled", "false"},
      {"answers.match_level", R"("near")"},
      {"answers.ttl", R"("1 h")"},
      {"answers.max_ttl", R"("1 h")"},
      {"answers.sampled", R"("replay")"},
      {"answers.draws", "2"},
      {"answers.tool_calls", "false"},
      {"answers.cache_truncated", "false"},
      {"answers.split_batches", "false"},
      {"answers.finish_abandoned", "true"},
      {"answers.verify_sample_rate", "0.5"},
      {"answers.max_answer", R"("1 MiB")"},
      {"answers.timing_protection", R"("shared")"},
      {"answers.least_hit_time", R"("1 s")"},
      {"answers.coalesce_timeout", R"("0 s")"},
      {"similarity.mode", R"("shadow")"},
      {"similarity.folder", R"("/similar")"},
      {"similarity.projection", R"("/similar/projection.f32")"},
      {"similarity.embedder", R"("http://a.org/v1/embeddings")"},
      {"similarity.model", R"("m")"},
      {"similarity.key_env", R"("EMBEDDER_KEY")"},
      {"similarity.threshold", "0.9"},
      {"similarity.verifier", R"("http://a.org/v1/rerank")"},
      {"similarity.verifier_model", R"("m")"},
      {"similarity.verifier_key_env", R"("RERANK_KEY")"},
      {"similarity.verifier_threshold", "-2.5"},
      {"similarity.verifier_overrules_vetoes", "true"},
      {"similarity.may_differ", R"(["what"])"},
      {"similarity.only_if_faster", "false"},
      {"similarity.error_budget", "0.05"},
      {"similarity.deadline", R"("1 s")"},
      {"media.hosts", R"(["a.org"])"},
      {"media.folders", R"(["/m"])"},
      {"media.private_addresses", "true"},
      {"media.max_size", R"("1 MiB")"},
      {"media.max_items", "1"},
      {"media.timeout", R"("1 s")"},
      {"media.max_redirects", "0"},
      {"media.memory", R"("1 MiB")"},
      {"files.size", R"("1 MiB")"},
      {"files.ttl", R"("1 h")"},
      {"responses.size", R"("1 MiB")"},
      {"responses.ttl", R"("1 h")"},
      {"limits.body", R"("1 MiB")"},
      {"limits.bodies", R"("2 GiB")"},
      {"limits.headers", R"("8 KiB")"},
      {"limits.unread", "\"2 MiB\""},
      {"limits.connections", "1"},
      {"limits.threads", "1"},
      {"limits.busy_poll", R"("100 us")"},
      {"limits.header_timeout", R"("1 s")"},
      {"limits.body_timeout", R"("1 s")"},
      {"limits.idle_timeout", R"("1 s")"},
      {"limits.write_timeout", R"("1 s")"},
      {"limits.drain", R"("0 s")"},
      {"log.level", R"("debug")"},
      {"log.requests", "true"},
      {"explain.memory", R"("1 MiB")"},
      {"explain.keep_text", "true"},
      {"listen.tls_certificate", R"("/cert.pem")"},
      {"listen.tls_key", R"("/key.pem")"},
      {"admin.tls_certificate", R"("/cert.pem")"},
      {"admin.tls_key", R"("/key.pem")"},
      {"upstream.ca_file", R"("/ca.pem")"},
      {"upstream.live", R"("1 h")"},
      {"upstream.cache_salt", "true"},
      {"prompt.stabilise", R"(["tool-order"])"},
      {"telemetry.otlp_endpoint", R"("http://a.org:4318")"},
      {"telemetry.headers_env", R"("OTLP_HEADERS")"},
      {"telemetry.service_name", R"("front-door")"},
      {"telemetry.sample_ratio", "0.5"},
      {"telemetry.queue", "1"},
      {"tenancy.unknown_keys", R"("refuse")"},
      {"tenancy.keys_file", R"("/keys.json")"},
      {"tenancy.prices", R"(["m prompt=1 output=2"])"},
      {"tenancy.hit_price", "0.5"},
      {"tenancy.save_usage", R"("1 s")"},
  };
  return kValues;
}

bool needs_verifier(const Setting<Settings>& setting) {
  return setting.key == "similarity.verifier_model" ||
         setting.key == "similarity.verifier_key_env" ||
         setting.key == "similarity.verifier_overrules_vetoes";
}

std::string with_one_key_changed(const Setting<Settings>& setting) {
  std::string toml = one_key(setting.key, other_values().at(setting.key));
  if (setting.key == "tenancy.unknown_keys") {
    toml += "[[tenancy.tenants]]\nname = \"a\"\nkey_env = [\"A\"]\n";
  }
  if (setting.key == "moved_media.mode") toml += "certificate = \"/c\"\n";
  if (needs_verifier(setting)) toml += "verifier = \"http://a.org\"\n";
  return toml;
}

/// The settings without that change.
Settings before_change(const Setting<Settings>& setting) {
  Settings settings;
  if (setting.key == "moved_media.mode") settings.moved_media.certificate = "/c";
  if (needs_verifier(setting)) settings.similarity.verifier = "http://a.org";
  return settings;
}

TEST(SettingsTable, EachKeyChangesOnlyItsOwnMember) {
  ASSERT_EQ(other_values().size(), settings_table().size());
  for (const auto& changed : settings_table()) {
    const auto settings = parse(with_one_key_changed(changed));
    ASSERT_TRUE(settings.has_value()) << settings.error().message;
    const Settings before = before_change(changed);
    for (const auto& setting : settings_table()) {
      EXPECT_EQ(setting.print(*settings) != setting.print(before), setting.key == changed.key)
          << changed.key << " and " << setting.key;
    }
  }
}

TEST(SettingsTable, OnlyKeysReadAtStartNeedARestart) {
  for (const auto& changed : settings_table()) {
    const Settings next = parse(with_one_key_changed(changed)).value();
    const bool at_start = changed.effect == TakesEffect::kAtStart;
    const auto expected =
        at_start ? std::vector<std::string>{std::string(changed.key)} : std::vector<std::string>{};
    EXPECT_EQ(needs_restart(before_change(changed), next), expected);
    EXPECT_EQ(needs_restart(next, before_change(changed)), expected);
    EXPECT_TRUE(needs_restart(next, next).empty());
  }
}

TEST(NeedsRestart, ListsKeysInTheOrderOfTheFile) {
  Settings next;
  next.memory.policy = "lru";
  next.listen.port = 1;
  next.answers.ttl = 1h;
  EXPECT_EQ(needs_restart(Settings(), next),
            (std::vector<std::string>{"listen.port", "memory.policy"}));
  EXPECT_EQ(changed_settings(Settings(), next),
            (std::vector<std::string>{"listen.port", "memory.policy", "answers.ttl"}));
  EXPECT_TRUE(changed_settings(next, next).empty());
}

// Printing.

TEST(PrintSettings, RoundTripsEveryKey) {
  EXPECT_EQ(parse(print_settings(Settings())).value(), Settings());
  for (const auto& changed : settings_table()) {
    if (changed.secret) continue;
    const Settings settings = parse(with_one_key_changed(changed)).value();
    EXPECT_EQ(without_lines(parse(print_settings(settings)).value()), without_lines(settings))
        << changed.key;
  }
}

TEST(PrintSettings, NeitherShowsNorReplacesSecrets) {
  Settings settings;
  settings.admin.token = "0123456789abcdef";
  const std::string printed = print_settings(settings);
  EXPECT_FALSE(printed.contains("0123456789abcdef"));
  EXPECT_TRUE(printed.contains("# token = \"…\"\n")) << printed;
  EXPECT_EQ(parse(printed)->admin.token, "") << "\"…\" would become a secret that everybody knows";
}

TEST(PrintSettings, DeployFileEqualsThePrintedDefaults) {
  std::ifstream file(std::string(AFTERIMAGE_SOURCE_DIR) + "/deploy/afterimage.toml");
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), print_settings(Settings()))
      << "regenerate it: afterimage serve --print-config > deploy/afterimage.toml";
}

std::string random_text(Rng& rng) {
  const std::vector<std::string> kPieces{"a",    "\"",  "\\",   "\n",   "\t", "#", "é",
                                         "日本", "'''", "\x7f", "\x01", "=",  "]", " "};
  std::string text;
  for (std::uint64_t i = rng.below(8); i > 0; --i) text += kPieces[rng.below(kPieces.size())];
  return text;
}

Duration random_duration(Rng& rng, Duration least, Duration most) {
  const auto span = static_cast<std::uint64_t>((most - least).count());
  return least + Duration(static_cast<Duration::rep>(rng.below(span + 1)));
}

TenantSettings random_tenant(Rng& rng, std::size_t number) {
  TenantSettings tenant;
  tenant.name = "t" + std::to_string(number);
  tenant.key_env = {"KEY_" + std::to_string(number)};
  if (rng.chance(0.5)) tenant.key_sha256 = {fmt::format("{:064x}", number + 1)};
  if (rng.chance(0.5)) tenant.group = "g";
  if (rng.chance(0.5)) tenant.max_bytes = Bytes(rng.below(1ULL << 50U));
  if (rng.chance(0.5)) tenant.max_entries = rng.below(1ULL << 40U);
  if (rng.chance(0.5)) tenant.requests_per_minute = 0.001 + rng.uniform() * 1e6;
  if (rng.chance(0.5)) tenant.match_level = kMatchLevels[rng.below(3)];
  if (rng.chance(0.5)) tenant.budgets = {"1000 requests/day", "5 tokens/minute"};
  if (rng.chance(0.5)) tenant.memory_share = 0.000001 + rng.uniform() / 4;
  return tenant;
}

Settings random_settings(Rng& rng) {
  Settings s;
  s.listen.port = static_cast<std::uint16_t>(1 + rng.below(8079));
  s.upstream.epoch = random_text(rng);
  for (std::size_t i = rng.below(4); i > 0; --i) {
    s.upstream.replicas.push_back(fmt::format("http://r{}:8000 weight={}", i, 1 + rng.below(9)));
  }
  s.upstream.queue = static_cast<std::uint32_t>(rng.below(1000));
  s.upstream.retry_budget = rng.uniform();
  s.engine.model = "m" + random_text(rng);
  if (rng.chance(0.5)) s.engine.kv_events = fmt::format("[::1]:{}", rng.below(65536));
  s.memory.disk = "/" + random_text(rng) + "x";
  s.memory.disk_flush_interval = random_duration(rng, 10ms, 1h);
  s.memory.disk_all = rng.chance(0.5);
  s.memory.gpu_size = Bytes(rng.below(1ULL << 40U));
  s.memory.max_kv_tokens = rng.below(1ULL << 40U);
  s.memory.min_encoder_entries.count = rng.below(1'000'000);
  if (rng.chance(0.5)) {
    s.memory.governor = "auto";
    s.memory.idle_limit = random_duration(rng, 1s, 24h);
  }
  s.memory.budget = Bytes((1ULL << 33U) + rng.below(1ULL << 40U));
  if (rng.chance(0.5)) s.answers.ttl = random_duration(rng, 1s, 24h);
  if (rng.chance(0.5)) s.answers.max_ttl = random_duration(rng, 24h, 2400h);
  s.answers.verify_sample_rate = rng.uniform();
  s.answers.match_level = kMatchLevels[rng.below(3)];
  s.media.folders = {"/" + random_text(rng) + "x", "/y"};
  s.media.timeout = random_duration(rng, 1ms, 24h);
  s.limits.drain = random_duration(rng, 0s, 24h);
  s.limits.threads = static_cast<std::uint32_t>(rng.below(257));
  s.log.requests = rng.chance(0.5);
  s.telemetry.sample_ratio = rng.uniform();
  s.tenancy.hit_price = rng.uniform();
  if (rng.chance(0.5)) s.tenancy.prices = {"qwen* prompt=0.15 output=0.6"};
  s.similarity.mode = rng.chance(0.5) ? "on" : "shadow";
  s.similarity.deadline = random_duration(rng, 1ms, 60s);
  s.similarity.verifier_threshold = 200 * rng.uniform() - 100;
  for (std::size_t i = rng.below(4); i > 0; --i) {
    s.tenancy.tenants.push_back(random_tenant(rng, i));
  }
  return s;
}

TEST(PrintSettingsProperty, RoundTripsRandomSettings) {
  for_each_seed(300, [](Rng& rng) {
    const Settings settings = random_settings(rng);
    const auto again = parse(print_settings(settings));
    ASSERT_TRUE(again.has_value()) << again.error().message << "\n" << print_settings(settings);
    ASSERT_EQ(without_lines(*again), settings) << print_settings(settings);
    ASSERT_EQ(print_settings(*again), print_settings(settings));
  });
}

}  // namespace
}  // namespace afterimage
