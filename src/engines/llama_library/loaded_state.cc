// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <ggml.h>
#include <llama-internal/llama-io.h>
#include <llama-internal/llama-memory.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <stdexcept>
#include <utility>

#include "engines/llama_library/library.h"

// The public calls llama_state_seq_*_data_ext copy a whole sequence into or out of one buffer. They
// do so through two interfaces of the library, which this file implements without the buffer.
namespace afterimage {
namespace {

constexpr std::uint32_t kMagic = 0xaf143cd8;  // io_magic in llama-context.cpp

/// Bytes of a tensor: where the model computes with them or, on a device, as a copy.
class TensorBytes {
 public:
  std::span<std::byte> of(ggml_tensor* tensor, std::size_t offset, std::size_t size) {
    if (offset > ggml_nbytes(tensor) || size > ggml_nbytes(tensor) - offset) {
      throw std::runtime_error("a part of a tensor is outside of it");
    }
    const ggml_tensor* const whole = tensor->view_src != nullptr ? tensor->view_src : tensor;
    if (ggml_backend_buffer_is_host(whole->buffer)) {
      return {static_cast<std::byte*>(tensor->data) + offset, size};
    }
    auto& [copied, at, bytes] = copies_.emplace_back(tensor, offset, std::vector<std::byte>(size));
    return bytes;
  }
  /// Whether these are not the model's own bytes, but a copy: the last one made.
  [[nodiscard]] bool is_copy(std::span<const std::byte> bytes) const {
    return !copies_.empty() && copies_.back().bytes.data() == bytes.data();
  }
  void write_copies() const {
    for (const auto& [tensor, offset, bytes] : copies_) {
      ggml_backend_tensor_set(tensor, bytes.data(), offset, bytes.size());
    }
  }

 private:
  struct Copy {
    ggml_tensor* tensor;
    std::size_t offset;
    std::vector<std::byte> bytes;
  };
  std::deque<Copy> copies_;
};

/// Collects what the library writes.
class PieceWriter final : public llama_io_write_i {
 public:
  void write(const void* from, std::size_t size) override {
    const auto* const bytes = static_cast<const std::byte*>(from);
    numbers_.insert(numbers_.end(), bytes, bytes + size);
    bytes_ += size;
    if (!pieces_.empty() && pieces_.back().tensor.empty()) {
      pieces_.back().numbers += size;
    } else {
      pieces_.push_back({.numbers = size, .tensor = {}});
    }
  }
  void write_tensor(ggml_tensor* tensor, std::size_t offset, std::size_t size) override {
    if (size == 0) return;
    const auto bytes = tensors_.of(tensor, offset, size);
    if (tensors_.is_copy(bytes)) ggml_backend_tensor_get(tensor, bytes.data(), offset, size);
    pieces_.push_back({.tensor = bytes});
    bytes_ += size;
  }
  std::size_t n_bytes() override { return bytes_; }

  [[nodiscard]] std::vector<std::span<const std::byte>> pieces() const {
    std::vector<std::span<const std::byte>> all;
    all.reserve(pieces_.size());
    std::span<const std::byte> left = numbers_;
    for (const Piece& piece : pieces_) {
      all.push_back(piece.tensor.empty() ? left.first(piece.numbers) : piece.tensor);
      left = left.subspan(piece.numbers);
    }
    return all;
  }

 private:
  struct Piece {
    std::size_t numbers = 0;  // or, if this is 0, a part of a tensor
    std::span<const std::byte> tensor;
  };
  std::vector<std::byte> numbers_;
  std::vector<Piece> pieces_;
  TensorBytes tensors_;
  std::size_t bytes_ = 0;
};

/// Gives the library numbers, and collects the places of tensors.
class PlaceReader final : public llama_io_read_i {
 public:
  explicit PlaceReader(std::span<const StatePart> parts) : state_(parts) { begin_part(); }

  void read(void* to, std::size_t size) override {
    const auto bytes = take(size);
    std::memcpy(to, bytes.data(), bytes.size());
  }
  void read_tensor(ggml_tensor* tensor, std::size_t offset, std::size_t size) override {
    if (size == 0) return;
    const auto place = tensors_.of(tensor, offset, size);
    if (!part_.bytes.empty()) {
      states_.emplace_back(take(size), place);
      return;
    }
    if (size > part_.rows) throw std::runtime_error("the state has fewer rows");
    places_.push_back(place);
    part_.rows -= size;
    bytes_ += size;
    begin_part();
  }
  std::size_t n_bytes() override { return bytes_; }

