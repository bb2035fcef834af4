// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// A batch of embeddings: vectors that are stored, and one call for the rest.
#include <algorithm>
#include <utility>

#include "gateway/openai/record.h"
#include "gateway/proxy/gateway_request.h"

namespace afterimage {
namespace {

/// The largest answer that is held back until all of it is here: the vectors of a batch are put together then.
constexpr std::size_t kLargestRest = std::size_t{12} * 1024 * 1024;
/// So many inputs, from all over the batch, are looked up below memory first: if none of them is there, the
/// others hardly are, and each costs a round trip.
constexpr std::size_t kProbes = 16;

/// The older of two answers, which is what a client is told of a batch.
bool is_older(const AnswerLookup& one, const std::optional<AnswerLookup>& other) {
  return !other.has_value() || one.steps.back().age > other->steps.back().age;
}

/// Every n-th first.
std::vector<std::size_t> spread(const std::vector<std::size_t>& all) {
  const std::size_t stride = std::max<std::size_t>(1, all.size() / kProbes);
  std::vector<std::size_t> order;
  order.reserve(all.size());
  for (std::size_t i = 0; i < all.size(); i += stride) order.push_back(all[i]);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i % stride != 0) order.push_back(all[i]);
  }
  return order;
}

}  // namespace

/// Neither time nor the headers of a partial answer may tell what others have asked.
bool GatewayRequest::splits_batch() const {
  return config_->settings.answers.split_batches && !asked_.api->batch.inputs.empty() &&
         !terms_->draws && !hides_hits();
}

/// The whole batch was not found: its inputs are looked up, and the rest is asked for.
GatewayRequest::Next GatewayRequest::look_up_inputs() {
  const std::size_t count = asked_.inputs.size();
  batch_ = std::make_unique<EmbeddingBatch>(EmbeddingBatch{.body = asked_.body,
                                                           .api = asked_.api,
                                                           .question = *asked_.question,
                                                           .inputs = asked_.inputs,
                                                           .frame_of = asked_.frame,
                                                           .vectors = {},
                                                           .rest = {}});
  batch_->vectors.resize(count);
  batch_->erasures = count_erasures();
  AnswerCache& cache = *gateway_.parts().reuse.answer_cache();
  for (std::size_t i = 0; i < count; ++i) {
    take_input(i, cache.find(batch_->inputs[i], terms_->rules));
  }
  note_rest();
  // Only there it may wait for a disk or for servers.
  const bool may_wait = stage_ == RequestStage::kLookingUpArchive;
  if (may_wait && gateway_.parts().archive != nullptr) look_up_archived_inputs();
  if (batch_->found() > 0 && !may_serve_inputs()) {
    is_batch_asked_whole_ = true;
    make_batch_whole();
    return nothing_to_serve();
  }
  if (!batch_->rest.empty()) return ask_for_rest();
  find_frame();
  return respond_with_inputs();
}

/// Usage is the server's, if it was asked for this batch as a whole.
void GatewayRequest::find_frame() {
  AnswerArchive* const archive = gateway_.parts().archive;
  AnswerLookup found =
      gateway_.parts().reuse.answer_cache()->find(*batch_->frame_of, terms_->rules);
  if (!found.answer.has_value() && archive != nullptr &&
      stage_ == RequestStage::kLookingUpArchive) {
    auto restored = archive->restore(*batch_->frame_of, terms_->rules, quota_of(asked_.tenant));
    if (restored.has_value()) found = *std::move(restored);
  }
  if (!found.answer.has_value()) return;
  const auto record = ApiRecord::parse(found.answer->record);
  if (!record.has_value() || !record->has_body()) return;
  auto frame = VectorResponse::read_frame(record->body({.id = "-", .created = 1}));
  if (!frame.has_value()) return;
  batch_->frame = *std::move(frame);
  batch_->usage = VectorResponse::Usage::kAsCounted;
  batch_->prompt_tokens = found.answer->prompt_tokens.value();
}

