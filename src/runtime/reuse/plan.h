// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "afterimage/answer.h"
#include "afterimage/engine.h"
#include "afterimage/eviction_policy.h"
#include "afterimage/identity.h"
#include "afterimage/kv.h"
#include "afterimage/request.h"
#include "afterimage/result.h"
#include "afterimage/reuse.h"
#include "afterimage/sequence.h"
#include "afterimage/tensor.h"
#include "afterimage/units.h"

namespace afterimage {

/// Who wrote the last message.
TurnKind turn_kind(const Request& request);

/// How the engine preprocesses each modality before encoding.
Recipes recipes_of(const Engine& engine);

/// An encoder output that a plan needs: of a whole media item, or of one of its parts.
struct PlannedOutput {
  std::size_t item = 0;  // position of the item in the request
  std::optional<std::size_t> part = std::nullopt;
};

/// The encoder outputs that one request needs: what it found, and what remains to be encoded.
/// Move-only. Dropping it releases every pin, lead and lease, so that waiting requests go on
/// without this one.
///
///   MediaPlan plan = reuse.plan_media(prints, agent);
///   for (;;) {
///     // Publish before waiting: others may be waiting for these.
///     for (at : plan.to_encode()) plan.commit(at, encode(plan.output(at)), cost);
///     AFI_TRY(const bool done, plan.await(stop));
///     if (done) break;  // else a leader gave up, and the lead passed to this request
///   }
///   engine.generate(prompt, plan.embeddings());
///
/// Threads  One request's thread at a time.
class [[nodiscard]] MediaPlan {
 public:
  MediaPlan(MediaPlan&& other) noexcept;
  MediaPlan& operator=(MediaPlan&& other) noexcept;
  ~MediaPlan();

  /// Outputs, by position in the plan, that this request has to encode now. If no item is in parts,
  /// a position is that of the media item in the request.
  [[nodiscard]] std::vector<std::size_t> to_encode() const;
  /// What the output at this position is of.
  [[nodiscard]] PlannedOutput output(std::size_t at) const;

  /// The only step that adds content: hands an output to the cache and to every waiter. `at` is one
  /// of to_encode(). `cost` is how long encoding took. kCorruption: a part's output has other rows
  /// than its item declared.
  Result<void> commit(std::size_t at, EncoderOutput output, Duration cost);
  /// The output at `at` could not be encoded.
  void fail(std::size_t at, const Error& error);

  /// Blocks until every output that other requests or processes are encoding is there. True: all
  /// outputs are there, the parts of each item are joined, and the eviction policy has recorded this
  /// request's use of them. False: another leader gave up, and to_encode() is no longer empty.
  /// kCorruption: the parts of an item do not fit together.
  Result<bool> await(const std::stop_token& stop = {});

  /// One list of tensors a media item, in order of appearance; valid while the plan lives. Empty
  /// for items that the resumed prefix covers. Requires that nothing is left to encode or to await.
  [[nodiscard]] std::vector<TensorViews> embeddings() const;

  /// One element a media item. Requires that every output is there.
  [[nodiscard]] std::vector<MediaSource> sources() const;
  /// Outputs of parts that the plan needs, and those of them that this request encoded; an output
  /// that occurs twice counts once.
  [[nodiscard]] std::uint64_t parts() const;
  [[nodiscard]] std::uint64_t encoded_parts() const;
  /// The first item that the plan has in parts; nullopt: none.
  [[nodiscard]] std::optional<std::size_t> split_item() const;

