// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/identity.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <cstring>

#include "bindings.h"
#include "caches/identity/fields.h"
#include "foundation/crypto/sha256.h"
#include "tiers.h"

namespace afterimage::python {

namespace {

ContentDigest digest_of_file(nb::handle data) {
  const BorrowedTensor file = borrow_tensor(data);
  return without_gil([&] { return ContentDigest{sha256(file.view.bytes())}; });
}

ContentDigest digest_of_frames(const nb::sequence& frames, std::uint32_t frame_rate_mhz) {
  MediaItem item{.modality = Modality::kVideo, .frame_rate_mhz = frame_rate_mhz};
  for (const nb::handle frame : frames) {
    const auto bytes = borrow_tensor(frame).view.bytes();
    item.files.push_back(
        std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end()));
  }
  return without_gil([&] { return content_digest(item); });
}

DecodedDigest digest_of_pixels(nb::handle pixels, std::string_view format) {
  const BorrowedTensor array = borrow_tensor(pixels);
  const Shape& shape = array.view.shape();
  if (shape.rank() != 2 && shape.rank() != 3) {
    raise(ErrorCode::kInvalidArgument,
          "expected pixels of [height, width] or [height, width, "
          "channels], got " +
              to_string(shape));
  }
  if (shape[0] > UINT32_MAX || shape[1] > UINT32_MAX) {
    raise(ErrorCode::kInvalidArgument,
          "expected fewer than 2^32 rows and columns of pixels, got " + to_string(shape));
  }
  const Pixels decoded{.width = static_cast<std::uint32_t>(shape[1]),
                       .height = static_cast<std::uint32_t>(shape[0]),
                       .format = format,
                       .dtype = array.view.dtype(),
                       .data = array.view.bytes()};
  return without_gil([&] { return decoded_digest(decoded); });
}

/// Covers dtype, shape and bytes of each tensor, and their number: docs/formats/keys.md.
DecodedDigest digest_of_tensors(nb::handle object) {
  const std::vector<BorrowedTensor> tensors = borrow_tensors(object);
  return without_gil([&] {
    FieldWriter fields("afterimage/tensors/1");
    fields.number("tensors", tensors.size());
    for (const BorrowedTensor& tensor : tensors) {
      fields.number("dtype", static_cast<std::uint64_t>(tensor.view.dtype()))
          .number("rank", tensor.view.shape().rank());
      for (const std::uint64_t extent : tensor.view.shape().extents()) {
        fields.number("extent", extent);
      }
      fields.bytes("content", sha256(tensor.view.bytes()));
    }
    return DecodedDigest{sha256(fields.message())};
  });
}

EncoderKey tensors_key(const SpaceHolder& self, const DecodedDigest& content,
                       std::string_view processor) {
  FieldWriter fields("afterimage/tensors-key/1");
  fields.bytes("content", content.bytes).text("processor", processor);
  return EncoderKey{self.space.derive(fields)};
}

/// One field per dict entry, in the dict's order.
nb::bytes derive(const SpaceHolder& self, std::string_view domain, const nb::dict& fields) {
  FieldWriter writer(domain);
  for (const auto [name, value] : fields) {
    const std::string label = nb::cast<std::string>(name);
    if (nb::isinstance<nb::str>(value)) {
      writer.text(label, nb::cast<std::string>(value));
    } else if (nb::isinstance<nb::int_>(value)) {
      writer.number(label, nb::cast<std::uint64_t>(value));
    } else {
      writer.bytes(label, borrow_tensor(value).view.bytes());
    }
  }
  const Secret key = self.space.derive(writer);
  return nb::bytes(key.data(), key.size());
}

}  // namespace

Secret secret_of(const nb::bytes& bytes) {
  Secret secret{};
  if (bytes.size() != secret.size()) {
    raise(ErrorCode::kInvalidArgument,
          "expected a secret of 32 bytes, got " + std::to_string(bytes.size()));
  }
  std::memcpy(secret.data(), bytes.data(), secret.size());
  return secret;
}

