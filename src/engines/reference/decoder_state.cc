// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/reference/decoder_state.h"

#include "afterimage/result.h"

namespace afterimage {

void LayerRows::append(std::span<const float> key, std::span<const float> value) {
  AFI_CHECK(key.size() == row_size() && value.size() == row_size());
  const std::size_t block_size = row_size() * kPanelColumns;
  const std::size_t lane = end_ % kPanelColumns;
  if (lane == 0) keys_.resize(keys_.size() + block_size);
  float* column = keys_.data() + (end_ - begin_) / kPanelColumns * block_size + lane;
  for (std::size_t i = 0; i < row_size(); ++i) column[i * kPanelColumns] = key[i];
  values_.insert(values_.end(), value.begin(), value.end());
  ++end_;
}

void LayerRows::start_at(std::size_t position) {
  AFI_CHECK(end_ == 0);
  begin_ = end_ = position / kPanelColumns * kPanelColumns;
  const std::vector<float> nothing(row_size());
  while (end_ < position) append(nothing, nothing);
}

void LayerRows::drop_before(std::size_t position) {
  const std::size_t keep_from = std::min(position, end_) / kPanelColumns * kPanelColumns;
  if (keep_from <= begin_) return;
  const auto dropped = static_cast<std::ptrdiff_t>((keep_from - begin_) * row_size());
  keys_.erase(keys_.begin(), keys_.begin() + dropped);
  values_.erase(values_.begin(), values_.begin() + dropped);
  begin_ = keep_from;
}

Panels LayerRows::keys(std::size_t kv_head, std::size_t position) const {
  AFI_CHECK(position % kPanelColumns == 0 && begin_ <= position && position < end_);
  return {
      .at = keys_.data() + (position - begin_) * row_size() + kv_head * head_dim_ * kPanelColumns,
      .row_stride = kPanelColumns,
      .panel_stride = row_size() * kPanelColumns};
}

Panels LayerRows::values(std::size_t kv_head, std::size_t position) const {
  AFI_CHECK(begin_ <= position && position < end_);
  return {.at = values_.data() + (position - begin_) * row_size() + kv_head * head_dim_,
          .row_stride = row_size(),
          .panel_stride = kPanelColumns};
}

std::vector<float> LayerRows::rows(std::size_t from, std::size_t to) const {
  AFI_CHECK(begin_ <= from && from <= to && to <= end_);
  std::vector<float> result;
  result.reserve((to - from) * 2 * row_size());
  for (std::size_t position = from; position < to; ++position) {
    const std::size_t block = position / kPanelColumns * kPanelColumns;
    const float* column = keys_.data() + (block - begin_) * row_size() + position % kPanelColumns;
    for (std::size_t i = 0; i < row_size(); ++i) result.push_back(column[i * kPanelColumns]);
    const float* value = values_.data() + (position - begin_) * row_size();
    result.insert(result.end(), value, value + row_size());
  }
  return result;
}

}  // namespace afterimage
