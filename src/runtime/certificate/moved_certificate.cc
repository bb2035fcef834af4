// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "runtime/certificate/moved_certificate.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

#include "foundation/crypto/sha256.h"

namespace afterimage {
namespace {

constexpr std::string_view kFirstLine = "afterimage moved media 1";
constexpr std::size_t kMaxBytes = 64 * 1024;
constexpr std::size_t kMaxEngine = 200;
constexpr std::size_t kMaxTasks = 16;
constexpr std::size_t kMaxName = 40;
constexpr std::uint64_t kMaxCount = 1'000'000'000'000;  // sums stay far below 2^64
constexpr double kMaxDivergence = 1e6;
constexpr double kNormal95 = 1.959963984540054;

std::string digest_of(std::string_view text) {
  return to_hex(sha256(std::as_bytes(std::span(text))));
}

/// Line by line, word by word.
class Lines {
 public:
  explicit Lines(std::string_view text) : left_(text) {}

  [[nodiscard]] std::size_t number() const { return number_; }
  [[nodiscard]] bool begins_with(std::string_view key) const {
    return left_.starts_with(key) && left_.substr(key.size()).starts_with(' ');
  }
  /// What follows `key` on the next line.
  Result<std::string_view> value(std::string_view key) {
    AFI_TRY(const std::string_view line, next());
    if (line.starts_with(key) && line.substr(key.size()).starts_with(' ')) {
      return line.substr(key.size() + 1);
    }
    return wrong(fmt::format("'{}' is expected", key));
  }
  Result<std::string_view> next() {
    ++number_;
    const std::size_t end = left_.find('\n');
    if (end == std::string_view::npos) return wrong("the line does not end");
    const std::string_view line = left_.substr(0, end);
    left_.remove_prefix(end + 1);
    return line;
  }
  [[nodiscard]] bool at_end() const { return left_.empty(); }
  [[nodiscard]] std::unexpected<Error> wrong(const std::string& what) const {
    return fail(
        ErrorCode::kCorruption,
        fmt::format("line {} of the certificate: {}; make a new one with `afterimage-lab certify`",
                    number_, what));
  }
  Result<std::uint64_t> count(std::string_view text, std::uint64_t most = kMaxCount) const {
    std::uint64_t value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = read.ec == std::errc() && read.ptr == text.data() + text.size();
    if (!whole || value > most || fmt::format("{}", value) != text) {
      return wrong(fmt::format("a whole number up to {} is expected", most));
    }
    return value;
  }

 private:
  std::string_view left_;
  std::size_t number_ = 0;
};

bool is_printable(std::string_view text, std::size_t most) {
  return !text.empty() && text.size() <= most &&
         std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7F; });
}

bool is_name(std::string_view text) {
  return is_printable(text, kMaxName) && text.find(' ') == std::string_view::npos;
}

Result<TaskLoss> task_of(std::string_view value, const Lines& lines) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at <= value.size();) {
    const std::size_t end = std::min(value.find(' ', at), value.size());
    words.push_back(value.substr(at, end - at));
    at = end + 1;
  }
  if (words.size() != 5 || !is_name(words[0])) {
    return lines.wrong("a name and four numbers are expected");
  }
  TaskLoss task{.name = std::string(words[0])};
  AFI_TRY(task.asked, lines.count(words[1]));
  AFI_TRY(task.right, lines.count(words[2], task.asked));
  AFI_TRY(task.lost, lines.count(words[3], task.right));
  AFI_TRY(task.gained, lines.count(words[4], task.asked - task.right));
  return task;
}

Result<double> divergence_of(std::string_view text, const Lines& lines) {
  double value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = read.ec == std::errc() && read.ptr == text.data() + text.size();
  const bool in_range = whole && value >= 0 && value <= kMaxDivergence;
  if (in_range && fmt::format("{:.12f}", value) == text) return value;
  return lines.wrong("a number with twelve decimals is expected");
}

Result<KvOrigin> origin_of(std::string_view hex, const Lines& lines) {
  KvOrigin origin;
  if (hex.size() != 2 * origin.bytes.size()) return lines.wrong("64 hex digits are expected");
  for (std::size_t i = 0; i < origin.bytes.size(); ++i) {
    unsigned value = 0;
    const char* const at = hex.data() + 2 * i;
    const auto read = std::from_chars(at, at + 2, value, 16);
    if (read.ec != std::errc() || read.ptr != at + 2) {
      return lines.wrong("64 hex digits are expected");
    }
    origin.bytes[i] = static_cast<std::byte>(value);
  }
  if (origin.hex() != hex) return lines.wrong("64 lower-case hex digits are expected");
  return origin;
}

