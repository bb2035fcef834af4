// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bench/load/load_report.h"
#include "bench/load/load_run.h"
#include "bench/load/load_trace.h"
#include "bench/load/load_traffic.h"
#include "bench/load/request_bodies.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "foundation/http/url.h"
#include "foundation/platform/environment.h"
#include "foundation/platform/terminal.h"
#include "foundation/text/quantities.h"

namespace afterimage {
namespace {

constexpr std::size_t kShownRequests = 8;  // of a dry run
constexpr std::size_t kShownText = 32;     // bytes of a text or data URL in it

struct BenchArgs {
  std::string url = "http://127.0.0.1:8080";
  std::string model;
  std::string key_env;
  LoadTraffic traffic;
  std::string image_size = "256-512";
  std::string think = "10 s";
  std::optional<double> rate;
  std::optional<std::uint32_t> clients;
  std::uint32_t max_in_flight = LoadRunOptions().max_in_flight;
  std::string timeout = "5 min";
  bool no_stream = false;
  double warm_up = 0;  // per cent
  std::string ttft_limit, tpot_limit, latency_limit;
  std::string trace, save_trace;
  bool dry_run = false;
  std::string json, page;
};

/// "256-512", or "448" for pictures of one size.
Result<void> read_image_size(const std::string& text, LoadTraffic& traffic) {
  unsigned least = 0;
  unsigned most = 0;
  char more = 0;
  const int read = std::sscanf(text.c_str(), "%u-%u%c", &least, &most, &more);
  if (read == 1 && text.find_first_not_of("0123456789") == std::string::npos) most = least;
  if (read < 1 || read > 2 || least < kLeastSide || most < least || most > kMostSide) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--image-size \"{}\": expected pixels or a range between {} and {}, "
                            "such as 448 or 256-512",
                            text, kLeastSide, kMostSide));
  }
  traffic.least_side = least;
  traffic.most_side = most;
  return {};
}

Result<Duration> read_time(const std::string& flag, const std::string& text) {
  const auto time = parse_duration(text);
  if (time.has_value()) return *time;
  return fail(time.error().code, fmt::format("{} {}", flag, time.error().message));
}

Result<LoadLimits> limits_of(const BenchArgs& args) {
  LoadLimits limits;
  for (const auto& [flag, text, limit] :
       {std::tuple("--ttft-limit", &args.ttft_limit, &limits.first_token),
        std::tuple("--tpot-limit", &args.tpot_limit, &limits.per_token),
        std::tuple("--latency-limit", &args.latency_limit, &limits.latency)}) {
    if (text->empty()) continue;
    AFI_TRY(*limit, read_time(flag, *text));
  }
  return limits;
}

Result<LoadTrace> load_of(BenchArgs& args, const Files& files) {
  if (!args.trace.empty()) {
    AFI_TRY(const std::vector<std::byte> content, files.read(args.trace, kMostLoadTrace));
    auto trace = parse_load_trace(content);
    if (trace.has_value()) return trace;
    return fail(trace.error().code, fmt::format("'{}', {}", args.trace, trace.error().message));
  }
  AFI_TRY_VOID(read_image_size(args.image_size, args.traffic));
  AFI_TRY(args.traffic.think, read_time("--think", args.think));
  args.traffic.rate = args.rate.value_or(args.traffic.rate);
  return generate_load(args.traffic);
}

Result<LoadRunOptions> run_options(const BenchArgs& args) {
  LoadRunOptions options;
  AFI_TRY(options.server, parse_url(args.url));
  options.model = args.model;
  options.stream = !args.no_stream;
  options.open = args.rate.has_value() || (!args.trace.empty() && !args.clients.has_value());
  options.clients = args.clients.value_or(options.clients);
  options.max_in_flight = args.max_in_flight;
  AFI_TRY(options.timeout, read_time("--timeout", args.timeout));
  options.threads = std::clamp(std::thread::hardware_concurrency() / 4, 1U, 4U);
  if (args.key_env.empty()) return options;
  const std::string key = environment(args.key_env.c_str()).value_or("");
  if (key.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--key-env: the variable {} is not set", args.key_env));
  }
  options.headers.set("Authorization", "Bearer " + key);
  return options;
}

std::string described(const BenchArgs& args, const LoadRunOptions& options,
                      const LoadTrace& trace) {
  const LoadContent content = count_content(trace);
  std::string text =
      options.open
          ? fmt::format("open loop: {} over {:.1f} s", plural(trace.requests.size(), "request"),
                        std::chrono::duration<double>(content.length).count())
          : fmt::format("closed loop: {}, {}", plural(trace.requests.size(), "request"),
                        plural(options.clients, "client"));
  text += fmt::format("; {}, {} ({} shared by sessions)", plural(content.sessions, "session"),
                      plural(content.pictures, "distinct picture"), content.shared);
  return text + (args.trace.empty() ? fmt::format("; seed {}", trace.seed)
                                    : fmt::format("; from {}", args.trace));
}

