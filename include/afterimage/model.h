// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "afterimage/tensor.h"

namespace afterimage {

/// Everything about a model, besides content and tenant, that changes what it computes.
/// An engine fills in every field. A field that does not apply is empty, and empty is a distinct
/// value in keys.
struct ModelIdentity {
  std::string model;          // name or digest of the language model's weights
  std::string weights_epoch;  // changes whenever weights change under the same name
  std::string encoder;        // name and revision of the media encoder and projector
  std::string adapter;        // adapters by content, with their scales
  std::string chat_template;  // digest or version of the chat template
  DType kv_dtype = DType::kF32;

  bool operator==(const ModelIdentity&) const = default;
};

/// How a media item is preprocessed before it reaches the encoder. Part of every encoder key.
struct PreprocessRecipe {
  std::string processor;    // name and version of the preprocessing code
  std::uint32_t width = 0;  // pixels after resizing; 0: not resized
  std::uint32_t height = 0;
  std::uint32_t max_frames = 0;      // video: maximum number of frames; 0: not a video
  std::uint32_t frame_rate_mhz = 0;  // video: frames per 1,000 seconds sampled; 0: every frame
  std::uint32_t sample_rate_hz = 0;  // audio: after resampling; 0: not resampled
  DType output = DType::kF32;
  std::map<std::string, std::string> options;  // all other settings, by name

  bool operator==(const PreprocessRecipe&) const = default;
};

}  // namespace afterimage