Result<void> read_tokens(Lines& lines, TokenLoss& tokens) {
  const auto read = [&](std::string_view key, std::uint64_t& count) -> Result<void> {
    AFI_TRY(const std::string_view text, lines.value(key));
    AFI_TRY(count, lines.count(text));
    return {};
  };
  AFI_TRY_VOID(read("requests", tokens.requests));
  AFI_TRY_VOID(read("same", tokens.same));
  AFI_TRY_VOID(read("other", tokens.other));
  if (tokens.other > tokens.requests) return lines.wrong("more answers differ than there are");
  AFI_TRY(const std::string_view divergence, lines.value("divergence"));
  AFI_TRY(tokens.divergence, divergence_of(divergence, lines));
  return {};
}

std::string lines_of(const MovedCertificate& certificate) {
  std::string text = fmt::format(
      "{}\norigin {}\nengine {}\nrecomputed {}\nrequests {}\nsame {}\nother {}\ndivergence "
      "{:.12f}\n",
      kFirstLine, certificate.origin.hex(), certificate.engine, certificate.recomputed.value(),
      certificate.tokens.requests, certificate.tokens.same, certificate.tokens.other,
      certificate.tokens.divergence);
  for (const TaskLoss& task : certificate.tasks) {
    text += fmt::format("task {} {} {} {} {}\n", task.name, task.asked, task.right, task.lost,
                        task.gained);
  }
  return text;
}

}  // namespace

ShareInterval TokenLoss::share() const {
  const auto count = static_cast<double>(same + other);
  if (same + other == 0) return {};
  const double share = static_cast<double>(other) / count;
  const double z2 = kNormal95 * kNormal95;
  const double middle = (share + z2 / (2 * count)) / (1 + z2 / count);
  const double half = kNormal95 *
                      std::sqrt(share * (1 - share) / count + z2 / (4 * count * count)) /
                      (1 + z2 / count);
  return {.value = share,
          .low = other == 0 ? 0 : std::max(0.0, middle - half),
          .high = same == 0 ? 1 : std::min(1.0, middle + half)};
}

ShareInterval TaskLoss::share() const {
  if (asked == 0) return {.value = 0, .low = -1, .high = 1};
  const auto difference = static_cast<double>(lost) - static_cast<double>(gained);
  const double count = static_cast<double>(asked) + 2;
  const double changed = static_cast<double>(lost + gained) + 1;
  const double middle = difference / count;
  const double half =
      kNormal95 * std::sqrt(std::max(0.0, changed - difference * difference / count)) / count;
  return {.value = difference / static_cast<double>(asked),
          .low = std::max(-1.0, middle - half),
          .high = std::min(1.0, middle + half)};
}

std::string write_certificate(const MovedCertificate& certificate) {
  const std::string text = lines_of(certificate);
  return text + "sha256 " + digest_of(text) + "\n";
}

Result<MovedCertificate> parse_certificate(std::string_view text) {
  Lines lines(text);
  if (text.size() > kMaxBytes) return lines.wrong("the file is longer than 64 KiB");
  MovedCertificate read;
  AFI_TRY(const std::string_view first, lines.next());
  if (first != kFirstLine) return lines.wrong("it is not a certificate of this version");
  AFI_TRY(const std::string_view origin, lines.value("origin"));
  AFI_TRY(read.origin, origin_of(origin, lines));
  AFI_TRY(const std::string_view engine, lines.value("engine"));
  if (!is_printable(engine, kMaxEngine)) return lines.wrong("a printable text is expected");
  read.engine = engine;
  AFI_TRY(const std::string_view recomputed, lines.value("recomputed"));
  AFI_TRY(const std::uint64_t tokens, lines.count(recomputed, 1'000'000));
  read.recomputed = TokenCount(static_cast<std::uint32_t>(tokens));
  AFI_TRY_VOID(read_tokens(lines, read.tokens));
  while (lines.begins_with("task")) {
    AFI_TRY(const std::string_view value, lines.value("task"));
    AFI_TRY(TaskLoss task, task_of(value, lines));
    if (read.tasks.size() >= kMaxTasks) return lines.wrong("too many tasks");
    if (std::ranges::find(read.tasks, task.name, &TaskLoss::name) != read.tasks.end()) {
      return lines.wrong("a task occurs twice");
    }
    read.tasks.push_back(std::move(task));
  }
  AFI_TRY(const std::string_view digest, lines.value("sha256"));
  if (!lines.at_end()) return lines.wrong("nothing may follow it");
  if (digest != digest_of(lines_of(read))) return lines.wrong("the digest is that of other lines");
  return read;
}

Result<void> check_certificate(const MovedCertificate& certificate, const KvOrigin& origin,
                               double max_loss) {
  if (certificate.origin != origin) {
    return fail(ErrorCode::kInvalidArgument,
                "the certificate is of another model, or of this one with other options (" +
                    certificate.engine +
                    "); run `afterimage-lab certify` with the model served here");
  }
  const double bound = certificate.tokens.share().high;
  if (bound <= max_loss) return {};
  return fail(
      ErrorCode::kInvalidArgument,
      fmt::format("the certificate excludes only that more than {:.4f} of the tokens differ, "
                  "and {:.4f} may; certify with more requests or more recomputed tokens, or "
                  "allow more",
                  bound, max_loss));
}

}  // namespace afterimage
