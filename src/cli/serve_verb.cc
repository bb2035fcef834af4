// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "cli/engine_args.h"
#include "cli/output.h"
#include "cli/remote_args.h"
#include "cli/verbs.h"
#include "cli/workload_args.h"
#include "engines/llama/llama_embedder.h"
#include "engines/llama/llama_verifier.h"
#include "foundation/platform/wall_clocks.h"
#include "gateway/config/settings.h"
#include "gateway/model_server/model_server.h"
#include "gateway/model_server/server_words.h"
#include "gateway/service/service.h"
#include "storage/redis/remote_address.h"
#include "storage/stores/stores.h"

namespace afterimage {
namespace {

struct ServeArgs {
  std::string config;
  std::string upstream;
  EngineArgs engine;
  RemoteArgs remote;
  std::string encrypt_key_file;
  int port = -1;
  int admin_port = -1;
  bool print_config = false;
  bool check = false;
  bool demo = false;
};

/// Where the model of --demo lies, seen from the program's folder: installed, or built.
constexpr std::array kDemoFolders{"../share/afterimage", "../../share/afterimage", "../models"};
constexpr std::uint32_t kDemoContext = 2'048;
constexpr Bytes kLargestProjection = 64_MiB;

constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};

Result<void> choose_demo_model(EngineArgs& engine) {
  if (!engine.llama.model.empty() || !engine.llama.mmproj.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "--demo brings its own model: leave out --model and --mmproj, or --demo");
  }
  std::error_code unknown;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", unknown).parent_path();
  for (const char* const folder : kDemoFolders) {
    const auto model = (program / folder / "seer.gguf").lexically_normal();
    if (!std::filesystem::exists(model, unknown)) continue;
    engine.engine = "llama";
    engine.llama.model = model.string();
    engine.llama.mmproj = (model.parent_path() / "seer.mmproj.gguf").string();
    engine.context = kDemoContext;
    return {};
  }
  return fail(ErrorCode::kNotFound,
              fmt::format("--demo needs the small model that sees, which is not in {}: run "
                          "`make demo` in the source folder",
                          (program / kDemoFolders.back()).lexically_normal().string()));
}

std::string upstream_name(const UpstreamSettings& upstream) {
  if (!upstream.url.empty()) return upstream.url;
  return fmt::format("{} ({} replicas)", upstream.fleet, upstream.replicas.size());
}

/// Models and thresholds of similarity.folder.
Result<void> take_similar_folder(SimilaritySettings& similarity, const Files& files) {
  if (similarity.folder.empty()) return {};
  const std::string file = similarity.folder + "/similarity.toml";
  AFI_TRY(const auto bytes, files.read(file, 64_KiB));
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  AFI_TRY(const auto there, files.list(similarity.folder));
  for (const std::string name : {"embedder.gguf", "projection.f32", "verifier.gguf"}) {
    const bool needed = name == "embedder.gguf";
    if (!needed && std::ranges::find(there, name) == there.end()) continue;
    text +=
        fmt::format("\n{} = '''{}/{}'''", name.substr(0, name.find('.')), similarity.folder, name);
  }
  AFI_TRY(const Settings read, parse_settings(text, file));
  similarity.mode = similarity.mode == "off" ? "on" : similarity.mode;
  similarity.embedder = read.similarity.embedder;
  similarity.projection = read.similarity.projection;
  similarity.verifier = read.similarity.verifier;
  similarity.threshold = read.similarity.threshold;
  similarity.verifier_threshold = read.similarity.verifier_threshold;
  similarity.verifier_overrules_vetoes = read.similarity.verifier_overrules_vetoes;
  similarity.may_differ = read.similarity.may_differ;
  return {};
}

