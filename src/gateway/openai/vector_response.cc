// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/vector_response.h"

#include <algorithm>
#include <utility>

#include "foundation/json/json_text.h"

namespace afterimage {
namespace {

constexpr unsigned kLevelsToMembers = 3;  // of a vector; its many numbers are not parsed
constexpr std::string_view kNoUsage = R"({"prompt_tokens":0,"total_tokens":0})";

std::unexpected<Error> other_form(std::string_view why) {
  return fail(ErrorCode::kInvalidArgument,
              "the response does not have a vector for each input: " + std::string(why));
}

}  // namespace

/// Returns the list of vectors.
Result<JsonValue> VectorResponse::find_places(JsonReader& reader) {
  const auto root = reader.read(body_, kLevelsToMembers);
  if (!root.has_value()) return other_form(root.error().message);
  const JsonValue data = (*root)["data"];
  if (!data.is(JsonKind::kArray)) return other_form("it has no data");
  data_ = {.begin = data.begin_offset(), .end = data.end_offset()};
  const JsonValue usage = (*root)["usage"];
  if (usage.is(JsonKind::kObject)) usage_ = {usage.begin_offset(), usage.end_offset()};
  return data;
}

Result<VectorResponse> VectorResponse::read_frame(std::string body) {
  VectorResponse response;
  response.body_ = std::move(body);
  JsonReader reader;
  AFI_TRY_VOID(response.find_places(reader));
  return response;
}

Result<VectorResponse> VectorResponse::read(std::string body, std::size_t inputs) {
  VectorResponse response;
  response.body_ = std::move(body);
  JsonReader reader;
  AFI_TRY(const JsonValue data, response.find_places(reader));
  const auto place_of = [](const JsonValue& value) {
    return Place{.begin = value.begin_offset(), .end = value.end_offset()};
  };
  response.vectors_.resize(inputs);
  std::size_t position = 0;
  for (const JsonValue vector : data) {
    const JsonValue index = vector["index"];
    const auto input = index.is_none() ? position : index.count().value_or(inputs);
    ++position;
    if (vector["embedding"].is_none() || input >= inputs || response.vectors_[input].all.end > 0) {
      return other_form("a vector is not that of one input");
    }
    Vector& taken = response.vectors_[input];
    taken.all = place_of(vector);
    if (!index.is_none()) taken.index = place_of(index);
  }
  if (position != inputs || inputs == 0) return other_form(std::to_string(position) + " vectors");
  return response;
}

std::string VectorResponse::frame() const {
  const std::vector<std::string> none{"null"};  // a record wants data
  return with(none, Usage::kAsCounted);
}

std::string VectorResponse::vector(std::size_t i, std::size_t at) const {
  const auto& [all, index] = vectors_[i];
  if (index.end == 0) return body_.substr(all.begin, all.end - all.begin);
  std::string written;
  written.reserve(all.end - all.begin + 8);
  written.append(body_, all.begin, index.begin - all.begin).append(std::to_string(at));
  return written.append(body_, index.end, all.end - index.end);
}

std::string VectorResponse::with(std::span<const std::string> vectors, Usage usage) const {
  std::string list = "[";
  std::size_t size = 0;
  for (const std::string& vector : vectors) size += vector.size() + 1;
  list.reserve(size + 2);
  for (const std::string& vector : vectors) {
    if (list.size() > 1) list.push_back(',');
    list.append(vector);
  }
  list.push_back(']');
  std::vector<std::pair<Place, std::string_view>> changes{{data_, list}};
  if (usage == Usage::kNothing && usage_.end > 0) changes.emplace_back(usage_, kNoUsage);
  std::ranges::sort(changes, {}, [](const auto& change) { return change.first.begin; });
  std::string made;
  made.reserve(body_.size() + list.size());
  std::size_t from = 0;
  for (const auto& [place, text] : changes) {
    made.append(body_, from, place.begin - from).append(text);
    from = place.end;
  }
  return made.append(body_, from);
}

}  // namespace afterimage
