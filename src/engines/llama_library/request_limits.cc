// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama_library/request_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <string>

#include "foundation/json/json_text.h"

namespace afterimage {
namespace {

using Limits = RequestLimits;

std::unexpected<Error> beyond(std::string_view what, std::size_t limit) {
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{}; llama.cpp takes {} at most here", what, limit));
}

/// Where a quoted text, or a set of characters, that begins at `at` ends.
std::size_t quoted_end(std::string_view text, std::size_t at, char end) {
  for (++at; at < text.size() && text[at] != end; ++at) {
    if (text[at] == '\\') ++at;
  }
  return at;
}

/// How many brackets are inside each other, without those that are quoted: `past(at)` is the last
/// character of the quoted text that begins at `at`, or `at` if none does.
template <typename Past>
std::size_t depth_of(std::string_view text, std::string_view opening, std::string_view closing,
                     const Past& past) {
  std::size_t depth = 0;
  std::size_t deepest = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (const std::size_t quoted_to = past(at); quoted_to != at) {
      if (quoted_to >= text.size()) break;
      at = quoted_to;
      continue;
    }
    if (opening.contains(text[at])) deepest = std::max(deepest, ++depth);
    if (closing.contains(text[at]) && depth > 0) --depth;
  }
  return deepest;
}

Result<void> check_pattern(std::string_view pattern) {
  const auto escaped = [&](std::size_t at) { return pattern[at] == '\\' ? at + 1 : at; };
  if (depth_of(pattern, "(", ")", escaped) <= Limits::kDepth) return {};
  return beyond("a 'pattern' has too many groups inside each other", Limits::kDepth);
}

/// The value that a $ref names, as llama.cpp follows it: names between slashes, from the schema's root.
JsonValue referred_to(const JsonValue& root, std::string_view reference) {
  JsonValue target = root;
  if (!reference.starts_with("#/")) return {};
  for (std::string_view rest = reference.substr(2); !target.is_none();) {
    const std::size_t end = std::min(rest.find('/'), rest.size());
    target = target[rest.substr(0, end)];
    if (end == rest.size()) return target;
    rest.remove_prefix(end + 1);
  }
  return target;
}

/// One schema, with those inside it. JsonReader has bounded their depth.
class SchemaCheck {
 public:
  explicit SchemaCheck(const JsonValue& root) : root_(root) {}

  Result<void> check(const JsonValue& value) {
    if (value.is(JsonKind::kObject)) AFI_TRY_VOID(check_object(value));
    if (!value.is(JsonKind::kObject) && !value.is(JsonKind::kArray)) return {};
    for (const JsonValue inner : value) AFI_TRY_VOID(check(inner));
    return {};
  }

 private:
  Result<void> check_object(const JsonValue& object) {
    for (const JsonValue member : object) {
      if (member.key().size() > Limits::kName) {
        return beyond("a member's name is too long, in bytes", Limits::kName);
      }
    }
    if (const JsonValue pattern = object["pattern"]; pattern.is(JsonKind::kString)) {
      AFI_TRY_VOID(check_pattern(pattern.text()));
    }
    AFI_TRY_VOID(check_members(object));
    const JsonValue reference = object["$ref"];
    return reference.is(JsonKind::kString) ? check_reference(reference.text()) : Result<void>();
  }

  static Result<void> check_members(const JsonValue& object) {
    std::set<std::string_view> required;
    for (const JsonValue name : object["required"]) required.insert(name.text());
    std::size_t optional = 0;
    for (const JsonValue member : object["properties"]) {
      optional += required.contains(member.key()) ? 0 : 1;
    }
    if (optional <= Limits::kOptionalMembers) return {};
    return beyond(fmt::format("a schema has {} optional members of one object", optional),
                  Limits::kOptionalMembers);
  }

  Result<void> check_reference(std::string_view reference) {
    if (reference.size() > Limits::kName)
      return beyond("a $ref is too long, in bytes", Limits::kName);
    references_.insert(reference);
    if (references_.size() > Limits::kReferences) {
      return beyond("a schema has too many different $refs", Limits::kReferences);
    }
    for (std::size_t steps = 0; steps < Limits::kReferenceChain; ++steps) {
      const JsonValue next = referred_to(root_, reference)["$ref"];
      if (!next.is(JsonKind::kString)) return {};
      reference = next.text();
    }
    return beyond("a $ref leads to a $ref that leads to a $ref, perhaps in a circle; so many",
                  Limits::kReferenceChain);
  }

  JsonValue root_;
  std::set<std::string_view> references_;
};

Result<void> check_tools(std::string_view tools) {
  if (tools.empty()) return {};
  JsonReader reader;
  AFI_TRY(const JsonValue list, reader.read(tools));
  for (const JsonValue tool : list) {
    const JsonValue function = tool["function"];
    if (function["name"].text().size() > Limits::kName) {
      return beyond("a tool's name is too long, in bytes", Limits::kName);
    }
    const JsonValue parameters = function["parameters"];
    AFI_TRY_VOID(SchemaCheck(parameters).check(parameters));
  }
  return {};
}

enum class CharacterClass : unsigned char { kBlank, kDigit, kLetter, kOther };

/// Everything beyond ASCII counts as a letter, except the full-width forms of punctuation.
CharacterClass class_of(std::string_view text, std::size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte == ' ' || (byte >= '\t' && byte <= '\r')) return CharacterClass::kBlank;
  if (byte >= '0' && byte <= '9') return CharacterClass::kDigit;
  if ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z') return CharacterClass::kLetter;
  if (byte < 0x80 || text.substr(at).starts_with("\xEF\xBC")) return CharacterClass::kOther;
  return CharacterClass::kLetter;
}

