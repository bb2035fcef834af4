// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama_library/schema_limits.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>

namespace afterimage {
namespace {

using Names = std::initializer_list<std::string_view>;

bool is_one_of(std::string_view name, const auto& names) {
  return std::ranges::find(names, name) != names.end();
}

constexpr std::size_t kMostRefs = 64;

/// Keywords that constrain a value, by the type of the values that they speak of.
struct Constraint {
  std::string_view name;
  std::string_view type;  // empty: of all
};
constexpr auto kConstraints = std::to_array<Constraint>({{"$dynamicRef", ""},
                                                         {"additionalItems", "array"},
                                                         {"additionalProperties", "object"},
                                                         {"allOf", ""},
                                                         {"anyOf", ""},
                                                         {"const", ""},
                                                         {"contains", "array"},
                                                         {"dependencies", "object"},
                                                         {"dependentRequired", "object"},
                                                         {"dependentSchemas", "object"},
                                                         {"enum", ""},
                                                         {"exclusiveMaximum", "number"},
                                                         {"exclusiveMinimum", "number"},
                                                         {"format", "string"},
                                                         {"if", ""},
                                                         {"items", "array"},
                                                         {"maxContains", "array"},
                                                         {"maxItems", "array"},
                                                         {"maxLength", "string"},
                                                         {"maxProperties", "object"},
                                                         {"maximum", "number"},
                                                         {"minContains", "array"},
                                                         {"minItems", "array"},
                                                         {"minLength", "string"},
                                                         {"minProperties", "object"},
                                                         {"minimum", "number"},
                                                         {"multipleOf", "number"},
                                                         {"not", ""},
                                                         {"oneOf", ""},
                                                         {"pattern", "string"},
                                                         {"patternProperties", "object"},
                                                         {"prefixItems", "array"},
                                                         {"properties", "object"},
                                                         {"propertyNames", "object"},
                                                         {"required", "object"},
                                                         {"unevaluatedItems", "array"},
                                                         {"unevaluatedProperties", "object"},
                                                         {"uniqueItems", "array"}});

/// Whether a keyword of this value forbids nothing.
bool forbids_nothing(std::string_view name, const JsonValue& value) {
  if (name == "uniqueItems") return value.is(JsonKind::kFalse);
  if (name == "not") return value.is(JsonKind::kFalse);
  if (name == "required") return value.is_empty();
  if (name.starts_with("min") && name != "minimum") return value.number() == 0.0;
  return value.is(JsonKind::kTrue) || (value.is(JsonKind::kObject) && value.is_empty());
}

class Schemas {
 public:
  explicit Schemas(const JsonValue& root) : root_(root) {}

  std::set<std::string> take() && {
    read(root_);
    for (const std::string_view definitions : {"$defs", "definitions"})
      read_all(root_[definitions]);
    for (std::size_t next = 0; next < refs_.size(); ++next) read(target_of(refs_[next]));
    return std::move(found_);
  }

 private:
  void add(std::string_view name) { found_.emplace(name); }

  /// What remains of a schema of which `taken` became the grammar.
  void add_rest(const JsonValue& schema, std::string_view type, Names taken) {
    const std::string_view known = type == "integer" ? "number" : type;
    for (const JsonValue member : schema) {
      const auto* const one = std::ranges::find(kConstraints, member.key(), &Constraint::name);
      if (one == kConstraints.end() || is_one_of(one->name, taken)) continue;
      const bool is_of_type = one->type.empty() || known.empty() || one->type == known;
      if (is_of_type && !forbids_nothing(one->name, member)) add(one->name);
    }
  }

  void read_all(const JsonValue& schemas) {
    for (const JsonValue schema : schemas) read(schema);
  }

  // In the order in which the library decides.
  void read(const JsonValue& schema) {
    if (!schema.is(JsonKind::kObject)) return;
    if (const JsonValue ref = schema["$ref"]; !ref.is(JsonKind::kAbsent)) {
      add_rest(schema, "", {});
      note_ref(ref.text());
      return;
    }
    for (const std::string_view name : {"oneOf", "anyOf"}) {
      const JsonValue alternatives = schema[name];
      if (alternatives.is(JsonKind::kAbsent)) continue;
      add_rest(schema, "", {name});
      if (name == "oneOf" && has_several(alternatives)) add(name);  // one at least is enough
      return read_all(alternatives);
    }
    const JsonValue type = schema["type"];
    if (!type.is(JsonKind::kArray)) return read_of_type(schema, type.text());
    for (const JsonValue one : type) read_of_type(schema, one.text());
  }

  /// Definitions are read anyway. Each of the others costs a search.
  void note_ref(std::string_view ref) {
    if (ref.starts_with("#/$defs/") || ref.starts_with("#/definitions/") || is_one_of(ref, refs_)) {
      return;
    }
    if (refs_.size() == kMostRefs) return add("$ref");
    refs_.emplace_back(ref);
  }

