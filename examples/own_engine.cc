// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
/// An engine of your own, served with reuse.
///
/// A real engine runs a model. This one hashes instead, so that the page stays short: a token is a
/// byte, an image becomes four embeddings of two floats, and the next token follows from the sum of
/// all rows before it. Everything around that is what a real engine implements, too.
///
/// The second request asks another question about the same image. It reuses the KV rows of the
/// image and of the words before it, so the encoder does not run again.
#include <afterimage/afterimage.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace afterimage;

namespace {

constexpr std::uint32_t kImageTokens = 4;       // an image takes so many places in the prompt
constexpr TokenId kPlaceholder = TokenId(256);  // 0 … 255 are bytes of text
using Row = std::array<float, 2>;               // what the model remembers of one token
constexpr Bytes kRowBytes = Bytes(sizeof(Row));

class HashEngine final : public Engine {
 public:
  /// Names everything that changes a result. A cache entry of another identity is never used.
  [[nodiscard]] const ModelIdentity& identity() const override { return identity_; }

  /// Names what happens to a media file before the encoder sees it.
  [[nodiscard]] PreprocessRecipe recipe(Modality /*modality*/) const override {
    return {.processor = "none/1"};
  }

  /// Turns a conversation into tokens. Each image becomes a span of placeholders that carries the
  /// digest of its content, so that two prompts with different images never share a prefix.
  Result<Sequence> prepare(const Request& request,
                           std::span<const ContentDigest> contents) const override {
    Sequence sequence;
    std::size_t media = 0;
    for (const Message& message : request.messages) {
      for (const ContentPart& part : message.parts) {
        const TokenCount at(static_cast<std::uint32_t>(sequence.tokens.size()));
        if (const auto* text = std::get_if<std::string>(&part)) {
          for (const char byte : *text) {
            sequence.tokens.push_back(TokenId(static_cast<unsigned char>(byte)));
          }
        } else {
          sequence.tokens.insert(sequence.tokens.end(), kImageTokens, kPlaceholder);
          sequence.spans.push_back({.offset = at,
                                    .length = TokenCount(kImageTokens),
                                    .modality = std::get<MediaItem>(part).modality,
                                    .content = contents[media++]});
        }
      }
    }
    if (sequence.tokens.empty()) return fail(ErrorCode::kInvalidArgument, "the prompt is empty");
    return sequence;
  }

  /// Encodes one image: [4, 2] floats. This is the expensive step that a hit avoids.
  Result<EncoderOutput> encode(const MediaItem& item) const override {
    std::vector<float> rows(kImageTokens * 2, 0.0F);
    std::size_t n = 0;
    for (const FileBytes& file : item.files) {
      for (const std::byte byte : *file) {
        rows[n++ % rows.size()] += static_cast<float>(std::to_integer<unsigned>(byte));
      }
    }
    Tensor tensor{.dtype = DType::kF32, .shape = Shape{kImageTokens, 2}};
    tensor.bytes.resize(rows.size() * sizeof(float));
    std::memcpy(tensor.bytes.data(), rows.data(), tensor.bytes.size());
    return EncoderOutput{std::move(tensor)};
  }

  Result<Completion> generate(const Sequence& prompt, std::span<const TensorViews> embeddings,
                              const GenerateOptions& options) const override {
    AFI_TRY(Generation made, run(prompt, embeddings, options, {}));
    return std::move(made.completion);
  }

  /// How the model remembers: one group of layers with full attention, eight bytes a token. An
  /// engine that returns nullptr here still reuses encoder outputs and answers, but no KV.
  [[nodiscard]] const KvLayout* kv_layout() const override { return &layout_; }

 protected:
  /// Restores the rows of `use.resume_from`, computes the rest of the prompt, decodes, and hands out
  /// the rows that are wanted. Afterimage has checked `use`, and checks what this returns.
  Result<Generation> run(const Sequence& prompt, std::span<const TensorViews> embeddings,
                         const GenerateOptions& options, const KvUse& use) const override {
    Generation made;
    std::vector<Row> rows;
    if (use.resume_from != nullptr) rows = restored(use.resume_from->rows[0]);
    made.completion.resumed_from = TokenCount(static_cast<std::uint32_t>(rows.size()));
    while (rows.size() < prompt.tokens.size()) {
      rows.push_back(row_of(prompt, embeddings, rows.size()));
      made.completion.prefilled += TokenCount(1);
    }
    while (made.completion.tokens.size() < options.max_tokens.value()) {
      const TokenId next = next_token(rows);
      made.completion.tokens.push_back(next);
      made.completion.text += static_cast<char>(next);
      rows.push_back({static_cast<float>(next), 0.0F});
    }
    made.covered = TokenCount(static_cast<std::uint32_t>(rows.size()));
    made.kv = captured(rows, use.wanted);
    return made;
  }

