// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Any bytes give an archived answer, an invalidation log or an error; a parsed one is written
// back unchanged. The checksum of a log is corrected, so that the code behind it is reached.
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "afterimage/result.h"
#include "caches/answers/archived_answer.h"
#include "caches/invalidation/invalidations.h"
#include "foundation/crypto/sha256.h"

using namespace afterimage;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto archived = archived_answer_from(bytes);
  if (archived.has_value()) AFI_CHECK(std::ranges::equal(to_bytes(*archived), bytes));
  if (const auto question = archived_question_from(bytes)) {
    AFI_CHECK(std::ranges::equal(archived_question_bytes(*question), bytes));
  }
  if (const auto answer = from_record(bytes)) {
    AFI_CHECK(std::ranges::equal(to_record(*answer), bytes));
  }
  std::vector<std::byte> list(bytes.begin(), bytes.end());
  const auto checksum = sha256(bytes);
  list.insert(list.end(), checksum.begin(), checksum.end());
  if (const auto erasures = InvalidationList::from_bytes(list)) {
    AFI_CHECK(erasures->to_bytes() == list);
    static_cast<void>(erasures->refuses(subject_of(ArchivedAnswer())));
  }
  return 0;
}
