// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/fleet/zmtp.h"

#include <utility>

namespace afterimage {
namespace {

constexpr std::size_t kGreeting = 64;
constexpr unsigned kMore = 1;
constexpr unsigned kLong = 2;
constexpr unsigned kCommand = 4;

std::unexpected<Error> not_zmtp(std::string_view why) {
  return fail(ErrorCode::kCorruption, "not ZMTP 3: " + std::string(why));
}

void put_number(std::string& out, std::uint64_t value, unsigned width) {
  while (width-- > 0) out.push_back(static_cast<char>((value >> (8 * width)) & 0xFFU));
}

std::string frame(unsigned flags, std::string_view body) {
  std::string out;
  if (body.size() > 255) {
    out.push_back(static_cast<char>(flags | kLong));
    put_number(out, body.size(), 8);
  } else {
    out.push_back(static_cast<char>(flags));
    out.push_back(static_cast<char>(body.size()));
  }
  return out.append(body);
}

std::string property(std::string_view name, std::string_view value) {
  std::string out(1, static_cast<char>(name.size()));
  out.append(name);
  put_number(out, value.size(), 4);
  return out.append(value);
}

}  // namespace

std::string ZmtpClient::message(std::initializer_list<std::string_view> parts) {
  std::string out;
  std::size_t left = parts.size();
  for (const std::string_view part : parts) out += frame(--left > 0 ? kMore : 0, part);
  return out;
}

ZmtpClient::ZmtpClient(std::string_view socket, std::string first) : first_(std::move(first)) {
  if (socket == "SUB") first_ = message({std::string_view("\1", 1)});
  out_.push_back('\xFF');
  out_.append(8, '\0');
  out_.append({'\x7F', 3, 0});
  std::string mechanism = "NULL";
  mechanism.resize(20);
  out_ += mechanism;
  out_.resize(kGreeting);
  std::string ready(1, 5);
  ready += "READY" + property("Socket-Type", socket) + property("Identity", "");
  out_ += frame(kCommand, ready);
}

std::string ZmtpClient::to_send() { return std::exchange(out_, {}); }

Result<void> ZmtpClient::feed(std::string_view bytes) {
  in_.append(bytes);
  while (true) {
    AFI_TRY(const bool more, greeted_ ? read_frame() : read_greeting());
    if (!more) break;
  }
  in_.erase(0, std::exchange(at_, 0));
  return {};
}

Result<bool> ZmtpClient::read_greeting() {
  if (!in_.empty() && in_[0] != '\xFF') return not_zmtp("the signature is wrong");
  if (in_.size() < kGreeting) return false;
  if (in_[9] != '\x7F') return not_zmtp("the signature is wrong");
  if (in_[10] < 3) return not_zmtp("the other side speaks an older version");
  if (std::string_view(in_).substr(12, 5) != std::string_view("NULL\0", 5)) {
    return not_zmtp("the other side requires authentication");
  }
  at_ = kGreeting;
  greeted_ = true;
  return true;
}

Result<bool> ZmtpClient::read_frame() {
  const std::string_view rest = std::string_view(in_).substr(at_);
  if (rest.size() < 2) return false;
  const auto flags = static_cast<unsigned char>(rest[0]);
  if (flags > (kMore | kLong | kCommand)) return not_zmtp("unknown flags of a frame");
  const bool is_long = (flags & kLong) != 0;
  const std::size_t head = is_long ? 9 : 2;
  if (rest.size() < head) return false;
  std::uint64_t size = 0;
  for (const char c : rest.substr(1, head - 1)) size = size << 8U | static_cast<unsigned char>(c);
  if (size > kMostBytes - part_bytes_) return not_zmtp("a message is too large");
  if (rest.size() - head < size) return false;
  AFI_TRY_VOID(take_frame(flags, rest.substr(head, size)));
  at_ += head + size;
  return true;
}

Result<void> ZmtpClient::take_frame(unsigned flags, std::string_view body) {
  if ((flags & kCommand) != 0) {
    if (ready_) return {};  // a ping or another command that needs no response
    if (!body.starts_with("\5READY")) return not_zmtp("the other side refuses the connection");
    ready_ = true;
    out_ += first_;
    return {};
  }
  if (!ready_) return not_zmtp("a message before the handshake");
  if (parts_.size() >= kMostParts) return not_zmtp("a message has too many parts");
  parts_.emplace_back(body);
  part_bytes_ += body.size();
  if ((flags & kMore) != 0) return {};
  messages_.push_back(std::exchange(parts_, {}));
  part_bytes_ = 0;
  return {};
}

std::optional<std::vector<std::string>> ZmtpClient::take() {
  if (messages_.empty()) return std::nullopt;
  auto message = std::move(messages_.front());
  messages_.pop_front();
  return message;
}

}  // namespace afterimage
