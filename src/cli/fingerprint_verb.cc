// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "afterimage/identity.h"
#include "cli/verbs.h"
#include "foundation/media/decode.h"
#include "foundation/media/probe.h"

namespace afterimage {
namespace {

using Json = nlohmann::ordered_json;

struct FingerprintArgs {
  std::vector<std::string> files;
  bool decoded = false;
  bool json = false;
};

struct Print {
  std::string file;
  MediaItem item;
  MediaInfo info;
  ContentDigest content;
  std::string decoded;  // hex; empty unless asked for
};

/// A folder is a video, sound is audio, what has several frames is a video, the rest are images.
Result<Print> print_of(const std::string& path, const FingerprintArgs& call, const Files& files) {
  const MediaLimits limits;
  Print print{.file = path, .item = {.name = path}};
  if (files.is_folder(path)) {
    AFI_TRY(const std::vector<std::string> names, files.list(path));
    for (const std::string& name : names) {
      AFI_TRY(std::vector<std::byte> bytes,
              files.read(fmt::format("{}/{}", path, name), limits.max_file));
      print.item.files.push_back(std::make_shared<const std::vector<std::byte>>(std::move(bytes)));
    }
    if (names.empty())
      return fail(ErrorCode::kNotFound, fmt::format("'{}' is an empty folder", path));
    print.item.modality = Modality::kVideo;
    print.item.frame_rate_mhz = 1'000;
  } else {
    AFI_TRY(std::vector<std::byte> bytes, files.read(path, limits.max_file));
    const FileFormat format = sniff(bytes);
    if (format == FileFormat::kWav || format == FileFormat::kFlac) {
      print.item.modality = Modality::kAudio;
    } else if (format == FileFormat::kWebp || format == FileFormat::kGif) {
      print.item.modality = Modality::kVideo;  // until it turns out not to move
    }
    print.item.files.push_back(std::make_shared<const std::vector<std::byte>>(std::move(bytes)));
  }
  auto info = probe(print.item, limits);
  const bool still = print.item.files.size() == 1 && print.item.modality == Modality::kVideo &&
                     (!info.has_value() || info->frames == 1);
  if (still) {
    print.item.modality = Modality::kImage;
    info = probe(print.item, limits);
  }
  AFI_TRY(print.info, std::move(info));
  print.content = content_digest(print.item);
  if (call.decoded && print.item.modality == Modality::kImage) {
    AFI_TRY(const Image image, decode_image(print.item, limits));
    print.decoded = decoded_digest(Pixels{.width = image.width,
                                          .height = image.height,
                                          .format = "rgb",
                                          .data = std::as_bytes(std::span(image.rgb))})
                        .hex();
  } else if (call.decoded && print.item.modality == Modality::kAudio) {
    AFI_TRY(const Samples samples, decode_audio(print.item, limits));
    print.decoded = decoded_digest(AudioSamples{.sample_rate_hz = samples.sample_rate_hz,
                                                .data = std::as_bytes(std::span(samples.mono))})
                        .hex();
  }
  return print;
}

std::string size_of(const Print& print) {
  const MediaInfo& info = print.info;
  switch (print.item.modality) {
    case Modality::kImage:
      return fmt::format("{}x{} pixels", info.width, info.height);
    case Modality::kVideo:
      return fmt::format("{}x{} pixels, {} frames", info.width, info.height, info.frames);
    case Modality::kAudio:
      break;
  }
  return fmt::format("{} samples at {} Hz, {} channel{}", info.samples, info.sample_rate_hz,
                     info.channels, info.channels == 1 ? "" : "s");
}

void show(const Print& print) {
  fmt::print("{}\n  sha256   {}\n  {:<8} {}, {}, {} bytes\n", print.file, print.content.hex(),
             to_string(print.item.modality), to_string(print.info.format), size_of(print),
             raw_bytes(print.item).value());
  if (!print.decoded.empty()) fmt::print("  decoded  {}\n", print.decoded);
}

Json to_json(const Print& print) {
  Json json = {{"file", print.file},
               {"sha256", print.content.hex()},
               {"modality", to_string(print.item.modality)},
               {"format", to_string(print.info.format)},
               {"bytes", raw_bytes(print.item).value()}};
  if (print.item.modality == Modality::kAudio) {
    json["sample_rate_hz"] = print.info.sample_rate_hz;
    json["channels"] = print.info.channels;
    json["samples"] = print.info.samples;
  } else {
    json["width"] = print.info.width;
    json["height"] = print.info.height;
    json["frames"] = print.info.frames;
  }
  if (!print.decoded.empty()) json["decoded_sha256"] = print.decoded;
  return json;
}

ExitCode run(const FingerprintArgs& call, const World& world) {
  Json all = Json::array();
  ExitCode code = ExitCode::kFine;
  for (const std::string& file : call.files) {
    const auto print = print_of(file, call, world.files);
    if (!print.has_value()) {
      fmt::print(stderr, "afterimage fingerprint: {}\n", print.error().message);
      all.push_back({{"file", file}, {"error", to_string(print.error())}});
      code = ExitCode::kProblem;
    } else if (call.json) {
      all.push_back(to_json(*print));
    } else {
      show(*print);
    }
  }
  if (call.json) {
    fmt::print("{}\n", all.dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    fmt::print(
        "\nA key also holds how the file is preprocessed (size, frames, sample rate, dtype, "
        "options), the\n"
        "model and its weights' epoch, encoder, adapter, chat template and KV dtype, and the "
        "tenant, under\n"
        "the tenant's salt: change one and it is another key.\n");
  }
  return code;
}

}  // namespace

void add_fingerprint(CLI::App& program, World& world, ExitCode& code) {
  auto call = std::make_shared<FingerprintArgs>();
  CLI::App* verb = program.add_subcommand(
      "fingerprint",
      "Identity of media files: digest, modality, size, and what else goes into a key");
  verb->add_option("files", call->files,
                   "Images, sounds, videos; a folder is a video, one frame a second")
      ->required()
      ->type_name("FILE");
  verb->add_flag(
      "--decoded", call->decoded,
      "Also the digest of decoded pixels or samples (no videos): one picture in two files has one");
  verb->add_flag("--json", call->json, "For programs");
  verb->footer(
      "Examples:\n"
      "  afterimage fingerprint photo.jpg\n"
      "  afterimage fingerprint --decoded --json *.png sound.wav");
  verb->callback([call, &world, &code] { code = run(*call, world); });
}

}  // namespace afterimage