 private:
  friend class Reuse;
  struct State;
  explicit MediaPlan(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

/// What one request found in every cache, and what remains to be computed. Three match levels, the cheapest
/// first: a cached answer; else the longest KV prefix that every layer group can resume; else
/// encoder outputs for the media that the prefix does not cover.
///
///   AFI_TRY(Plan plan, reuse.plan(identity, facts, stop));  // the answer, if there is one
///   if (!plan.is_answered()) {
///     AFI_TRY_VOID(plan.add_prefix(prompt, layout, stop));  // where to resume
///     AFI_TRY_VOID(plan.add_media(prompt, engine));         // pins, and what to encode
///     // … encode and commit what plan.media() lacks …
///     engine.generate_from(prompt, plan.media().embeddings(), options, plan.kv_use(origin));
///   }
///   plan.publish(completion, model);                        // or plan.fail(error)
///
/// Waiting  For answers, then prefixes, then encoder outputs, and never while holding what a request
///          on an earlier match level waits for: no two requests ever wait for each other.
/// Errors   Those of the request waited for, if they would meet every request; kCancelled: `stop`.
///          A cache or tier that fails is a miss.
/// Threads  One request's thread at a time. Dropping it releases every pin, lead and lease, and waiting requests go on without this one.
class [[nodiscard]] Plan {
 public:
  Plan(Plan&& other) noexcept;
  Plan& operator=(Plan&& other) noexcept;
  ~Plan();

  /// Nothing is left to compute.
  [[nodiscard]] bool is_answered() const;
  /// Every match level that was looked up, and its answer if is_answered(). No steps: the answer cache is
  /// off, or the request asks no question.
  [[nodiscard]] const AnswerLookup& answer() const;

  /// Finds where to resume. Waits for a request, here or in another process, that is prefilling
  /// what this one needs. `prompt` and `layout` outlive the plan. Does nothing if prefixes are off.
  Result<void> add_prefix(const Sequence& prompt, const KvLayout& layout,
                          const std::stop_token& stop);
  [[nodiscard]] bool has_prefix() const;
  /// Tokens that the engine restores; 0: it starts cold.
  [[nodiscard]] TokenCount resume() const;
  /// Requires has_prefix(). What the engine restores, and what it captures for the cache, which is
  /// committed as soon as the engine hands it out. Valid while the plan lives.
  [[nodiscard]] KvUse kv_use(const KvOrigin& origin);
  /// Finds KV of media, computed at other places, for the items that follow resume() (if
  /// ReuseOptions::moved allows it and is certified for `engine`). kv_use() then has it, captures
  /// only what precedes it, and publish() stores no answer. Also keeps the KV of media that this run
  /// computes, for others. `use` false: does only that. Call after add_prefix().
  void add_moved(const Engine& engine, bool use = true);
  /// Whether the answer will be bounded.
  [[nodiscard]] bool is_bounded() const;
  /// Counts the answer if it is bounded. True: compute the request again, exactly, and call compare().
  /// Call after publish().
  [[nodiscard]] bool wants_exact(const Completion& done);
  void compare(const Completion& bounded, const Completion& exact);
  /// The cached KV could not be restored, or not moved: the prompt will be computed from its start. Call
  /// add_media() again.
  void restart();

  /// Pins or claims the encoder output of every item that the prefix does not cover.
  void add_media(const Sequence& prompt);
  /// The same, part by part for items that `engine` splits. Errors of Engine::split().
  Result<void> add_media(const Sequence& prompt, const Engine& engine);
  /// An item that the plan has in parts; it lives as long as the plan. Errors of Engine::split().
  [[nodiscard]] Result<const SplitMedia*> split(std::size_t item, const Engine& engine);
  /// Time that add_media() and split() spent in Engine::split(): part of encoding.
  [[nodiscard]] Duration split_time() const;
  /// An item in parts of which nobody knows yet whether they are exact for this model: encode it as a
  /// whole and pass that to confirm_parts(). nullopt: there is none. Requires that media() is done.
  [[nodiscard]] std::optional<std::size_t> unconfirmed_item(const Engine& engine) const;
  /// False: the parts differ from the whole. From now on, this model's items are not split; call
  /// add_media() again.
  [[nodiscard]] bool confirm_parts(std::size_t item, const EncoderOutput& whole,
                                   const Engine& engine);
  /// Requires add_media().
  [[nodiscard]] MediaPlan& media();

  /// Stores the answer, if the model ended it, and hands it to every waiter. A bounded one is neither
  /// stored nor handed on: a waiter computes its own.
  Result<void> publish(const Completion& completion, const std::string& model);
  /// The request failed. Waiters get an error that would meet them too; after any other, one of
  /// them takes over.
  void fail(const Error& error);

 private:
  friend class Reuse;
  struct State;
  explicit Plan(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace afterimage
