// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bench/load/request_bodies.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

#include "bench/load/pictures.h"
#include "foundation/json/json_text.h"
#include "foundation/platform/random.h"
#include "foundation/text/data_url.h"

namespace afterimage {
namespace {

constexpr auto kWords = std::to_array<std::string_view>(
    {"the",    "picture", "shows",  "a",      "red",    "house",  "near", "water",
     "and",    "two",     "trees",  "with",   "some",   "boats",  "on",   "left",
     "side",   "while",   "people", "walk",   "under",  "bright", "sky",  "of",
     "summer", "window",  "table",  "green",  "street", "door",   "many", "small",
     "birds",  "over",    "stone",  "bridge", "in",     "front",  "old",  "tower"});

/// Labels of texts that are made alike but must differ.
enum class TextKind : std::uint8_t { kSystem = 10, kQuestion = 11, kAnswer = 12, kPicture = 13 };

Rng stream_of(std::uint64_t seed, TextKind kind, std::uint64_t number) {
  return Rng(seed).split(static_cast<std::uint64_t>(kind)).split(number);
}

/// Begins with the number, so that two texts differ early and a cache cannot match by chance.
void append_words(std::string& out, std::uint64_t seed, TextKind kind, std::uint32_t number,
                  std::uint32_t words) {
  Rng rng = stream_of(seed, kind, number);
  out += fmt::format("{}", number);
  for (std::uint32_t i = 0; i < words; ++i) {
    out += ' ';
    out += kWords[rng.below(kWords.size())];
  }
}

}  // namespace

RequestBodies::RequestBodies(const LoadTrace& trace, BodyOptions options)
    : trace_(trace), options_(std::move(options)) {
  for (const LoadRequest& request : trace.requests) ++left_[request.session];
}

const std::string& RequestBodies::picture_url(const LoadPicture& picture) {
  const auto found = encoded_.find(picture.id);
  if (found != encoded_.end()) {
    order_.splice(order_.begin(), order_, found->second);
    return order_.front().url;
  }
  const std::uint64_t number = stream_of(trace_.seed, TextKind::kPicture, picture.id).next();
  order_.push_front(
      {.id = picture.id,
       .url = "data:image/png;base64," + encode_base64(generated_picture(number, picture.side))});
  encoded_[picture.id] = order_.begin();
  kept_ += order_.front().url.size();
  while (kept_ > kKeptPictures.value() && order_.size() > 1) {
    kept_ -= order_.back().url.size();
    encoded_.erase(order_.back().id);
    order_.pop_back();
  }
  return order_.front().url;
}

void RequestBodies::append_user(std::string& out, const Turn& turn) {
  out += R"({"role":"user","content":[)";
  for (const LoadPicture& picture : turn.pictures) {
    out += R"({"type":"image_url","image_url":{"url":")";
    out += picture_url(picture);
    out += R"("}},)";
  }
  out += R"({"type":"text","text":"Question )";
  append_words(out, trace_.seed, TextKind::kQuestion, turn.text, trace_.question_words);
  out += R"(?"}]})";
}

std::shared_ptr<const std::string> RequestBodies::next() {
  if (at_ == trace_.requests.size()) return nullptr;
  const LoadRequest& request = trace_.requests[at_++];
  std::vector<Turn>& turns = sessions_[request.session];
  auto body = std::make_shared<std::string>();
  std::string& out = *body;
  out = R"({"model":)";
  append_json_string(out, options_.model);
  out += fmt::format(R"(,"temperature":0,"max_tokens":{},)", request.max_tokens);
  if (options_.stream) out += R"("stream":true,"stream_options":{"include_usage":true},)";
  out += R"("messages":[)";
  if (request.system != 0) {
    out += R"({"role":"system","content":"Instructions )";
    append_words(out, trace_.seed, TextKind::kSystem, request.system, trace_.system_words);
    out += R"(."},)";
  }
  for (const Turn& turn : turns) {
    append_user(out, turn);
    out += R"(,{"role":"assistant","content":"Answer )";
    append_words(out, trace_.seed, TextKind::kAnswer, turn.text, trace_.answer_words);
    out += R"(."},)";
  }
  turns.push_back({.text = request.text, .pictures = request.pictures});
  append_user(out, turns.back());
  out += "]}";
  if (--left_[request.session] == 0) sessions_.erase(request.session);
  return body;
}

}  // namespace afterimage
