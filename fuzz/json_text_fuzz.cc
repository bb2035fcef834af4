// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Text that is accepted as JSON is also accepted by another parser, with the same value; its
// canonical text is JSON with the same value, and is its own canonical text.
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "afterimage/result.h"
#include "foundation/json/json_text.h"

using namespace afterimage;

namespace {

constexpr int kNumberTooLarge = 406;  // beyond a double; JSON allows it

void check_same(const JsonValue& ours, const nlohmann::json& theirs) {
  switch (ours.kind()) {
    case JsonKind::kNull:
      AFI_CHECK(theirs.is_null());
      break;
    case JsonKind::kTrue:
    case JsonKind::kFalse:
      AFI_CHECK(theirs.is_boolean() && theirs.get<bool>() == ours.is(JsonKind::kTrue));
      break;
    case JsonKind::kNumber:
      AFI_CHECK(theirs.is_number());
      if (const auto number = ours.number()) AFI_CHECK(*number == theirs.get<double>());
      break;
    case JsonKind::kString:
      AFI_CHECK(theirs.is_string() && theirs.get<std::string>() == ours.text());
      break;
    case JsonKind::kArray: {
      std::size_t at = 0;
      for (const JsonValue element : ours) check_same(element, theirs.at(at++));
      AFI_CHECK(theirs.is_array() && theirs.size() == at);
      break;
    }
    case JsonKind::kObject: {
      std::size_t members = 0;
      for (const JsonValue member : ours) {
        check_same(member, theirs.at(std::string(member.key())));
        ++members;
      }
      AFI_CHECK(theirs.is_object() && theirs.size() == members);
      break;
    }
    case JsonKind::kAbsent:
      AFI_CHECK(false);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  JsonReader reader;
  const auto value = reader.read(text);
  if (!value.has_value()) {
    AFI_CHECK(!value.error().message.empty());
    return 0;
  }
  nlohmann::json theirs;
  try {
    theirs = nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    AFI_CHECK(error.id == kNumberTooLarge);
    return 0;
  }
  check_same(*value, theirs);
  const std::string once = canonical(*value);
  JsonReader second;
  const auto again = second.read(once);
  AFI_CHECK(again.has_value());
  check_same(*again, theirs);
  AFI_CHECK(canonical(*again) == once);
  return 0;
}