/// Long texts and data URLs cut short, for people.
void shorten(nlohmann::ordered_json& value) {
  if (value.is_string()) {
    auto& text = value.get_ref<std::string&>();
    if (text.size() <= kShownText) return;
    text = fmt::format("{}… ({} bytes)", text.substr(0, kShownText), text.size());
  } else if (value.is_structured()) {
    for (auto& inner : value) shorten(inner);
  }
}

void print_dry_run(const BenchArgs& args, const LoadRunOptions& options, const LoadTrace& trace) {
  fmt::print("{}\n\n", described(args, options, trace));
  RequestBodies bodies(
      trace, {.model = args.model.empty() ? "MODEL" : args.model, .stream = options.stream});
  const std::size_t shown = std::min(kShownRequests, trace.requests.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const LoadRequest& request = trace.requests[i];
    const auto body = bodies.next();
    auto brief = nlohmann::ordered_json::parse(*body);
    shorten(brief);
    fmt::print("{:>9.3f} s  session {}, {}\n  {}\n",
               std::chrono::duration<double>(request.at).count(), request.session,
               readable(Bytes(body->size())), brief.dump());
  }
  if (shown < trace.requests.size()) {
    fmt::print("… and {} more; --save-trace writes all\n", trace.requests.size() - shown);
  }
}

/// Whether the server is there, and which model it has, before anything is measured.
Result<void> find_model(const BenchArgs& args, LoadRunOptions& options) {
  const auto models = listed_models(options);
  if (models.has_value() && !options.model.empty()) return {};
  if (models.has_value() && !models->refusal.has_value()) {
    options.model = models->names.front();
    return {};
  }
  const Error& why = models.has_value() ? *models->refusal : models.error();
  return fail(
      why.code,
      fmt::format("{}: {}. Is a server running there, such as `afterimage serve`? --url "
                  "names another{}",
                  args.url, why.message, options.model.empty() ? ", --model its model" : ""));
}

std::function<void(LoadProgress)> progress_of(std::size_t requests) {
  if (!standard_error_is_terminal()) return {};
  return [requests](LoadProgress done) {
    constexpr std::size_t kWidth = 30;
    const std::size_t filled = kWidth * done.ended / requests;
    fmt::print(stderr, "\r[{:=<{}}{:{}}] {} of {}, {} under way, {} failed\033[K", "", filled, "",
               kWidth - filled, done.ended, requests, done.sent - done.ended, done.failed);
    std::fflush(stderr);
  };
}

ExitCode measure(const BenchArgs& args, const LoadRunOptions& options, const LoadTrace& trace,
                 const LoadLimits& limits, World& world) {
  const auto result = run_load(trace, options, world.clock, progress_of(trace.requests.size()));
  if (standard_error_is_terminal()) fmt::print(stderr, "\r\033[K");
  if (!result.has_value()) return report_error("bench", result.error(), ExitCode::kProblem);
  LoadReport report = load_report(trace, *result, limits, args.warm_up / 100);
  report.server = fmt::format("{}, model {}", args.url, options.model);
  report.load = described(args, options, trace);
  fmt::print("{}", args.json == "-" ? to_json(report) : to_table(report));
  for (const auto& written : {write_output(args.json, to_json(report), world.files),
                              write_output(args.page, to_html(report), world.files)}) {
    if (!written) return report_error("bench", written.error(), ExitCode::kProblem);
  }
  return report.failures.empty() ? ExitCode::kFine : ExitCode::kProblem;
}

ExitCode run(BenchArgs& args, World& world) {
  const auto usage = [](const Error& error) {
    return report_error("bench", error, ExitCode::kUsageError);
  };
  for (const std::string& path : {args.json, args.page, args.save_trace}) {
    if (path.empty() || path == "-") continue;
    if (const auto fine = world.files.check_replaceable(path); !fine) return usage(fine.error());
  }
  const auto trace = load_of(args, world.files);
  if (!trace.has_value()) return usage(trace.error());
  const auto limits = limits_of(args);
  if (!limits.has_value()) return usage(limits.error());
  auto options = run_options(args);
  if (!options.has_value()) return usage(options.error());
  if (!args.save_trace.empty()) {
    const auto saved = write_output(args.save_trace, to_text(*trace), world.files);
    if (!saved) return report_error("bench", saved.error(), ExitCode::kProblem);
  }
  if (args.dry_run) {
    print_dry_run(args, *options, *trace);
    return ExitCode::kFine;
  }
  const auto found = find_model(args, *options);
  if (!found.has_value()) return report_error("bench", found.error(), ExitCode::kProblem);
  return measure(args, *options, *trace, *limits, world);
}

template <typename Value>
CLI::Option* add(CLI::App* verb, const char* name, Value& value, const char* help,
                 const char* type) {
  return verb->add_option(name, value, help)->capture_default_str()->type_name(type);
}

void add_server(CLI::App* verb, BenchArgs& args) {
  verb->option_defaults()->group("Server");
  add(verb, "--url", args.url, "Base URL of an OpenAI-compatible server, with or without /v1",
      "URL");
  add(verb, "--model", args.model, "Model name; without it the first that the server lists",
      "NAME");
  add(verb, "--key-env", args.key_env, "Environment variable with the API key", "NAME");
  verb->add_flag("--no-stream", args.no_stream, "Ask for whole answers instead of streams");
  add(verb, "--timeout", args.timeout, "Longest time of one request", "TIME");
}