/// The settings file with the command line's overrides.
Result<Settings> settings_of(const ServeArgs& args, const Files& files) {
  std::string text;
  if (!args.config.empty()) {
    AFI_TRY(const auto bytes, files.read(args.config, 1_MiB));
    text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  if (!args.upstream.empty()) {
    // Validated like the same setting in a file.
    AFI_TRY([[maybe_unused]] const Settings checked,
            parse_settings("upstream.url = '''" + args.upstream + "'''", "--upstream"));
  }
  AFI_TRY(Settings settings, parse_settings(text, args.config.empty() ? "defaults" : args.config));
  AFI_TRY_VOID(take_similar_folder(settings.similarity, files));
  if (!args.upstream.empty()) {  // the command line takes precedence over the file
    settings.upstream.url = args.upstream;
    settings.upstream.replicas.clear();
  }
  if (args.engine.engine == "llama") {
    if (settings.upstream.is_set()) {
      return fail(ErrorCode::kInvalidArgument,
                  std::string(args.demo ? "--demo" : "--engine llama") + " and the upstream '" +
                      upstream_name(settings.upstream) +
                      "' exclude each other: remove one of them");
    }
    if (settings.engine.model == EngineSettings().model) {
      settings.engine.model = std::filesystem::path(args.engine.llama.model).stem().string();
    }
    settings.engine.file = std::filesystem::path(args.engine.llama.model).filename().string();
  }
  if (!args.remote.url.empty()) {
    AFI_TRY([[maybe_unused]] const RemoteUrl checked, parse_remote_url(args.remote.url));
    settings.remote.url = args.remote.url;
  }
  if (!args.remote.secret_file.empty()) settings.secret_file = args.remote.secret_file;
  AFI_TRY_VOID(check_shared_secret(settings.remote.url, settings.secret_file));
  if (!args.encrypt_key_file.empty()) settings.memory.encrypt_key_file = args.encrypt_key_file;
  if (args.port >= 0) settings.listen.port = static_cast<std::uint16_t>(args.port);
  if (args.admin_port >= 0) settings.admin.port = static_cast<std::uint16_t>(args.admin_port);
  return settings;
}

/// The signals that the main thread waits for; all other threads block them.
sigset_t all_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kSignals) sigaddset(&set, signal);
  return set;
}

void reload(Service& service) {
  const auto done = service.reload();
  if (!done.has_value()) {
    fmt::print(stderr, "afterimage serve: reload failed, the settings are unchanged: {}\n",
               done.error().message);
    return;
  }
  fmt::print("reloaded the settings: {} changed, {} take effect after a restart\n",
             done->applied.size(), done->needs_restart.size());
  std::fflush(stdout);
}

std::string address_of(const std::string& host, std::uint16_t port) {
  return host.contains(':') ? fmt::format("http://[{}]:{}", host, port)
                            : fmt::format("http://{}:{}", host, port);
}

/// Reloads on SIGHUP; drains and returns on SIGINT or SIGTERM.
ExitCode wait_for_signals(Service& service, const sigset_t& signals) {
  while (true) {
    int signal = 0;
    sigwait(&signals, &signal);
    if (signal == SIGHUP) {
      reload(service);
      continue;
    }
    fmt::print("finishing running requests; a second signal ends at once\n");
    std::fflush(stdout);
    // A second signal has its default effect: it kills the process.
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    return service.drain() ? ExitCode::kFine : ExitCode::kProblem;
  }
}

/// What of similarity is in files.
Result<void> open_similarity_models(const SimilaritySettings& similarity, const Files& files,
                                    ServiceOptions& options) {
  if (similarity.mode == "off") return {};
  if (is_model_file(similarity.embedder)) {
    AFI_TRY(options.embedder, make_llama_embedder(similarity.embedder));
  }
  if (is_model_file(similarity.verifier)) {
    AFI_TRY(options.verifier, make_llama_verifier(similarity.verifier));
  }
  if (!similarity.projection.empty()) {
    AFI_TRY(options.projection, files.read(similarity.projection, kLargestProjection));
  }
  return {};
}