constexpr auto kSplitByHand =
    std::to_array<std::string_view>({"llama3",      "llama-v3",     "llama-bpe",
                                     "falcon3",     "falcon-h1",    "pixtral",
                                     "midm-2.0",    "lfm2",         "jina-v5-nano",
                                     "mpt",         "starcoder",    "gpt-2",
                                     "phi-2",       "jina-es",      "jina-de",
                                     "gigachat",    "jina-v2-es",   "jina-v2-de",
                                     "a.x-4.0",     "mellum",       "modern-bert",
                                     "gemma4",      "sarvam-moe",   "granite-embed-multi-311m",
                                     "jina-v1-en",  "jina-v2-code", "roberta-bpe",
                                     "refact",      "command-r",    "qwen2",
                                     "kormo",       "f2llmv2",      "deepseek-r1-qwen",
                                     "qwen35",      "stablelm2",    "olmo",
                                     "chatglm-bpe", "glm4",         "glm5",
                                     "jais",        "smollm",       "codeshell",
                                     "exaone",      "exaone4",      "minerva-7b",
                                     "megrez",      "trillion",     "granite-docling",
                                     "hunyuan",     "kimi-k2",      "grok-2",
                                     "laguna",      "solar-open",   "mellum2"});
constexpr auto kSplitByBlanks =
    std::to_array<std::string_view>({"poro-chat", "viking", "bloom", "gpt3-finnish", "whitespace"});
constexpr auto kOfPatterns = std::to_array<std::string_view>({"gpt2", "hybriddna", "whitespace"});

/// The class under which a match of such a tokenizer takes a character.
CharacterClass class_for(WordSplit split, CharacterClass own) {
  const bool is_blank = own == CharacterClass::kBlank;
  if (split == WordSplit::kByBlanks && !is_blank) return CharacterClass::kOther;
  if (split == WordSplit::kThroughBlanks && is_blank) return CharacterClass::kLetter;
  return own;
}

std::string_view name_of(CharacterClass one) {
  switch (one) {
    case CharacterClass::kBlank:
      return "blanks";
    case CharacterClass::kDigit:
      return "digits";
    case CharacterClass::kLetter:
      return "letters";
    case CharacterClass::kOther:
      break;
  }
  return "characters";
}

}  // namespace

Result<void> check_grammar(std::string_view grammar) {
  std::size_t rules = 0;
  const auto past = [&](std::size_t at) {
    if (grammar.substr(at).starts_with("::=")) ++rules;
    if (grammar[at] == '"') return quoted_end(grammar, at, '"');
    if (grammar[at] == '[') return quoted_end(grammar, at, ']');
    return grammar[at] == '#' ? grammar.find('\n', at) : at;
  };
  if (depth_of(grammar, "(", ")", past) > Limits::kDepth) {
    return beyond("a grammar has too many groups inside each other", Limits::kDepth);
  }
  if (rules <= Limits::kGrammarRules) return {};
  return beyond(fmt::format("a grammar has {} rules", rules), Limits::kGrammarRules);
}

Result<void> check_schemas(std::string_view json) {
  JsonReader reader;
  AFI_TRY(const JsonValue root, reader.read(json));
  const JsonValue wrapped = root["json_schema"]["schema"];
  const JsonValue schema = wrapped.is_none() ? root["schema"] : wrapped;
  return SchemaCheck(schema).check(schema);
}

Result<void> check_depth(std::string_view json) {
  const auto past = [&](std::size_t at) {
    return json[at] == '"' ? quoted_end(json, at, '"') : at;
  };
  if (depth_of(json, "[{", "]}", past) <= Limits::kDepth) return {};
  return beyond("the arguments of a tool call have too many levels", Limits::kDepth);
}

Result<void> check_answer(std::string_view answer) {
  const auto unquoted = [](std::size_t at) { return at; };
  if (depth_of(answer, "[{(", "]})", unquoted) <= Limits::kAnswerDepth) return {};
  return fail(ErrorCode::kCorruption,
              fmt::format("the model's answer has more than {} brackets inside each other",
                          Limits::kAnswerDepth));
}

Result<void> check_request(const Request& request) {
  for (const Message& message : request.messages) {
    for (const ToolCall& call : message.tool_calls) AFI_TRY_VOID(check_depth(call.arguments));
  }
  AFI_TRY_VOID(check_grammar(request.rules.grammar));
  AFI_TRY_VOID(check_tools(request.rules.tools));
  if (request.rules.response_format.empty()) return {};
  return check_schemas(request.rules.response_format);
}

WordSplit word_split_of(std::string_view model, std::string_view pre) {
  const auto is_one_of = [](std::string_view name, const auto& list) {
    return std::ranges::find(list, name) != list.end();
  };
  if (!is_one_of(model, kOfPatterns) || is_one_of(pre, kSplitByHand)) return WordSplit::kByHand;
  if (pre == "exaone-moe") return WordSplit::kThroughBlanks;
  return is_one_of(pre, kSplitByBlanks) ? WordSplit::kByBlanks : WordSplit::kByClass;
}

Result<void> check_runs(std::string_view text, WordSplit split) {
  if (split == WordSplit::kByHand) return {};
  std::size_t run = 0;
  auto before = CharacterClass::kBlank;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) continue;  // inside a character
    const CharacterClass now = class_for(split, class_of(text, at));
    run = now == before ? run + 1 : 1;
    before = now;
    if (run <= Limits::kRun) continue;
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("a text has more than {} {} in a row, which this model's tokenizer takes "
                    "as one word: put spaces or line breaks between them",
                    Limits::kRun, name_of(now)));
  }
  return {};
}

}  // namespace afterimage
