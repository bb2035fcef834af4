// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "cli/engine_args.h"
#include "cli/remote_args.h"
#include "cli/verbs.h"
#include "cli/workload_args.h"
#include "gateway/config/settings.h"
#include "gateway/service/service.h"
#include "storage/redis/remote_address.h"

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
};

constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};

ExitCode not_served(const Error& error, ExitCode code) {
  fmt::print(stderr, "afterimage serve: {}\n", error.message);
  return code;
}

/// The file, and what the call says besides.
Result<Settings> settings_of(const ServeArgs& call, const Files& files) {
  std::string text;
  if (!call.config.empty()) {
    AFI_TRY(const auto bytes, files.read(call.config, 1_MiB));
    text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  if (!call.upstream.empty()) {
    // Checked as the file's own would be.
    AFI_TRY([[maybe_unused]] const Settings said,
            parse_settings("upstream.url = '''" + call.upstream + "'''", "--upstream"));
  }
  AFI_TRY(Settings settings, parse_settings(text, call.config.empty() ? "defaults" : call.config));
  if (!call.upstream.empty()) settings.upstream.url = call.upstream;
  if (call.engine.engine == "llama") {
    if (!settings.upstream.url.empty()) {
      return fail(ErrorCode::kInvalidArgument,
                  "--engine llama answers by itself, and '" + settings.upstream.url +
                      "' is named to answer, too: leave out one of them");
    }
    if (settings.engine.model == EngineSettings().model) {
      settings.engine.model = std::filesystem::path(call.engine.llama.model).stem().string();
    }
  }
  if (!call.remote.url.empty()) {
    AFI_TRY([[maybe_unused]] const RemoteUrl said, parse_remote_url(call.remote.url));
    settings.remote.url = call.remote.url;
  }
  if (!call.remote.secret_file.empty()) settings.secret_file = call.remote.secret_file;
  AFI_TRY_VOID(check_sharing(settings));
  if (!call.encrypt_key_file.empty()) settings.memory.encrypt_key_file = call.encrypt_key_file;
  if (call.port >= 0) settings.listen.port = static_cast<std::uint16_t>(call.port);
  if (call.admin_port >= 0) settings.admin.port = static_cast<std::uint16_t>(call.admin_port);
  return settings;
}

/// Told by signals, so that the call's own thread waits for all of them in one place.
sigset_t all_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kSignals) sigaddset(&set, signal);
  return set;
}

void reload(Service& service) {
  const auto done = service.reload();
  if (!done.has_value()) {
    fmt::print(stderr, "afterimage serve: the settings stay as they were: {}\n",
               done.error().message);
    return;
  }
  fmt::print("read the settings again: {} changed, {} take effect at the next start\n",
             done->applied.size(), done->needs_restart.size());
  std::fflush(stdout);
}

std::string address_of(const std::string& host, std::uint16_t port) {
  return host.contains(':') ? fmt::format("http://[{}]:{}", host, port)
                            : fmt::format("http://{}:{}", host, port);
}

/// Until it is told to end.
ExitCode wait_for_signals(Service& service, const sigset_t& signals) {
  while (true) {
    int signal = 0;
    sigwait(&signals, &signal);
    if (signal == SIGHUP) {
      reload(service);
      continue;
    }
    fmt::print("finishing what was begun; once more ends at once\n");
    std::fflush(stdout);
    // Whoever is asked twice does not wait.
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    return service.drain() ? ExitCode::kFine : ExitCode::kProblem;
  }
}

ExitCode serve_requests(const ServeArgs& call, World& world) {
  auto settings = settings_of(call, world.files);
  if (!settings.has_value()) return not_served(settings.error(), ExitCode::kUsageError);
  if (call.print_config) {
    fmt::print("{}", print_settings(*settings));
    return ExitCode::kFine;
  }
  if (call.check) {
    fmt::print("the settings are valid\n");
    return ExitCode::kFine;
  }
  ServiceOptions options{.settings = *settings,
                         .read_settings = [call, &world] { return settings_of(call, world.files); },
                         .engine = nullptr,
                         .wants_to_end = [] { kill(getpid(), SIGTERM); },
                         .version = AFTERIMAGE_VERSION};
  if (settings->upstream.url.empty()) {
    auto engine = make_engine(call.engine, world.clock);
    if (!engine.has_value()) return not_served(engine.error(), ExitCode::kUsageError);
    options.engine = *std::move(engine);
  }
  // Before there are other threads, which inherit it.
  const sigset_t signals = all_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const SystemWallClock wall_clock;
  auto service = Service::start(std::move(options), world.clock, wall_clock);
  if (!service.has_value()) {
    const bool call_is_wrong = service.error().code == ErrorCode::kInvalidArgument;
    return not_served(service.error(), call_is_wrong ? ExitCode::kUsageError : ExitCode::kProblem);
  }
  const std::string name(settings->upstream.url.empty() ? call.engine.name()
                                                        : settings->upstream.url);
  fmt::print("{}/v1 answers for {}\n", address_of(settings->listen.address, (*service)->port()),
             name);
  fmt::print("admin: {}/ shows what it saves\n",
             address_of(settings->admin.address, (*service)->admin_port()));
  std::fflush(stdout);
  return wait_for_signals(**service, signals);
}

}  // namespace

void add_serve(CLI::App& program, World& world, ExitCode& code) {
  auto call = std::make_shared<ServeArgs>();
  CLI::App* verb = program.add_subcommand(
      "serve",
      "Serve the OpenAI API: what was asked before is answered at once, and the rest by an\n"
      "upstream (vLLM, SGLang, llama-server, Ollama, …) or by the built-in engine");
  verb->add_option("--upstream", call->upstream, "The server that answers what is not kept")
      ->type_name("URL");
  add_engine_options(*verb, call->engine);
  add_remote_options(*verb, call->remote);
  verb->add_option("--config", call->config, "Settings; see --print-config")->type_name("FILE");
  verb->add_option("--port", call->port, "Where clients ask, instead of listen.port (8080); 0: any")
      ->check(CLI::Range(0, 65535))
      ->type_name("N");
  verb->add_option("--admin-port", call->admin_port,
                   "The dashboard, instead of admin.port (8081); 0: any")
      ->check(CLI::Range(0, 65535))
      ->type_name("N");
  verb->add_option("--encrypt-key-file", call->encrypt_key_file,
                   "Encrypt what is kept in memory.disk under these keys, instead of\n"
                   "memory.encrypt_key_file")
      ->type_name("FILE");
  verb->add_flag("--print-config", call->print_config,
                 "Print every setting, explained, as a file for --config, and end");
  verb->add_flag("--check", call->check, "Check the settings and end");
  verb->footer(
      "Examples:\n"
      "  afterimage serve --upstream http://127.0.0.1:8000\n"
      "  afterimage serve --engine llama --model model.gguf --mmproj mmproj.gguf\n"
      "  afterimage serve --print-config > afterimage.toml\n"
      "  afterimage serve --config afterimage.toml\n"
      "  curl http://127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' -d \\\n"
      "    '{\"model\": \"m\", \"temperature\": 0, \"messages\": [{\"role\": \"user\", "
      "\"content\": \"Hi\"}]}'\n"
      "Clients set their base URL to http://127.0.0.1:8080/v1 and change nothing else.\n"
      "SIGHUP reads the settings again; SIGTERM finishes what was begun.");
  verb->callback([call, &world, &code] { code = serve_requests(*call, world); });
}

}  // namespace afterimage