void bind_identity(nb::module_& module) {
  module.def("content_digest", digest_of_file, nb::arg("data"),
             "SHA-256 of one file's bytes (bytes-like), equal to sha256sum. Releases the GIL.");
  module.def("frames_digest", digest_of_frames, nb::arg("frames"), nb::arg("frame_rate_mhz") = 0,
             nb::sig("def frames_digest(frames: collections.abc.Sequence[object], "
                     "frame_rate_mhz: int = 0) -> ContentDigest"),
             "Digest of a video given as one bytes-like object per frame, in playback order.\n"
             "\n"
             "frame_rate_mhz: frames per 1,000 seconds.");
  module.def("pixels_digest", digest_of_pixels, nb::arg("pixels"), nb::arg("format") = "rgb",
             "Digest of decoded pixels, [height, width] or [height, width, channels], with their "
             "shape,\nformat and dtype: a white 10x20 image is not a white 20x10.");
  module.def("tensors_digest", digest_of_tensors, nb::arg("tensors"),
             "Digest of one tensor or a list of them, with dtypes and shapes: for a processor's "
             "output.");

  nb::class_<PreprocessRecipe>(module, "PreprocessRecipe",
                               "The preprocessing of a media item between its bytes and the "
                               "encoder; part of every encoder key.\n"
                               "\n"
                               "width, height: pixels after resizing; 0: not resized.")
      .def(
          "__init__",
          [](PreprocessRecipe* self, std::string processor, std::uint32_t width,
             std::uint32_t height, std::uint32_t max_frames, std::uint32_t frame_rate_mhz,
             std::uint32_t sample_rate_hz, std::string_view output,
             std::map<std::string, std::string> options) {
            new (self) PreprocessRecipe{std::move(processor),
                                        width,
                                        height,
                                        max_frames,
                                        frame_rate_mhz,
                                        sample_rate_hz,
                                        dtype_named(output),
                                        std::move(options)};
          },
          nb::arg("processor") = "", nb::kw_only(), nb::arg("width") = 0, nb::arg("height") = 0,
          nb::arg("max_frames") = 0, nb::arg("frame_rate_mhz") = 0, nb::arg("sample_rate_hz") = 0,
          nb::arg("output") = "f32", nb::arg("options") = std::map<std::string, std::string>())
      .def_ro("processor", &PreprocessRecipe::processor)
      .def_ro("width", &PreprocessRecipe::width)
      .def_ro("height", &PreprocessRecipe::height)
      .def_ro("options", &PreprocessRecipe::options);

  nb::class_<SpaceHolder>(module, "Namespace",
                          "Everything besides content that changes a result, under the tenant's "
                          "salt.\n"
                          "\n"
                          "InvalidArgument: model or encoder is empty; results without an "
                          "identity are not cached.")
      .def(
          "__init__",
          [](SpaceHolder* self, std::string model, std::string encoder, std::string weights_epoch,
             std::string adapter, std::string chat_template, std::string_view kv_dtype,
             std::string tenant, const nb::bytes& secret) {
            const ModelIdentity identity{std::move(model),         std::move(weights_epoch),
                                         std::move(encoder),       std::move(adapter),
                                         std::move(chat_template), dtype_named(kv_dtype)};
            new (self) SpaceHolder{
                or_raise(Namespace::of(identity, TenantId(std::move(tenant)), secret_of(secret)))};
          },
          nb::arg("model"), nb::arg("encoder"), nb::kw_only(), nb::arg("weights_epoch") = "",
          nb::arg("adapter") = "", nb::arg("chat_template") = "", nb::arg("kv_dtype") = "f32",
          nb::arg("tenant") = "", nb::arg("secret") = nb::bytes(Secret{}.data(), Secret{}.size()),
          "weights_epoch: change it whenever weights change under the same name.\n"
          "secret: 32 random bytes of this installation; only its owner can tell whether two "
          "tenants hold the\n"
          "same image.")
      .def(
          "encoder_key",
          [](const SpaceHolder& self, const ContentDigest& content, const PreprocessRecipe& recipe,
             std::string_view modality, std::size_t files, std::uint32_t frame_rate_mhz) {
            const MediaItem item{.modality = modality_named(modality),
                                 .files = std::vector<FileBytes>(files),
                                 .frame_rate_mhz = frame_rate_mhz};
            return self.space.encoder_key(item, content, recipe);
          },
          nb::arg("content"), nb::arg("recipe"), nb::kw_only(), nb::arg("modality") = "image",
          nb::arg("files") = 1, nb::arg("frame_rate_mhz") = 0,
          "The key of one encoder output. files, frame_rate_mhz: for a video given as frames.")
      .def("tensors_key", tensors_key, nb::arg("content"), nb::arg("processor") = "",
           "The key of an encoder's output for tensors that a processor produced.")
      .def("derive", derive, nb::arg("domain"), nb::arg("fields"),
           nb::sig("def derive(self, domain: str, fields: dict[str, str | int | "
                   "bytes]) -> bytes"),
           "A key of 32 bytes for the fields, in this order, in this namespace. domain names the "
           "kind of key\n"
           "and the version of its list of fields.")
      .def(
          "prefix_root",
          [](const SpaceHolder& self, const PreprocessRecipe* image, const PreprocessRecipe* audio,
             const PreprocessRecipe* video) {
            const PreprocessRecipe none;
            const auto given = [&](const PreprocessRecipe* recipe) -> const PreprocessRecipe& {
              return recipe == nullptr ? none : *recipe;
            };
            return self.space.prefix_root(given(image), given(audio), given(video));
          },
          nb::kw_only(), nb::arg("image") = nb::none(), nb::arg("audio") = nb::none(),
          nb::arg("video") = nb::none(), "The root of this namespace's prefixes.");
}

}  // namespace afterimage::python
