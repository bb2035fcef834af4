// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cli/engine_args.h"
#include "cli/workload_args.h"
#include "lab/certify/certify.h"
#include "lab/cli/verbs.h"
#include "runtime/certificate/moved_certificate.h"

namespace afterimage {
namespace {

struct CertifyArgs {
  std::string workload;
  std::string images;
  std::string certificate;
  std::string json;
  bool markdown = false;
  std::uint32_t max_tokens = 16;
  CertifyOptions options;
  EngineArgs engine;
};

ExitCode report_error(ExitCode code, const Error& error) {
  fmt::print(stderr, "afterimage-lab certify: {}\n", error.message);
  return code;
}

Result<void> write_result(const CertifyArgs& args, const CertifyReport& report, World& world) {
  AFI_TRY_VOID(print_report(args.markdown ? to_markdown(report) : to_text(report), to_json(report),
                            args.json, world));
  if (!report.certificate.has_value() || args.certificate.empty()) return {};
  const std::string text = write_certificate(*report.certificate);
  return world.files.replace(args.certificate, std::as_bytes(std::span(text)));
}

ExitCode run_certify(const CertifyArgs& args, World& world) {
  CertifyOptions options = args.options;
  std::ranges::sort(options.recomputed);
  options.max_tokens = TokenCount(args.max_tokens);
  options.engine_name = args.engine.name();
  const RunProgress progress = progress_line();
  if (progress) {
    options.on_progress = [&](std::size_t done, std::size_t of) { progress("certify", done, of); };
  }
  if (const auto writable = check_report(args.json, world); !writable.has_value()) {
    return report_error(ExitCode::kUsageError, writable.error());
  }
  const auto workload = load_workload(args.workload, args.images, world);
  if (!workload.has_value()) return report_error(ExitCode::kUsageError, workload.error());
  const auto engine = make_engine(args.engine, world.clock);
  if (!engine.has_value()) return report_error(ExitCode::kUsageError, engine.error());
  const auto report = certify(**engine, *workload, options);
  if (!report.has_value()) {
    const bool unable = report.error().code == ErrorCode::kUnsupported;
    return report_error(unable ? ExitCode::kProblem : ExitCode::kUsageError, report.error());
  }
  const auto written = write_result(args, *report, world);
  if (!written.has_value()) return report_error(ExitCode::kUsageError, written.error());
  return report->certificate.has_value() ? ExitCode::kFine : ExitCode::kProblem;
}

}  // namespace

void add_certify(CLI::App& program, World& world, ExitCode& code) {
  auto args = std::make_shared<CertifyArgs>();
  CLI::App* verb = program.add_subcommand(
      "certify",
      "Measure what a model loses if it uses the KV of images at other positions, and write the\n"
      "certificate without which it never does");
  verb->add_option(
          "--workload", args->workload,
          "Requests with images, one JSON object per line, as for run; with \"expected\",\n"
          "right answers are counted, too")
      ->required()
      ->type_name("FILE");
  verb->add_option("--images", args->images,
                   "Your own photos instead of the workload's images, as for run")
      ->type_name("DIR");
  verb->add_option("--certificate", args->certificate,
                   "Where to write the certificate, if there is one: moved_media.certificate")
      ->type_name("FILE");
  verb->add_option("--recomputed", args->options.recomputed,
                   "Numbers of tokens of each image to compute anew; the first that keeps to the\n"
                   "limits is certified (default: 0 1 2 4 8 16)")
      ->check(CLI::Range(0U, 100'000U))
      ->type_name("N…");
  verb->add_option("--max-tokens", args->max_tokens, "Tokens of an answer")
      ->check(CLI::Range(1U, 100'000U))
      ->capture_default_str();
  verb->add_option("--max-loss", args->options.limits.tokens,
                   "Share of tokens that may differ; the 95 % interval must exclude more")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  verb->add_option("--max-divergence", args->options.limits.divergence,
                   "Mean KL divergence of the next token's distribution, in nats")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  verb->add_option("--max-single-hop-loss", args->options.limits.single_hop,
                   "Likewise, right answers lost to questions about one image")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  verb->add_option("--max-multi-hop-loss", args->options.limits.multi_hop,
                   "Likewise, about several images")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  verb->add_flag("--markdown", args->markdown, "Print the table in Markdown");
  verb->add_option("--json", args->json, "Write the result as JSON; - for standard output")
      ->type_name("FILE");
  add_engine_options(*verb, args->engine);
  verb->footer(
      "Examples:\n"
      "  afterimage-lab certify --workload examples/agents.jsonl --size full\n"
      "  afterimage-lab certify --workload mine.jsonl --size full-mrope --certificate moved.txt\n"
      "\n"
      "Exit code 1: no certificate was given, because too much is lost or the model's KV cannot\n"
      "be moved.");
  verb->callback([args, &world, &code] { code = run_certify(*args, world); });
}

}  // namespace afterimage
