// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "lab/certify/certify.h"
#include "runtime/engine_api/key_rotation.h"

namespace afterimage {
namespace {

using Json = nlohmann::ordered_json;

double percent(double share) { return 100 * share; }

std::string interval(const ShareInterval& share) {
  return fmt::format("{:.2f} ({:.2f} to {:.2f})", percent(share.value), percent(share.low),
                     percent(share.high));
}

const TaskLoss* task_of(const CertifyColumn& column, std::string_view name) {
  for (const TaskLoss& task : column.tasks) {
    if (task.name == name) return &task;
  }
  return nullptr;
}

double ratio(const CertifyReport& report, const CertifyColumn& column) {
  const auto full = std::chrono::duration<double>(report.columns.front().first_token).count();
  const auto own = std::chrono::duration<double>(column.first_token).count();
  return own > 0 ? full / own : 0;
}

std::vector<std::string> heads(const CertifyReport& report) {
  std::vector<std::string> cells{"images' KV", "tokens that differ, %", "KL, nats"};
  for (const TaskLoss& task : report.columns.front().tasks) {
    cells.push_back(task.name + " right");
    cells.push_back("points lost");
  }
  cells.insert(cells.end(), {"image tokens computed, %", "first token, times quicker"});
  return cells;
}

std::vector<std::string> cells_of(const CertifyReport& report, const CertifyColumn& column) {
  std::vector<std::string> cells{column.name, interval(column.tokens.share()),
                                 fmt::format("{:.2g}", column.tokens.divergence)};
  for (const TaskLoss& known : report.columns.front().tasks) {
    const TaskLoss* const task = task_of(column, known.name);
    cells.push_back(task == nullptr ? ""
                                    : fmt::format("{} of {}", task->right_moved(), task->asked));
    cells.push_back(task == nullptr ? "" : interval(task->share()));
  }
  const auto all = static_cast<double>(column.image_tokens);
  cells.push_back(
      fmt::format("{:.1f}", all > 0 ? percent(static_cast<double>(column.computed) / all) : 0.0));
  cells.push_back(fmt::format("{:.1f}", ratio(report, column)));
  return cells;
}

std::string introduction(const CertifyReport& report) {
  const TokenLoss& exact = report.columns.front().tokens;
  return fmt::format("{}, {}: {} requests with images, {} tokens; 95 % intervals in parentheses\n",
                     report.engine, report.rotation, exact.requests, exact.same);
}

}  // namespace

std::string to_text(const CertifyReport& report) {
  std::vector<std::vector<std::string>> rows{heads(report)};
  for (const CertifyColumn& column : report.columns) rows.push_back(cells_of(report, column));
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text = introduction(report) + "\n";
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += i == 0 ? fmt::format("{:<{}}", row[i], widths[i])
                     : fmt::format("  {:>{}}", row[i], widths[i]);
    }
    text += line + "\n";
  }
  return text + "\n" + report.verdict + "\n";
}

std::string to_markdown(const CertifyReport& report) {
  const auto line = [](const std::vector<std::string>& cells) {
    std::string text = "|";
    for (const std::string& cell : cells) text += " " + cell + " |";
    return text + "\n";
  };
  const auto first = heads(report);
  std::string text = introduction(report) + "\n" + line(first);
  text += line(std::vector<std::string>(first.size(), "---"));
  for (const CertifyColumn& column : report.columns) text += line(cells_of(report, column));
  return text + "\n" + report.verdict + "\n";
}

std::string to_json(const CertifyReport& report) {
  Json columns = Json::array();
  for (const CertifyColumn& column : report.columns) {
    const ShareInterval loss = column.tokens.share();
    Json tasks = Json::object();
    for (const TaskLoss& task : column.tasks) {
      tasks[task.name] = {{"asked", task.asked},
                          {"right", task.right_moved()},
                          {"lost", task.lost},
                          {"gained", task.gained},
                          {"loss_low", task.share().low},
                          {"loss_high", task.share().high}};
    }
    columns.push_back({{"name", column.name},
                       {"turned", column.turned},
                       {"recomputed", column.recomputed.value()},
                       {"requests", column.tokens.requests},
                       {"same", column.tokens.same},
                       {"other", column.tokens.other},
                       {"token_loss", loss.value},
                       {"token_loss_low", loss.low},
                       {"token_loss_high", loss.high},
                       {"divergence", column.tokens.divergence},
                       {"tasks", tasks},
                       {"image_tokens", column.image_tokens},
                       {"image_tokens_computed", column.computed},
                       {"first_token_times_quicker", ratio(report, column)}});
  }
  return Json{{"engine", report.engine},   {"rotation", report.rotation},
              {"skipped", report.skipped}, {"key_difference", report.key_difference},
              {"columns", columns},        {"certified", report.certificate.has_value()},
              {"verdict", report.verdict}}
             .dump(2) +
         "\n";
}

}  // namespace afterimage