  static bool has_several(const JsonValue& list) {
    std::size_t count = 0;
    for ([[maybe_unused]] const JsonValue one : list) ++count;
    return count > 1;
  }

  void read_of_type(const JsonValue& schema, std::string_view type) {
    if (!schema["const"].is(JsonKind::kAbsent)) return;  // the value says the rest
    if (!schema["enum"].is(JsonKind::kAbsent)) return;
    const JsonValue additional = schema["additionalProperties"];
    const bool has_properties =
        !schema["properties"].is(JsonKind::kAbsent) ||
        (!additional.is(JsonKind::kAbsent) && !additional.is(JsonKind::kTrue));
    const bool has_all = !schema["allOf"].is(JsonKind::kAbsent);
    const bool has_items =
        !schema["items"].is(JsonKind::kAbsent) || !schema["prefixItems"].is(JsonKind::kAbsent);
    if (type == "object" || (type.empty() && has_properties)) {
      return has_all && !has_properties ? read_all_of(schema, type) : read_object(schema, type);
    }
    if (has_all && (type.empty() || type == "string")) return read_all_of(schema, type);
    if (type == "array" || (type.empty() && has_items)) return read_array(schema, type);
    if (type == "string" || (type.empty() && is_string(schema))) return read_string(schema, type);
    if (type == "integer") {
      const bool has_minimum = !schema["minimum"].is(JsonKind::kAbsent);
      const bool has_maximum = !schema["maximum"].is(JsonKind::kAbsent);
      return add_rest(schema, type,
                      {"minimum", "maximum", has_minimum ? "" : "exclusiveMinimum",
                       has_maximum ? "" : "exclusiveMaximum"});
    }
    add_rest(schema, type, {});
  }

  static bool is_string(const JsonValue& schema) {
    return !schema["pattern"].is(JsonKind::kAbsent) || !schema["minLength"].is(JsonKind::kAbsent) ||
           !schema["maxLength"].is(JsonKind::kAbsent) || is_known_format(schema["format"].text());
  }
  static bool is_known_format(std::string_view format) {
    static constexpr auto kKnown = std::to_array<std::string_view>(
        {"date", "time", "date-time", "uuid", "uuid1", "uuid2", "uuid3", "uuid4", "uuid5"});
    return is_one_of(format, kKnown);
  }

  void read_object(const JsonValue& schema, std::string_view type) {
    const JsonValue properties = schema["properties"];
    add_rest(schema, type, {"properties", "additionalProperties", "required"});
    for (const JsonValue name : schema["required"]) {
      if (properties[name.text()].is(JsonKind::kAbsent)) add("required");
    }
    read_all(properties);
    read(schema["additionalProperties"]);
  }

  /// The properties and values of its schemas are joined; nothing else of them is looked at.
  void read_all_of(const JsonValue& schema, std::string_view type) {
    add_rest(schema, type, {"allOf"});
    for (const JsonValue one : schema["allOf"]) {
      const bool is_joined = !one["properties"].is(JsonKind::kAbsent) ||
                             !one["enum"].is(JsonKind::kAbsent) ||
                             !one["$ref"].is(JsonKind::kAbsent);
      if (!is_joined) add("allOf");
      read(one);
    }
  }

  void read_array(const JsonValue& schema, std::string_view type) {
    const bool has_items = !schema["items"].is(JsonKind::kAbsent);
    const std::string_view name = has_items ? "items" : "prefixItems";
    const JsonValue items = schema[name];
    if (!items.is(JsonKind::kArray)) {
      add_rest(schema, type, {name, "minItems", "maxItems"});
      return read(items);
    }
    std::size_t count = 0;
    for ([[maybe_unused]] const JsonValue item : items) ++count;
    // A grammar of one item after the other has exactly these.
    const bool has_least = schema["minItems"].count().value_or(0) <= count;
    const bool has_most = schema["maxItems"].count().value_or(count) >= count;
    add_rest(schema, type,
             {name, has_least ? "minItems" : "", has_most ? "maxItems" : "", "additionalItems"});
    read_all(items);
  }

  void read_string(const JsonValue& schema, std::string_view type) {
    const JsonValue pattern = schema["pattern"];
    if (!pattern.text().empty()) {
      return add_rest(schema, type, {enforces_pattern(pattern.text()) ? "pattern" : ""});
    }
    if (is_known_format(schema["format"].text())) {
      return add_rest(schema, type, {"pattern", "format"});
    }
    add_rest(schema, type, {"pattern", "minLength", "maxLength"});
  }

