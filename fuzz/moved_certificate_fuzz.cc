// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Any bytes are a certificate that is written as it was read, or an error. This corrects the
// digest first: otherwise the parser would refuse nearly every input before it reads the rest.
#include <cstdint>
#include <span>
#include <string>

#include "afterimage/result.h"
#include "foundation/crypto/sha256.h"
#include "runtime/certificate/moved_certificate.h"

using namespace afterimage;

namespace {

void check(const std::string& text) {
  const auto read = parse_certificate(text);
  if (!read.has_value()) {
    AFI_CHECK(read.error().code == ErrorCode::kCorruption);
    return;
  }
  AFI_CHECK(write_certificate(*read) == text);
  const ShareInterval share = read->tokens.share();
  AFI_CHECK(0 <= share.low && share.low <= share.high && share.high <= 1);
  for (const TaskLoss& task : read->tasks) {
    AFI_CHECK(task.right_moved() <= task.asked);
    AFI_CHECK(-1 <= task.share().low && task.share().low <= task.share().high);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text(data, data + size);
  check(text);
  const std::size_t end = text.rfind("sha256 ");
  if (end == std::string::npos) return 0;
  text.resize(end);
  check(text + "sha256 " + to_hex(sha256(std::as_bytes(std::span(text)))) + "\n");
  return 0;
}
