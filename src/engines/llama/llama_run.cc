// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama/llama_run.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "engines/llama/prompt_media.h"
#include "engines/llama_library/loaded_sampler.h"
#include "runtime/engine_api/answer_writer.h"
#include "runtime/engine_api/key_rotation.h"
#include "runtime/engine_api/logits_digest.h"
#include "runtime/engine_api/token_sampler.h"

namespace afterimage {
namespace {

std::uint32_t size_of_prompt(const Sequence& prompt) {
  return static_cast<std::uint32_t>(prompt.tokens.size());
}

/// Index of the span that begins at `at`, or the number of spans.
std::size_t span_at(const Sequence& prompt, std::uint32_t at) {
  const auto found = std::ranges::find(prompt.spans, TokenCount(at), &MediaSpan::offset);
  return static_cast<std::size_t>(found - prompt.spans.begin());
}

bool is_inside(const Sequence& prompt, TokenCount at) {
  return std::ranges::any_of(
      prompt.spans, [at](const MediaSpan& span) { return span.offset < at && at < span.end(); });
}

/// Whether all rows of a media item are moved, so that it needs no embeddings.
bool is_not_computed(std::size_t span, const KvUse& use) {
  return std::ranges::any_of(use.moved, [span](const MovedMedia& item) {
    return item.span == span && item.recomputed == TokenCount(0);
  });
}

Result<void> check_embeddings(const Sequence& prompt, std::size_t span, const TensorViews& views,
                              std::uint32_t width) {
  const std::uint64_t length = prompt.spans[span].length.value();
  if (views.size() == 2 && views[0].dtype() == DType::kF32 &&
      views[0].shape() == Shape{length, width}) {
    return {};
  }
  return fail(
      ErrorCode::kInvalidArgument,
      "media item " + std::to_string(span + 1) + " needs embeddings of [" + std::to_string(length) +
          ", " + std::to_string(width) + "] f32 and their span parts" +
          (views.empty() ? "; there are none" : ", not " + to_string(views.front().shape())));
}

}  // namespace

Result<void> check_llama_prompt(const LoadedModel& model, const Sequence& prompt,
                                std::span<const TensorViews> embeddings, const KvUse& use) {
  AFI_TRY_VOID(check_sequence(prompt));
  const std::uint64_t size = prompt.tokens.size();
  if (size == 0 || (!prompt.spans.empty() && prompt.spans.back().end().value() == size)) {
    return fail(ErrorCode::kInvalidArgument, "a prompt must end with text, not with a media item");
  }
  if (embeddings.size() != prompt.spans.size()) {
    return fail(ErrorCode::kInvalidArgument, std::to_string(embeddings.size()) +
                                                 " embeddings for " +
                                                 std::to_string(prompt.spans.size()) + " spans");
  }
  const TokenCount resume = use.resume_from == nullptr ? TokenCount(0) : use.resume_from->end;
  if (is_inside(prompt, resume) || std::ranges::any_of(use.wanted.snapshots, [&](TokenCount at) {
        return is_inside(prompt, at);
      })) {
    return fail(ErrorCode::kInvalidArgument, "a resume point or snapshot is inside a media item");
  }
  std::uint32_t at = 0;
  for (std::size_t i = 0; i <= prompt.spans.size(); ++i) {
    const bool last = i == prompt.spans.size();
    const std::uint32_t end = last ? size_of_prompt(prompt) : prompt.spans[i].offset.value();
    for (; at < end; ++at) {
      if (model.is_in_vocabulary(prompt.tokens[at])) continue;
      return fail(
          ErrorCode::kInvalidArgument,
          "token " + std::to_string(at) + " of the prompt is not in the model's vocabulary");
    }
    if (last) break;
    at = prompt.spans[i].end().value();
    if (prompt.spans[i].end() <= resume || is_not_computed(i, use)) continue;
    AFI_TRY_VOID(check_embeddings(prompt, i, embeddings[i], model.facts().row_width));
  }
  return {};
}

LlamaRun::LlamaRun(const LoadedModel& model, const SequenceRows* kv, const KeyRotation* rotation,
                   TokenCount context, const Clock& clock, const Lanes::Lane& lane,
                   const Sequence& prompt, std::span<const TensorViews> embeddings,
                   const KvUse& use)
    : model_(model),
      kv_(kv),
      rotation_(rotation),
      context_(context),
      clock_(clock),
      sequence_(lane.sequence()),
      held_(lane.held()),
      prompt_(prompt),
      embeddings_(embeddings),
      use_(use) {}

LlamaRun::~LlamaRun() {
  if (logits_not_finite_ && kv_ != nullptr) {
    static_cast<void>(restore(kv_->zeros(context_)));
  }
  if (held_.after.empty()) model_.clear(sequence_);
}

Result<Generation> LlamaRun::generate(const GenerateOptions& options) && {
  const Duration began = clock_.now();
  AFI_TRY_VOID(start());
  AFI_TRY_VOID(prefill(options.cancel));
  AFI_TRY_VOID(decode(options));
  capture_end();
  hold_rows();
  result_.completion.first_token_after -= began;
  return std::move(result_);
}

Result<void> LlamaRun::start() {
  Completion& completion = result_.completion;
  if (use_.resume_from != nullptr) {
    completion.resumed_from = use_.resume_from->end;
    AFI_TRY_VOID(resume(*use_.resume_from));
  } else if (!std::exchange(held_, {}).after.empty()) {
    model_.clear(sequence_);
  }
  for (const MovedMedia& item : use_.moved) {
    completion.moved += prompt_.spans[item.span].length - item.recomputed;
  }
  completion.prefilled =
      TokenCount(size_of_prompt(prompt_)) - completion.resumed_from - completion.moved;
  return {};
}

/// If the sequence still holds rows computed from the same tokens, they equal those of `slice`: the
/// sequence is truncated to the resume point instead of being restored.
Result<void> LlamaRun::resume(const KvSlice& slice) {
  HeldRows held = std::exchange(held_, {});
  if (held.begins_with(prompt_, slice.end)) {
    held.after.resize(slice.end.value());
    if (model_.truncate(sequence_, held.after.back())) {
      after_ = std::move(held.after);
      return {};
    }
  }
  restored_ = true;
  AFI_TRY(after_, kv_->positions(slice));
  return restore(kv_->outline(slice));
}

Result<void> LlamaRun::restore(const StateOutline& state) {
  return model_.restore(sequence_, state.parts,
                        [&](StatePlaces places) { return kv_->fill(state, places); });
}

/// Keeps the rows in the lane for the next request. Not with sliding windows or recurrent states,
/// which cannot be truncated, and not after a restore: only rows that the model computed in this
/// sequence are certain to be right.
void LlamaRun::hold_rows() {
  if (kv_ == nullptr || !kv_->has_only_full_groups() || restored_) return;
  held_.prompt = prompt_;
  const auto& answer_tokens = result_.completion.tokens;
  const auto fed_back = static_cast<std::ptrdiff_t>(covered() - size_of_prompt(prompt_));
  held_.prompt.tokens.insert(held_.prompt.tokens.end(), answer_tokens.begin(),
                             answer_tokens.begin() + fed_back);
  held_.after = std::move(after_);
}

Result<void> LlamaRun::prefill(const std::stop_token& cancel) {
  const auto& wanted = use_.wanted.snapshots;
  const std::uint32_t size = size_of_prompt(prompt_);
  while (true) {
    if (next_snapshot_ < wanted.size() && wanted[next_snapshot_].value() == covered()) {
      ++next_snapshot_;
      AFI_TRY_VOID(take_snapshot(result_.kv, *buffers_));
    }
    if (covered() == size) return {};
    const std::size_t span = span_at(prompt_, covered());
    if (span < prompt_.spans.size()) {
      const auto moved = std::ranges::find(use_.moved, span, &MovedMedia::span);
      AFI_TRY_VOID(moved == use_.moved.end()
                       ? append_media(span, prompt_.spans[span].length.value())
                       : append_moved(*moved));
      continue;
    }
    std::uint32_t until = size;
    for (const MediaSpan& media : prompt_.spans) {
      if (media.offset.value() > covered()) until = std::min(until, media.offset.value());
    }
    if (next_snapshot_ < wanted.size()) until = std::min(until, wanted[next_snapshot_].value());
    AFI_TRY_VOID(append_text(until, cancel));
  }
}

Result<void> LlamaRun::append_text(std::uint32_t until, const std::stop_token& cancel) {
  const std::uint32_t from = covered();
  const auto words = std::span(prompt_.tokens).subspan(from, until - from);
  const std::int32_t at = after_.empty() ? 0 : after_.back();
  LoadedModel::Append text{.sequence = sequence_, .tokens = words, .at = at, .cancel = cancel};
  if (until == size_of_prompt(prompt_)) {
    text.on_logits = [&](std::span<const float> logits) {
      logits_.assign(logits.begin(), logits.end());
    };
  }
  AFI_TRY_VOID(model_.append(text));
  for (std::uint32_t i = 1; i <= words.size(); ++i) {
    after_.push_back(at + static_cast<std::int32_t>(i));
  }
  return {};
}

Result<void> LlamaRun::append_media(std::size_t span, std::uint32_t count) {
  AFI_TRY(const PromptMedia media, prompt_media(model_, prompt_, span, embeddings_[span]));
  const std::uint64_t width = model_.facts().row_width;
  std::span<const float> left = media.rows;
  for (const SpanPart& part : media.parts) {
    if (count == 0) break;
    const std::int32_t at = after_.empty() ? 0 : after_.back();
    const std::uint32_t length = length_of(part).value();
    const std::uint32_t taken = std::min(length, count);
    count -= taken;
    const auto own = left.first(length * width);
    left = left.subspan(own.size());
    if (const auto* words = std::get_if<SpanText>(&part)) {
      AFI_TRY_VOID(model_.append(
          {.sequence = sequence_, .tokens = std::span(*words).first(taken), .at = at}));
      for (std::uint32_t i = 1; i <= taken; ++i) {
        after_.push_back(at + static_cast<std::int32_t>(i));
      }
      continue;
    }
    const auto& item = std::get<SpanMedia>(part);
    AFI_TRY(const std::int32_t next,
            taken == length ? model_.append(sequence_, item, own, at)
                            : model_.append_start(sequence_, item, own, at, TokenCount(taken)));
    after_.insert(after_.end(), taken, next);
  }
  return {};
}

/// Computes the item's first tokens, and restores the sequence with the others behind them: the
/// library restores whole sequences only, so the rows before are copied out and back.
Result<void> LlamaRun::append_moved(const MovedMedia& item) {
  const std::int32_t at = after_.empty() ? 0 : after_.back();
  if (item.recomputed > TokenCount(0)) {
    AFI_TRY_VOID(append_media(item.span, item.recomputed.value()));
  }
  const TokenCount before(covered());
  KvBuffers buffers;
  KvSlice whole{.end = prompt_.spans[item.span].end()};
  whole.rows.resize(kv_->layout().groups.size());
  if (before > TokenCount(0)) {
    AFI_TRY_VOID(model_.read(sequence_, false, [&](StatePieces written) -> Result<void> {
      AFI_TRY(whole.rows, kv_->rows(written, TokenCount(0), before, after_, buffers));
      return {};
    }));
  }
  std::vector<std::vector<std::byte>> moved(whole.rows.size());
  for (std::size_t group = 0; group < moved.size(); ++group) {
    moved[group] = turned(item, group, at);
    if (moved[group].empty()) continue;
    whole.rows[group].push_back(
        {.first = before, .count = whole.end - before, .bytes = moved[group]});
  }
  restored_ = true;
  AFI_TRY(after_, kv_->positions(whole));
  return restore(kv_->outline(whole));
}

/// The item's rows after those that are computed, as if its first token were at position `at`.
std::vector<std::byte> LlamaRun::turned(const MovedMedia& item, std::size_t group,
                                        std::int32_t at) const {
  std::vector<std::byte> rows;
  for (const KvRows& piece : item.rows[group]) {
    rows.insert(rows.end(), piece.bytes.begin(), piece.bytes.end());
  }
  if (rows.empty()) return rows;
  const std::size_t row = kv_->layout().groups[group].row_bytes.value();
  // Rows carry their own positions; the caller says how far keys turn, which may be not at all.
  // Unsigned, because a damaged position must not overflow: positions() rejects it.
  const auto shift = static_cast<std::int32_t>(
      static_cast<std::uint32_t>(at) - static_cast<std::uint32_t>(SequenceRows::position(rows)));
  const TokenPlace steps{at - item.from[0], at - item.from[1], at - item.from[2]};
  rows.erase(rows.begin(),
             rows.begin() + static_cast<std::ptrdiff_t>(item.recomputed.value() * row));
  for (std::size_t begin = 0; begin < rows.size(); begin += row) {
    const auto own = std::span(rows).subspan(begin, row);
    kv_->move(group, shift, own);
    rotate_keys(*rotation_, group, steps, own);
  }
  return rows;
}

Result<void> LlamaRun::decode(const GenerateOptions& options) {
  const std::size_t most = options.max_tokens.value();
  LogitsHasher hasher;
  Completion& completion = result_.completion;
  AFI_TRY(LoadedSampler sampler, LoadedSampler::create(model_, options, prompt_));
  AnswerWriter writer(options, completion);
  const auto spelled = [&](TokenId token) { return sampler.bytes_of(token); };
  bool captured = false;
  completion.first_token_after = clock_.now();
  while (completion.tokens.size() < most) {
    if (std::ranges::any_of(logits_, [](float logit) { return std::isnan(logit); })) {
      logits_not_finite_ = true;
      return fail(ErrorCode::kUnavailable, "the model computed logits that are not numbers");
    }
    AFI_TRY(const TokenId next, sampler.next(logits_));
    completion.tokens.push_back(next);
    completion.ended = model_.ends(next);
    const bool is_first = completion.tokens.size() == 1;
    if (is_first) completion.first_token_after = clock_.now();
    if (!completion.ended && options.top_logprobs.has_value()) {
      writer.add(logprobs_of(logits_, next, *options.top_logprobs, spelled));
    }
    // Emitted first: the client does not wait for hashing and capturing.
    const auto emitted = completion.ended ? Result<void>() : writer.add(spelled(next));
    if (is_first && within_prompt(use_.wanted)) {
      AFI_TRY_VOID(capture(use_.wanted, result_.kv, buffers_));
      captured = true;
      if (use_.on_captured) use_.on_captured(result_.kv);
    }
    AFI_TRY_VOID(emitted);
    if (completion.ended || completion.tokens.size() == most) {
      hasher.add(logits_);
      break;
    }
    AFI_TRY_VOID(feed_back(next, options.cancel, [&] { hasher.add(logits_); }));
  }
  AFI_TRY_VOID(writer.finish());
  completion.logits = std::move(hasher).finish();
  if (!captured) {
    AFI_TRY_VOID(capture(use_.wanted, result_.kv, buffers_));
    if (use_.on_captured) use_.on_captured(result_.kv);
  }
  result_.covered = TokenCount(covered());
  return {};
}

/// Appends a generated token, and does `meanwhile` while it is computed.
Result<void> LlamaRun::feed_back(TokenId token, const std::stop_token& cancel,
                                 const std::function<void()>& meanwhile) {
  const std::int32_t at = after_.back();
  AFI_TRY_VOID(model_.append({.sequence = sequence_,
                              .tokens = {&token, 1},
                              .at = at,
                              .on_logits =
                                  [&](std::span<const float> logits) {
                                    next_logits_.assign(logits.begin(), logits.end());
                                  },
                              .cancel = cancel,
                              .meanwhile = meanwhile}));
  std::swap(logits_, next_logits_);
  after_.push_back(at + 1);
  return {};
}

Result<void> LlamaRun::take_snapshot(KvSlice& kv, KvBuffers& buffers) {
  KvSnapshot snapshot{.at = TokenCount(covered()),
                      .groups = std::vector<std::vector<KvRows>>(kv_->layout().groups.size())};
  if (!kv_->has_only_full_groups()) {
    AFI_TRY_VOID(model_.read(sequence_, true, [&](StatePieces partial) -> Result<void> {
      AFI_TRY(snapshot, kv_->snapshot(partial, TokenCount(covered()), after_, buffers));
      return {};
    }));
  }
  kv.snapshots.push_back(std::move(snapshot));
  return {};
}

Result<void> LlamaRun::capture(const KvWanted& wanted, KvSlice& kv,
                               const std::shared_ptr<KvBuffers>& buffers) {
  if (kv_ == nullptr) return {};
  kv.owner = buffers;
  kv.end = std::min(wanted.rows_to, TokenCount(covered()));
  kv.begin = wanted.rows_from;
  const auto& groups = kv_->layout().groups;
  kv.rows.resize(groups.size());
  const bool has_rows = std::ranges::any_of(
      groups, [](const LayerGroup& group) { return group.kind == KvKind::kFull; });
  if (has_rows && kv.begin < kv.end) {
    AFI_TRY_VOID(model_.read(sequence_, false, [&](StatePieces written) -> Result<void> {
      AFI_TRY(kv.rows, kv_->rows(written, kv.begin, kv.end, after_, *buffers));
      return {};
    }));
  }
  if (!wanted.snapshots.empty() && wanted.snapshots.back() == kEndOfRun) {
    AFI_TRY_VOID(take_snapshot(kv, *buffers));
  }
  return {};
}

/// A failure costs the next turn a prefill, and this request nothing.
void LlamaRun::capture_end() {
  if (!use_.on_end || kv_ == nullptr || covered() == size_of_prompt(prompt_)) return;
  KvSlice at_end;
  if (!capture(wanted_at_end(use_), at_end, std::make_shared<KvBuffers>()).has_value()) return;
  use_.on_end(std::move(at_end), result_.completion.tokens);
}

}  // namespace afterimage