  /// Absent: there is none, which the library refuses.
  [[nodiscard]] JsonValue target_of(std::string_view ref) const {
    if (!ref.starts_with("#/")) return {};
    JsonValue target = root_;
    for (std::string_view rest = ref.substr(2);;) {
      const std::size_t slash = rest.find('/');
      target = target[rest.substr(0, slash)];
      if (slash == std::string_view::npos) return target;
      rest.remove_prefix(slash + 1);
    }
  }

  JsonValue root_;
  std::set<std::string> found_;
  std::vector<std::string_view> refs_;  // that were seen, beside definitions
};

/// Of parameters that a model writes as text between tags.
std::set<std::string> unenforced_in_texts(const JsonValue& parameters) {
  std::set<std::string> found;
  for (const JsonValue parameter : parameters["properties"]) {
    const JsonValue type = parameter["type"];
    const bool may_be_text =
        type.text() == "string" || type.is(JsonKind::kArray) || type.is(JsonKind::kAbsent);
    if (!may_be_text) continue;
    for (const std::string_view name : {"pattern", "minLength", "maxLength", "format", "enum",
                                        "const", "anyOf", "oneOf", "allOf", "$ref"}) {
      if (!parameter[name].is(JsonKind::kAbsent)) found.emplace(name);
    }
  }
  return found;
}

void read_format(const AnswerRules& rules, std::set<std::string>& names) {
  JsonReader reader;
  const auto format = reader.read(rules.response_format);
  if (!format.has_value()) return;
  const JsonValue wrapped = (*format)["json_schema"]["schema"];
  const JsonValue schema = wrapped.is(JsonKind::kAbsent) ? (*format)["schema"] : wrapped;
  for (const std::string& name : unenforced_keywords(schema)) {
    names.insert("response_format." + name);
  }
}

void read_tools(const AnswerRules& rules, CallArguments arguments, std::set<std::string>& names) {
  JsonReader reader;
  const auto tools = reader.read(rules.tools);
  if (!tools.has_value() || rules.tool_choice == R"("none")") return;
  for (const JsonValue tool : *tools) {
    const JsonValue parameters = tool["function"]["parameters"];
    if (parameters.is_empty()) continue;
    if (arguments == CallArguments::kFree) {
      names.emplace("tools.parameters");
      continue;
    }
    std::set<std::string> found = unenforced_keywords(parameters);
    if (arguments == CallArguments::kTaggedText) found.merge(unenforced_in_texts(parameters));
    for (const std::string& name : found) names.insert("tools." + name);
  }
}

}  // namespace

std::set<std::string> unenforced_keywords(const JsonValue& schema) {
  return Schemas(schema).take();
}

namespace {

/// Whether an escape by number, as "\\x41", has its hexadecimal digits; true of other escapes.
bool has_digits(std::string_view rest, char escape) {
  const std::size_t digits = escape == 'x' ? 2 : escape == 'u' ? 4 : escape == 'U' ? 8 : 0;
  return rest.size() >= digits && std::ranges::all_of(rest.substr(0, digits), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
         });
}

}  // namespace

bool enforces_pattern(std::string_view pattern) {
  if (pattern.size() < 2 || pattern.front() != '^' || pattern.back() != '$') return false;
  const std::string_view inner = pattern.substr(1, pattern.size() - 2);
  constexpr std::string_view kEscapedEverywhere = "trn\\\"[]-xuU";
  constexpr std::string_view kEscapedOutside = "^$.[]()|{}*+?";
  bool in_class = false;
  bool in_braces = false;
  for (std::size_t i = 0; i < inner.size(); ++i) {
    const char c = inner[i];
    const char next = i + 1 < inner.size() ? inner[i + 1] : '\0';
    if (c == '\\') {
      const bool is_known =
          kEscapedEverywhere.contains(next) || (!in_class && kEscapedOutside.contains(next));
      if (next == '\0' || !is_known || !has_digits(inner.substr(i + 2), next)) return false;
      ++i;
    } else if (in_class) {
      in_class = c != ']';
    } else if (in_braces) {
      if (c == '}')
        in_braces = false;
      else if (!(c >= '0' && c <= '9') && c != ',')
        return false;
    } else if (c == '[') {
      in_class = true;
    } else if (c == '{') {
      in_braces = true;
    } else if (c == '^' || c == '$' || c == ']' || c == '}') {
      return false;
    } else if (c == '(' && next == '?' && !(i + 2 < inner.size() && inner[i + 2] == ':')) {
      return false;
    }
  }
  return !in_class && !in_braces;
}

std::vector<std::string> unenforced_rules(const AnswerRules& rules, CallArguments arguments) {
  std::set<std::string> names;
  if (!rules.response_format.empty()) read_format(rules, names);
  if (!rules.tools.empty()) read_tools(rules, arguments, names);
  return {names.begin(), names.end()};
}

}  // namespace afterimage
