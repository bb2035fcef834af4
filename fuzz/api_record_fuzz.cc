// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Any bytes are a record, a stream, a body or an error. Replaying what was parsed gives JSON; the
// result for a stream does not depend on how it is cut.
#include <cstdint>
#include <string>
#include <string_view>

#include "afterimage/result.h"
#include "gateway/openai/record.h"
#include "gateway/openai/testing/fed_recorder.h"
#include "json_check.h"

using namespace afterimage;

namespace {

const ResponseStamp kStamp{.id = "new", .created = 7};

void check_record(std::string_view bytes) {
  const auto record = ApiRecord::parse(bytes);
  if (!record.has_value()) return;
  AFI_CHECK(record->serialize() == bytes);
  static_cast<void>(record->text());
  static_cast<void>(record->finish_reason());
  if (record->has_body()) static_cast<void>(record->body(kStamp));
  for (const bool usage : {false, true}) {
    if (record->can_be_streamed(usage)) static_cast<void>(record->events(kStamp, usage));
  }
}

void check_good(ApiOperation operation, const ApiRecord& record) {
  check_record(record.serialize());
  AFI_CHECK(ApiRecord::parse(record.serialize()).has_value());
  if (record.has_body()) {
    const auto again = ApiRecord::of_body(operation, record.body(kStamp));
    AFI_CHECK(again.has_value() && again->text() == record.text());
    AFI_CHECK(testing::is_json(record.body(kStamp)));
  }
  if (!record.can_be_streamed(true)) return;
  testing::FedRecorder recorder(operation);
  recorder.feed(record.events(kStamp, true));
  const auto again = recorder.finish();
  AFI_CHECK(again.has_value() && again->finish_reason() == record.finish_reason());
  AFI_CHECK(again->events(kStamp, true) == record.events(kStamp, true));
}

void check_stream(ApiOperation operation, std::string_view bytes) {
  testing::FedRecorder once(operation);
  once.feed(bytes);
  testing::FedRecorder twice(operation);
  twice.feed(bytes.substr(0, bytes.size() / 3));
  twice.feed(bytes.substr(bytes.size() / 3));
  const auto record = once.finish();
  const auto other = twice.finish();
  AFI_CHECK(once.done() == twice.done());
  AFI_CHECK(record.has_value() == other.has_value());
  if (!record.has_value()) return;
  AFI_CHECK(record->serialize() == other->serialize());
  check_good(operation, *record);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check_record(bytes);
  for (const char* type : {"audio/mpeg", "application/json"}) {
    const auto kept = ApiRecord::of_response(ApiOperation::kSpeech, type, bytes);
    if (!kept.has_value()) continue;
    AFI_CHECK(kept->body(kStamp) == bytes && kept->content_type() == type);
    check_record(kept->serialize());
  }
  for (const auto operation :
       {ApiOperation::kChat, ApiOperation::kCompletion, ApiOperation::kEmbedding}) {
    check_stream(operation, bytes);
    const auto whole = ApiRecord::of_body(operation, bytes);
    if (whole.has_value()) check_good(operation, *whole);
  }
  return 0;
}
