// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bench/run/run_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>

#include "bench/report/chart.h"
#include "bench/run/run_report.h"
#include "foundation/media/probe.h"
#include "foundation/text/data_url.h"
#include "foundation/text/quantities.h"

namespace afterimage {
namespace {

constexpr std::size_t kMaxShown = 200;

std::string_view media_type_of(std::span<const std::byte> file) {
  switch (sniff(file)) {
    case FileFormat::kJpeg:
      return "image/jpeg";
    case FileFormat::kPng:
      return "image/png";
    case FileFormat::kWebp:
      return "image/webp";
    case FileFormat::kGif:
      return "image/gif";
    case FileFormat::kBmp:
      return "image/bmp";
    case FileFormat::kAvif:
      return "image/avif";
    default:
      return "application/octet-stream";
  }
}

std::string last_question(const Request& request) {
  std::string text;
  for (const Message& message : request.messages) {
    if (message.role != Role::kUser) continue;
    text.clear();
    for (const ContentPart& part : message.parts) {
      if (const auto* said = std::get_if<std::string>(&part)) text += *said;
    }
  }
  return text;
}

Figure figure_of(const Request& request, const RequestReport& report) {
  Figure figure;
  std::string reused;
  const auto media = media_of(request);
  for (std::size_t i = 0; i < media.size(); ++i) {
    const MediaItem& item = *media[i];
    if (item.modality == Modality::kImage && item.files.size() == 1) {
      figure.images.push_back(fmt::format("data:{};base64,{}", media_type_of(*item.files.front()),
                                          encode_base64(*item.files.front())));
    } else {
      figure.lines.push_back(fmt::format("{}: {}", to_string(item.modality), item.name));
    }
    reused += fmt::format("{}{}", i == 0 ? "" : ", ", to_string(report.media[i].source));
  }
  figure.lines.push_back(last_question(request));
  figure.lines.push_back(fmt::format("answer: {}", report.text));
  if (!report.expected.empty()) {
    figure.lines.push_back(report.right ? "right"
                                        : fmt::format("wrong; expected: {}", report.expected));
  }
  if (!report.identical) figure.lines.emplace_back("differs with reuse");
  if (!reused.empty()) figure.lines.push_back(fmt::format("media: {}", reused));
  figure.lines.push_back(fmt::format("prompt: {} of {} reused", report.resumed_from.value(),
                                     plural(report.prompt_tokens.value(), "token")));
  figure.lines.push_back(fmt::format("{} by {}", report.id, report.agent));
  return figure;
}

}  // namespace

std::string to_page(const RunReport& report, const Workload& workload) {
  std::map<std::string, const Request*> requests;
  for (const Request& request : workload.requests) requests[request.id.text()] = &request;
  std::vector<const RequestReport*> shown;
  for (const RequestReport& request : report.requests) shown.push_back(&request);
  const auto has_problem = [](const RequestReport* request) {
    return !request->identical || (!request->expected.empty() && !request->right);
  };
  std::ranges::stable_partition(shown, has_problem);
  if (shown.size() > kMaxShown) shown.resize(kMaxShown);
  std::vector<Figure> figures;
  figures.reserve(shown.size());
  for (const RequestReport* request : shown) {
    figures.push_back(figure_of(*requests.at(request->id), *request));
  }
  Page page("What reuse saved", fmt::format("Engine {}", report.engine_name));
  page.add_table(savings_rows(report));
  page.add_heading("Requests");
  page.add_paragraph(
      fmt::format("{} of {}", shown.size(), plural(report.requests.size(), "answered request")));
  page.add_figures(figures);
  return page.html();
}

}  // namespace afterimage