  [[nodiscard]] bool at_end() const { return part_.bytes.empty() && part_.rows == 0; }
  /// After the library has accepted the numbers.
  Result<void> write(const FillState& fill) {
    for (const auto& [from, to] : states_) std::memcpy(to.data(), from.data(), from.size());
    AFI_TRY_VOID(fill(places_));
    tensors_.write_copies();
    return {};
  }

 private:
  std::span<const std::byte> take(std::size_t size) {
    if (size > part_.bytes.size()) throw std::runtime_error("the state has fewer bytes");
    const auto taken = part_.bytes.first(size);
    part_.bytes = part_.bytes.subspan(size);
    bytes_ += size;
    begin_part();
    return taken;
  }
  void begin_part() {
    while (at_end() && !state_.empty()) {
      part_ = state_.front();
      state_ = state_.subspan(1);
    }
  }

  std::span<const StatePart> state_;
  StatePart part_;  // what is left of the current one
  std::vector<std::pair<std::span<const std::byte>, std::span<std::byte>>> states_;
  std::vector<std::span<std::byte>> places_;
  TensorBytes tensors_;
  std::size_t bytes_ = 0;
};

/// Whether the library accepted the numbers; it reports errors as exceptions.
bool read_numbers(llama_memory_t memory, PlaceReader& from, llama_seq_id sequence) {
  try {
    std::uint32_t magic = 0;
    llama_seq_id saved_from = 0;
    from.read(&magic, sizeof magic);
    from.read(&saved_from, sizeof saved_from);
    if (magic != kMagic || memory == nullptr) return false;
    memory->state_read(from, sequence, LLAMA_STATE_SEQ_FLAGS_NONE);
    return from.at_end();
  } catch (const std::exception&) {
    return false;
  }
}

/// Whether the library wrote everything.
bool write_pieces(llama_memory_t memory, PieceWriter& to, llama_seq_id sequence, bool partial) {
  if (memory == nullptr) return false;
  try {
    to.write(&kMagic, sizeof kMagic);
    to.write(&sequence, sizeof sequence);
    memory->state_write(to, sequence,
                        partial ? LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY : LLAMA_STATE_SEQ_FLAGS_NONE);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

Result<std::vector<std::byte>> LoadedModel::save(SequenceId sequence, bool partial) const {
  const llama_state_seq_flags flags =
      partial ? LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY : LLAMA_STATE_SEQ_FLAGS_NONE;
  return state_->computing->run([&]() -> Result<std::vector<std::byte>> {
    clear_library_log();
    llama_context* const context = state_->context.get();
    std::vector<std::byte> saved(llama_state_seq_get_size_ext(context, sequence, flags));
    const std::size_t written = llama_state_seq_get_data_ext(
        context, reinterpret_cast<std::uint8_t*>(saved.data()), saved.size(), sequence, flags);
    if (!saved.empty() && written == saved.size()) return saved;
    return library_error(ErrorCode::kUnavailable, "a sequence's state cannot be read");
  });
}

Result<void> LoadedModel::read(SequenceId sequence, bool partial, const ReadState& read) const {
  return state_->computing->run([&]() -> Result<void> {
    clear_library_log();
    llama_context* const context = state_->context.get();
    llama_synchronize(context);
    PieceWriter written;
    if (write_pieces(llama_get_memory(context), written, sequence, partial)) {
      return read(written.pieces());
    }
    return library_error(ErrorCode::kUnavailable, "a sequence's state cannot be read");
  });
}

Result<void> LoadedModel::restore(SequenceId sequence, std::span<const StatePart> parts,
                                  const FillState& fill) const {
  return state_->computing->run([&]() -> Result<void> {
    clear_library_log();
    llama_context* const context = state_->context.get();
    llama_synchronize(context);
    const llama_memory_t memory = llama_get_memory(context);
    llama_memory_seq_rm(memory, sequence, -1, -1);
    PlaceReader reader(parts);
    Result<void> done =
        read_numbers(memory, reader, sequence)
            ? reader.write(fill)
            : library_error(ErrorCode::kCorruption, "the model rejected a sequence's state");
    // Part of the state may already have been restored.
    if (!done.has_value()) llama_memory_seq_rm(memory, sequence, -1, -1);
    return done;
  });
}

}  // namespace afterimage