void add_loop(CLI::App* verb, BenchArgs& args) {
  verb->option_defaults()->group("Loop");
  CLI::Option* rate = verb->add_option("--rate", args.rate,
                                       "Open loop: requests a second, at random (Poisson), "
                                       "whatever the server does")
                          ->check(CLI::PositiveNumber)
                          ->type_name("N");
  CLI::Option* clients = verb->add_option("--clients", args.clients,
                                          "Closed loop: clients that each wait for their answer; "
                                          "the default, with 8")
                             ->check(CLI::Range(1U, 100'000U))
                             ->type_name("N");
  rate->excludes(clients);
  add(verb, "--max-in-flight", args.max_in_flight,
      "Open loop: requests under way at a time; beyond it they are late", "N")
      ->check(CLI::Range(1U, 100'000U));
  add(verb, "--warm-up", args.warm_up,
      "Percentage of requests, from the first, that are sent and not counted", "PERCENT")
      ->check(CLI::Range(0.0, 99.0));
  CLI::Option* trace =
      verb->add_option("--trace", args.trace,
                       "Send this load instead of a generated one; an open loop by its times "
                       "unless\n--clients is given")
          ->type_name("FILE");
  trace->excludes(rate);
  verb->add_option("--save-trace", args.save_trace, "Write the load to a file, to send it again")
      ->type_name("FILE");
  verb->add_flag("--dry-run", args.dry_run, "Print what would be sent, and send nothing");
}

void add_traffic(CLI::App* verb, BenchArgs& args) {
  verb->option_defaults()->group("Traffic");
  LoadTraffic& t = args.traffic;
  add(verb, "--requests", t.requests, "Number of requests", "N");
  add(verb, "--images", t.images, "Number of popular pictures", "N");
  add(verb, "--skew", t.skew, "Zipf exponent of their popularity; 0: uniform", "S");
  add(verb, "--new-images", t.new_images,
      "Share of the pictures, 0 to 1, that are new: no other task shows them", "SHARE");
  add(verb, "--images-per-task", t.images_per_task, "Pictures per task; 0: text only", "N");
  add(verb, "--agents", t.agents, "Agents that ask about the same pictures, each in its session",
      "N");
  add(verb, "--turns", t.turns, "Turns per session, on average", "N");
  add(verb, "--think", args.think, "Time between two turns of a session, on average", "TIME");
  add(verb, "--repeats", t.repeats,
      "Share of the sessions, 0 to 1, that repeat an earlier one word for word", "SHARE");
  add(verb, "--systems", t.systems, "Number of system prompts that sessions share; 0: none", "N");
  add(verb, "--image-size", args.image_size,
      "Width and height of pictures in pixels: a number, or a range MIN-MAX", "N-N");
  add(verb, "--system-words", t.system_words, "Words per system prompt", "N");
  add(verb, "--question-words", t.question_words, "Words per question", "N");
  add(verb, "--answer-words", t.answer_words, "Words per earlier answer in a prompt", "N");
  add(verb, "--max-tokens", t.max_tokens, "Tokens that the server may generate per answer", "N");
  add(verb, "--seed", t.seed, "Random seed: the same seed sends the same bytes", "N");
}

void add_results(CLI::App* verb, BenchArgs& args) {
  verb->option_defaults()->group("Results");
  add(verb, "--ttft-limit", args.ttft_limit,
      "A good answer begins within this time (goodput counts good answers)", "TIME");
  add(verb, "--tpot-limit", args.tpot_limit, "A good answer takes at most this per further token",
      "TIME");
  add(verb, "--latency-limit", args.latency_limit, "A good answer ends within this time", "TIME");
  verb->add_option("--json", args.json, "Write all numbers as JSON; - for standard output")
      ->type_name("FILE");
  verb->add_option("--report", args.page, "Write an HTML page with tables and charts")
      ->type_name("FILE");
}

}  // namespace

void add_bench(CLI::App& program, World& world, ExitCode& code) {
  auto args = std::make_shared<BenchArgs>();
  CLI::App* verb = program.add_subcommand(
      "bench",
      "Send multimodal load with shared pictures to any OpenAI-compatible server, and\n"
      "measure time to first token, time per token, latency, goodput and cache hits");
  add_server(verb, *args);
  add_loop(verb, *args);
  add_traffic(verb, *args);
  add_results(verb, *args);
  verb->footer(
      "Examples:\n"
      "  afterimage bench --clients 16\n"
      "  afterimage bench --url http://10.0.0.1:8000 --rate 20 --requests 5000 --report page.html\n"
      "  afterimage bench --rate 20 --ttft-limit 500ms --tpot-limit 50ms\n"
      "  afterimage bench --new-images 1 --systems 0 --turns 1 --agents 1   (nothing is shared)\n"
      "  afterimage bench --dry-run --save-trace load.jsonl\n"
      "  afterimage bench --trace load.jsonl --json -");
  verb->callback([args, &world, &code] { code = run(*args, world); });
}

}  // namespace afterimage