ExitCode serve_requests(ServeArgs& args, World& world) {
  if (args.demo) {
    const auto chosen = choose_demo_model(args.engine);
    if (!chosen.has_value()) return report_error("serve", chosen.error(), ExitCode::kUsageError);
  }
  auto settings = settings_of(args, world.files);
  if (!settings.has_value()) return report_error("serve", settings.error(), ExitCode::kUsageError);
  if (args.print_config) {
    fmt::print("{}", print_settings(*settings));
    return ExitCode::kFine;
  }
  if (args.check) {
    fmt::print("the settings are valid\n");
    return ExitCode::kFine;
  }
  ServiceOptions options{.settings = *settings,
                         .read_settings = [args, &world] { return settings_of(args, world.files); },
                         .engine = nullptr,
                         .wants_to_end = [] { kill(getpid(), SIGTERM); },
                         .version = AFTERIMAGE_VERSION,
                         .demo = args.demo};
  std::string prefixes;  // what becomes of the KV of prompts; empty: the upstream's own matter
  if (!settings->upstream.is_set()) {
    auto engine = make_engine(args.engine, world.clock);
    if (!engine.has_value()) return report_error("serve", engine.error(), ExitCode::kUsageError);
    options.engine = *std::move(engine);
    prefixes = settings->prefix.enabled ? prefix_words(*options.engine)
                                        : "KV prefixes are not cached: prefix.enabled is false";
  }
  const auto models = open_similarity_models(settings->similarity, world.files, options);
  if (!models.has_value()) return report_error("serve", models.error(), ExitCode::kUsageError);
  // Before other threads start: they inherit the mask.
  const sigset_t signals = all_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const SystemWallClock wall_clock;
  auto service = Service::start(std::move(options), world.clock, wall_clock);
  if (!service.has_value()) {
    const bool is_usage_error = service.error().code == ErrorCode::kInvalidArgument;
    return report_error("serve", service.error(),
                        is_usage_error ? ExitCode::kUsageError : ExitCode::kProblem);
  }
  const std::string name(settings->upstream.is_set() ? upstream_name(settings->upstream)
                                                     : args.engine.name());
  fmt::print("listening on {}/v1, backend: {}\n",
             address_of(settings->listen.address, (*service)->port()), name);
  if (!prefixes.empty()) fmt::print("{}\n", prefixes);
  fmt::print("admin: {}/ (dashboard and metrics{})\n",
             address_of(settings->admin.address, (*service)->admin_port()),
             args.demo ? "; open it and ask about a picture" : "");
  std::fflush(stdout);
  if (settings->upstream.is_set()) {
    const auto info = model_server_of(settings->upstream);  // clients are served meanwhile
    for (const std::string& line : server_words(info, *settings)) fmt::print("{}\n", line);
    std::fflush(stdout);
  }
  return wait_for_signals(**service, signals);
}

}  // namespace

void add_serve(CLI::App& program, World& world, ExitCode& code) {
  auto args = std::make_shared<ServeArgs>();
  CLI::App* verb = program.add_subcommand(
      "serve",
      "Serve the OpenAI API and cache what it answers; an upstream (vLLM, SGLang, llama-server,\n"
      "Ollama, …) or the built-in engine answers cache misses");
  verb->add_option("--upstream", args->upstream,
                   "OpenAI-compatible server that answers cache "
                   "misses; default: the built-in engine")
      ->type_name("URL");
  verb->add_flag("--demo", args->demo,
                 "Serve a small model that answers questions about simple pictures; the dashboard "
                 "asks it")
      ->excludes("--upstream");
  add_engine_options(*verb, args->engine);
  add_remote_options(*verb, args->remote);
  verb->add_option("--config", args->config, "Settings file; --print-config prints one")
      ->type_name("FILE");
  verb->add_option("--port", args->port,
                   "Port for clients, instead of listen.port (8080); 0: "
                   "any free port")
      ->check(CLI::Range(0, 65535))
      ->type_name("N");
  verb->add_option("--admin-port", args->admin_port,
                   "Port of the dashboard and the metrics, instead of admin.port (8081); 0: any "
                   "free port")
      ->check(CLI::Range(0, 65535))
      ->type_name("N");
  verb->add_option("--encrypt-key-file", args->encrypt_key_file,
                   "Encrypt what the disk and the servers store under these keys, instead of "
                   "those in\n"
                   "memory.encrypt_key_file")
      ->type_name("FILE");
  verb->add_flag("--print-config", args->print_config,
                 "Print every setting with its explanation, as a file for --config, and exit");
  verb->add_flag("--check", args->check, "Check the settings and exit");
  verb->footer(
      "Examples:\n"
      "  afterimage serve --demo\n"
      "  afterimage serve --upstream http://127.0.0.1:8000\n"
      "  afterimage serve --engine llama --model model.gguf --mmproj mmproj.gguf\n"
      "  afterimage serve --print-config > afterimage.toml\n"
      "  afterimage serve --config afterimage.toml\n"
      "  curl http://127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' -d \\\n"
      "    '{\"model\": \"m\", \"temperature\": 0, \"messages\": [{\"role\": \"user\", "
      "\"content\": \"Hi\"}]}'\n"
      "Clients set their base URL to http://127.0.0.1:8080/v1 (Anthropic's: without /v1) and "
      "change\n"
      "nothing else: chats, completions, embeddings, messages, responses and files.\n"
      "SIGHUP reloads the settings; SIGTERM finishes running requests, then exits.");
  verb->callback([args, &world, &code] { code = serve_requests(*args, world); });
}

}  // namespace afterimage
