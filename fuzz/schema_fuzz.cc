// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Of any JSON text the keywords that a grammar leaves out are keywords, and of a schema within an array as of itself.
#include <cstdint>
#include <string_view>

#include "afterimage/result.h"
#include "engines/llama_library/schema_limits.h"

using namespace afterimage;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  JsonReader reader;
  const auto schema = reader.read(text);
  if (!schema.has_value()) return 0;
  for (const std::string& name : unenforced_keywords(*schema)) {
    AFI_CHECK(!name.empty() && name.size() < 32);
  }
  const AnswerRules rules{.tools = R"([{"function":{"parameters":)" + std::string(text) + "}}]",
                          .response_format = R"({"schema":)" + std::string(text) + "}"};
  for (const auto arguments :
       {CallArguments::kJson, CallArguments::kTaggedText, CallArguments::kFree}) {
    static_cast<void>(unenforced_rules(rules, arguments));
  }
  return 0;
}