void GatewayRequest::look_up_archived_inputs() {
  std::size_t asked = 0;
  bool is_known = batch_->found() > 0;
  for (const std::size_t i : spread(batch_->rest)) {
    auto found = gateway_.parts().archive->restore(batch_->inputs[i], terms_->rules,
                                                   quota_of(asked_.tenant));
    if (found.has_value()) take_input(i, *std::move(found));
    is_known = is_known || batch_->vectors[i].has_value();
    if (++asked >= kProbes && !is_known) break;
  }
  note_rest();
}

void GatewayRequest::note_rest() {
  batch_->rest.clear();
  for (std::size_t i = 0; i < batch_->vectors.size(); ++i) {
    if (!batch_->vectors[i].has_value()) batch_->rest.push_back(i);
  }
}

void GatewayRequest::take_input(std::size_t i, AnswerLookup found) {
  if (!found.answer.has_value()) return;
  const auto record = ApiRecord::parse(found.answer->record);
  if (!record.has_value() || !record->has_body()) return;
  auto response = VectorResponse::read(record->body({.id = "-", .created = 1}), 1);
  if (!response.has_value()) return;
  batch_->vectors[i] = response->vector(0, i);
  batch_->saved += found.saved;
  batch_->prompt_tokens += found.answer->prompt_tokens.value();
  if (!batch_->frame.has_value()) batch_->frame = *std::move(response);
  found.answer->record.clear();
  if (is_older(found, batch_->oldest)) batch_->oldest = std::move(found);
}

/// What grows with each erasure, here or at other gateways.
std::array<std::uint64_t, 4> GatewayRequest::count_erasures() const {
  const std::uint64_t in_memory = gateway_.parts().reuse.answer_cache()->stats().erased;
  const AnswerArchive* const archive = gateway_.parts().archive;
  if (archive == nullptr) return {in_memory};
  const AnswerArchiveStats stats = archive->stats();
  return {in_memory, stats.erasures, stats.applied, stats.generations};
}

/// Whether the vectors that were found may be served now: time has passed since, and what was erased
/// meanwhile is not served any more.
bool GatewayRequest::may_serve_inputs() {
  AnswerArchive* const archive = gateway_.parts().archive;
  if (archive != nullptr && !archive->may_serve(archive->read_lease())) return false;
  if (count_erasures() == batch_->erasures) return true;
  // In doubt, that is if it was evicted meanwhile, it counts as erased.
  const AnswerCache& cache = *gateway_.parts().reuse.answer_cache();
  for (std::size_t i = 0; i < batch_->inputs.size(); ++i) {
    const bool is_stored = batch_->vectors[i].has_value();
    if (is_stored && !cache.peek(batch_->inputs[i], terms_->rules).answer.has_value()) return false;
  }
  return true;
}

/// All of them are stored: one record is made of theirs.
GatewayRequest::Next GatewayRequest::respond_with_inputs() {
  std::vector<std::string> vectors;
  for (auto& vector : batch_->vectors) vectors.push_back(*std::move(vector));
  auto record =
      ApiRecord::of_body(ApiOperation::kEmbedding, batch_->frame->with(vectors, batch_->usage));
  if (!record.has_value()) {
    batch_->rest.clear();
    return nothing_to_serve();
  }
  batch_->oldest->saved = batch_->saved;
  batch_->oldest->answer->prompt_tokens = TokenCount(batch_->prompt_tokens);
  decision_.match_levels = shown(batch_->oldest->steps);
  found_ = Found{.lookup = *std::move(batch_->oldest), .record = *std::move(record)};
  return RequestStage::kResponding;
}