 private:
  /// Cached rows, in as many pieces as they lie in.
  static std::vector<Row> restored(std::span<const KvRows> pieces) {
    std::vector<Row> rows;
    for (const KvRows& piece : pieces) {
      const std::size_t begin = rows.size();
      rows.resize(begin + piece.count.value());
      std::memcpy(&rows[begin], piece.bytes.data(), piece.bytes.size());
    }
    return rows;
  }

  static Row row_of(const Sequence& prompt, std::span<const TensorViews> embeddings,
                    std::size_t at) {
    for (std::size_t i = 0; i < prompt.spans.size(); ++i) {
      const MediaSpan& span = prompt.spans[i];
      if (at < span.offset.value() || at >= span.end().value()) continue;
      const std::span<const float> rows = embeddings[i][0].f32();
      const std::size_t row = at - span.offset.value();
      return {rows[2 * row], rows[2 * row + 1]};
    }
    return {static_cast<float>(prompt.tokens[at]), 1.0F};
  }

  /// A letter that depends on every row: the same rows always give the same answer.
  static TokenId next_token(const std::vector<Row>& rows) {
    float sum = 0;
    for (const Row& row : rows) sum += row[0] + 3 * row[1];
    return TokenId('a' + static_cast<int>(sum) % 26);
  }

  KvSlice captured(const std::vector<Row>& rows, const KvWanted& wanted) const {
    const TokenCount covered(static_cast<std::uint32_t>(rows.size()));
    const auto buffers = std::make_shared<KvBuffers>();
    KvSlice kv{.end = std::min(wanted.rows_to, covered), .owner = buffers};
    kv.begin = std::min(wanted.rows_from, kv.end);
    const std::span<std::byte> bytes = buffers->add((kv.end - kv.begin).value() * sizeof(Row));
    if (!bytes.empty()) std::memcpy(bytes.data(), rows.data() + kv.begin.value(), bytes.size());
    kv.rows = {{rows_before(kv.end, layout_.groups[0], bytes)}};
    // Only windows and recurrent states need snapshots; full attention has nothing to add to them.
    for (const TokenCount at : wanted.snapshots) {
      kv.snapshots.push_back({.at = std::min(at, covered), .groups = {{}}});
    }
    return kv;
  }

  const ModelIdentity identity_{.model = "hash-lm", .weights_epoch = "1", .encoder = "hash-vit"};
  const KvLayout layout_{.groups = {{.kind = KvKind::kFull, .row_bytes = kRowBytes}}};
};

Request ask(const FileBytes& picture, std::string question) {
  const MediaItem item{.modality = Modality::kImage, .files = {picture}};
  return {.id = RequestId("r1"),
          .messages = {{.role = Role::kUser, .parts = {item, std::move(question)}}}};
}

Result<void> run() {
  const HashEngine engine;
  AFI_TRY(const auto reuse, Reuse::create({.budget = 64_MiB}));

  const auto picture = std::make_shared<const std::vector<std::byte>>(1000, std::byte(7));
  bool reused = false;
  for (const char* question : {"What is in the picture? Answer in one word.",
                               "What is in the picture? Answer in one sentence."}) {
    const Request request = ask(picture, question);
    AFI_TRY(const Served served, serve(request, engine, *reuse));
    std::printf("%s\n  answer: %s\n  image: %s, encoder calls: %llu\n", question,
                served.completion.text.c_str(), std::string(to_string(served.sources[0])).c_str(),
                static_cast<unsigned long long>(served.encoder_calls));
    std::printf("  prompt tokens: %u reused, %u computed\n", served.completion.resumed_from.value(),
                served.completion.prefilled.value());
    reused = served.completion.resumed_from > TokenCount(kImageTokens);

    // What the engine says without a cache, for comparison: reuse never changes an answer.
    AFI_TRY(const Served alone, serve_without_reuse(request, engine, reuse->clock()));
    if (alone.completion.tokens != served.completion.tokens) {
      return fail(ErrorCode::kCorruption, "reuse changed the answer");
    }
  }
  if (!reused) return fail(ErrorCode::kCorruption, "the second request reused nothing");
  return {};
}

}  // namespace

int main() {
  const auto done = run();
  if (!done.has_value()) std::fprintf(stderr, "%s\n", to_string(done.error()).c_str());
  return done.has_value() ? 0 : 1;
}