/// The request becomes one for the inputs that are not stored, unless none is.
GatewayRequest::Next GatewayRequest::ask_for_rest() {
  std::size_t largest = 0;
  for (const auto& vector : batch_->vectors) {
    largest = std::max(largest, vector.has_value() ? vector->size() : 0);
  }
  const bool is_worth = batch_->found() > 0 && restarts_ < kMaxRestarts &&
                        largest <= kLargestRest / batch_->rest.size();
  if (!is_worth || asked_.directives.only_if_cached) return nothing_to_serve();
  auto body = std::make_shared<const std::string>(
      with_inputs(*batch_->body, batch_->api->batch, batch_->rest));
  const Backend& backend = gateway_.parts().backend;
  const ApiReader reader = backend.takes_anything() ? ApiReader::kOtherServer : ApiReader::kEngine;
  auto rest = read_api_request(ApiOperation::kEmbedding, *body, reader);
  if (!rest.has_value()) return nothing_to_serve();
  if (rest->model.empty()) rest->model = backend.name();
  batch_->is_rest = true;
  asked_.body = std::move(body);
  asked_.api = std::make_shared<const ApiRequest>(*std::move(rest));
  asked_.chain = std::make_shared<SharedChain>(asked_.api);
  asked_.question = question_of(*asked_.api, request_, *asked_.space, backend,
                                gateway_.parts().ids.clock().now());
  asked_.frame.reset();
  asked_.inputs.clear();
  for (const std::size_t i : batch_->rest) asked_.inputs.push_back(batch_->inputs[i]);
  decision_.why = std::to_string(batch_->found()) + " of " +
                  std::to_string(batch_->vectors.size()) +
                  " inputs were stored, and the model's server is asked for the others";
  return nothing_to_serve();
}

/// Before it is looked up again: the request is what its client sent.
void GatewayRequest::make_batch_whole() {
  if (batch_ == nullptr) return;
  asked_.body = batch_->body;
  asked_.api = batch_->api;
  asked_.chain = std::make_shared<SharedChain>(asked_.api);
  asked_.question = batch_->question;
  asked_.inputs = std::move(batch_->inputs);
  asked_.frame = std::move(batch_->frame_of);
  batch_.reset();
}

/// Whether the server's answer for the rest, once it is whole, can be put together with what was stored. An
/// error says something of the rest, whose positions the client does not know.
bool GatewayRequest::completes_batch() {
  if (batch_ == nullptr || !batch_->is_rest) return true;
  if (response().state() != SharedResponse::State::kWhole || is_failure(response().status())) {
    return true;
  }
  if (response().status() != 200 || !may_serve_inputs()) return false;
  auto answer = VectorResponse::read(*response().whole(), batch_->rest.size());
  if (!answer.has_value()) return false;
  batch_->answer = *std::move(answer);
  return true;
}

/// Without looking its inputs up again.
GatewayRequest::Next GatewayRequest::ask_for_whole() {
  unsubscribe();
  make_batch_whole();
  is_batch_asked_whole_ = true;
  completed_before_ = gateway_.responses().completed();
  return RequestStage::kJoining;
}

/// The server's vectors and the stored ones, in the client's order; usage is what the server counted.
std::optional<std::string> GatewayRequest::whole_batch(HttpHeaders& headers) const {
  if (batch_ == nullptr || !batch_->answer.has_value()) return std::nullopt;
  headers.set(std::string(kCachedInputs),
              std::to_string(batch_->found()) + " of " + std::to_string(batch_->vectors.size()));
  std::vector<std::string> vectors;
  vectors.reserve(batch_->vectors.size());
  std::size_t next = 0;
  for (const auto& stored : batch_->vectors) {
    if (stored.has_value()) {
      vectors.push_back(*stored);
    } else {
      const std::size_t position = vectors.size();
      vectors.push_back(batch_->answer->vector(next++, position));
    }
  }
  return batch_->answer->with(vectors, VectorResponse::Usage::kAsCounted);
}

/// Of a batch that was not found as a whole.
void GatewayRequest::explain_inputs() {
  std::size_t found = 0;
  for (Question& input : asked_.inputs) {
    const AnswerLookup lookup = gateway_.parts().reuse.answer_cache()->peek(input, terms_->rules);
    if (!lookup.answer.has_value()) continue;
    ++found;
    decision_.saved += lookup.saved;
  }
  if (found == 0) return;
  const std::string count =
      std::to_string(found) + " of " + std::to_string(asked_.inputs.size()) + " inputs are stored";
  if (found < asked_.inputs.size()) {
    decision_.why = count + ", and the model's server is asked for the others";
    return;
  }
  decide(Outcome::kHit, Reason::kServed);
  decision_.level = to_string(MatchLevel::kExact);
  decision_.why = count;
}

}  // namespace afterimage
