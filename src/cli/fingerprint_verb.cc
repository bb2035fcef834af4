// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "afterimage/identity.h"
#include "cli/verbs.h"
#include "foundation/crypto/sha256.h"
#include "foundation/documents/document_reader.h"
#include "foundation/media/decode.h"
#include "foundation/media/media_limits.h"
#include "foundation/media/probe.h"
#include "foundation/platform/files.h"

namespace afterimage {
namespace {

using Json = nlohmann::ordered_json;

struct FingerprintArgs {
  std::vector<std::string> files;
  bool decoded = false;
  bool json = false;
};

struct PageIdentity {
  MediaInfo info;
  ContentDigest content;
};

struct FileIdentity {
  std::string file;
  MediaItem item = {};
  MediaInfo info;  // of a document: of its first page
  ContentDigest content;
  std::string decoded;                   // hex; empty unless --decoded
  std::vector<PageIdentity> pages = {};  // of a PDF file; empty otherwise
};

/// Of a file that is not read: its bytes still have a digest, and are cached by it before another server.
struct UnreadFile {
  std::string sha256;  // hex; empty: there is no such file
  std::uint64_t bytes = 0;
};

UnreadFile identify_bytes(const std::string& path, const Files& files) {
  UnreadFile unread;
  if (files.is_folder(path)) return unread;
  Sha256 sha;
  const auto read = visit_blocks(path, 1_MiB, [&](std::span<const std::byte> block) {
    sha.update(block);
    unread.bytes += block.size();
  });
  if (!read.has_value()) return unread;
  unread.sha256 = to_hex(sha.finish());
  return unread;
}

Result<std::vector<PageIdentity>> identify_pages(const MediaItem& document,
                                                 const MediaLimits& limits) {
  AFI_TRY(const std::vector<MediaItem> items, DocumentReader().pages(document));
  std::vector<PageIdentity> pages;
  for (const MediaItem& item : items) {
    AFI_TRY(const MediaInfo info, probe(item, limits));
    pages.push_back({.info = info, .content = content_digest(item)});
  }
  return pages;
}

/// The modality follows from the file (modality_of()): a folder or an animation is a video; of a PDF
/// file, its pages are images.
Result<FileIdentity> identify_file(const std::string& path, const FingerprintArgs& args,
                                   const Files& files) {
  const MediaLimits limits;
  FileIdentity identity{.file = path, .item = {.name = path}};
  bool may_be_still = false;
  if (files.is_folder(path)) {
    AFI_TRY(const std::vector<std::string> names, files.list(path));
    for (const std::string& name : names) {
      AFI_TRY(std::vector<std::byte> bytes,
              files.read(fmt::format("{}/{}", path, name), limits.max_file));
      identity.item.files.push_back(
          std::make_shared<const std::vector<std::byte>>(std::move(bytes)));
    }
    if (names.empty())
      return fail(ErrorCode::kNotFound,
                  fmt::format("'{}' is an empty folder: expected the frames of a video", path));
    identity.item.modality = Modality::kVideo;
    identity.item.frame_rate_mhz = 1'000;
  } else {
    AFI_TRY(std::vector<std::byte> bytes, files.read(path, limits.max_file));
    const FileFormat format = sniff(bytes);
    identity.item.modality = modality_of(bytes);
    may_be_still = format == FileFormat::kWebp || format == FileFormat::kGif;
    identity.item.files.push_back(std::make_shared<const std::vector<std::byte>>(std::move(bytes)));
  }
  if (is_document(identity.item)) {
    AFI_TRY(identity.pages, identify_pages(identity.item, limits));
    identity.info = identity.pages.front().info;
    identity.info.format = FileFormat::kPdf;
    identity.content = content_digest(identity.item);
    return identity;
  }
  auto info = probe(identity.item, limits);
  if (may_be_still && (!info.has_value() || info->frames == 1)) {
    identity.item.modality = Modality::kImage;
    info = probe(identity.item, limits);
  }
  AFI_TRY(identity.info, std::move(info));
  identity.content = content_digest(identity.item);
  if (args.decoded && identity.item.modality == Modality::kImage) {
    AFI_TRY(const Image image, decode_image(identity.item, limits));
    identity.decoded = decoded_digest(Pixels{.width = image.width,
                                             .height = image.height,
                                             .format = "rgb",
                                             .data = std::as_bytes(std::span(image.rgb))})
                           .hex();
  } else if (args.decoded && identity.item.modality == Modality::kAudio) {
    AFI_TRY(const Samples samples, decode_audio(identity.item, limits));
    identity.decoded = decoded_digest(AudioSamples{.sample_rate_hz = samples.sample_rate_hz,
                                                   .data = std::as_bytes(std::span(samples.mono))})
                           .hex();
  }
  return identity;
}

std::string_view kind_of(const FileIdentity& identity) {
  return identity.pages.empty() ? to_string(identity.item.modality) : "document";
}

std::string size_of(const FileIdentity& identity) {
  const MediaInfo& info = identity.info;
  if (const std::size_t pages = identity.pages.size(); pages > 0) {
    return fmt::format("{} page{}", pages, pages == 1 ? "" : "s");
  }
  switch (identity.item.modality) {
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

void show(const FileIdentity& identity) {
  fmt::print("{}\n  sha256   {}\n  {:<8} {}, {}, {} bytes\n", identity.file, identity.content.hex(),
             kind_of(identity), to_string(identity.info.format), size_of(identity),
             raw_bytes(identity.item).value());
  for (std::size_t i = 0; i < identity.pages.size(); ++i) {
    const auto& [info, content] = identity.pages[i];
    fmt::print("  page {:<3} {}  {}x{} pixels\n", i + 1, content.hex(), info.width, info.height);
  }
  if (!identity.decoded.empty()) fmt::print("  decoded  {}\n", identity.decoded);
}

Json to_json(const FileIdentity& identity) {
  Json json = {{"file", identity.file},
               {"sha256", identity.content.hex()},
               {"modality", kind_of(identity)},
               {"format", to_string(identity.info.format)},
               {"bytes", raw_bytes(identity.item).value()}};
  if (!identity.pages.empty()) {
    json["pages"] = Json::array();
    for (const auto& [info, content] : identity.pages) {
      json["pages"].push_back(
          {{"sha256", content.hex()}, {"width", info.width}, {"height", info.height}});
    }
  } else if (identity.item.modality == Modality::kAudio) {
    json["sample_rate_hz"] = identity.info.sample_rate_hz;
    json["channels"] = identity.info.channels;
    json["samples"] = identity.info.samples;
  } else {
    json["width"] = identity.info.width;
    json["height"] = identity.info.height;
    json["frames"] = identity.info.frames;
  }
  if (!identity.decoded.empty()) json["decoded_sha256"] = identity.decoded;
  return json;
}

ExitCode run(const FingerprintArgs& args, const World& world) {
  Json all = Json::array();
  ExitCode code = ExitCode::kFine;
  for (const std::string& file : args.files) {
    const auto identity = identify_file(file, args, world.files);
    if (!identity.has_value()) {
      const UnreadFile unread = identify_bytes(file, world.files);
      all.push_back({{"file", file}});
      if (!unread.sha256.empty()) {
        all.back()["sha256"] = unread.sha256;
        all.back()["bytes"] = unread.bytes;
        if (!args.json) {
          fmt::print("{}\n  sha256   {}\n  not read, {} bytes\n", file, unread.sha256,
                     unread.bytes);
          std::fflush(stdout);  // before the error, where both are shown
        }
      }
      fmt::print(stderr, "afterimage fingerprint: {}\n", identity.error().message);
      all.back()["error"] = to_string(identity.error());
      code = ExitCode::kProblem;
    } else if (args.json) {
      all.push_back(to_json(*identity));
    } else {
      show(*identity);
    }
  }
  if (args.json) {
    fmt::print("{}\n", all.dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    fmt::print(
        "\nA cache key also includes the preprocessing (size, frames, sample rate, dtype, "
        "options), the\n"
        "model and its weights epoch, encoder, adapter, chat template and KV dtype, and the "
        "tenant,\n"
        "under the tenant's salt. Changing any of them changes the key.\n");
  }
  return code;
}

}  // namespace

void add_fingerprint(CLI::App& program, World& world, ExitCode& code) {
  auto args = std::make_shared<FingerprintArgs>();
  CLI::App* verb = program.add_subcommand(
      "fingerprint", "Print the identity of media files: digest, modality, format and size");
  verb->add_option(
          "files", args->files,
          "Images, audio, video or PDF files; a folder is a video of its files, 1 frame per "
          "second")
      ->required()
      ->type_name("FILE");
  verb->add_flag(
      "--decoded", args->decoded,
      "Also print the digest of the decoded pixels or samples (not of videos and PDF files),\n"
      "which is the same for the same image in two file formats");
  verb->add_flag("--json", args->json, "Print JSON instead of text");
  verb->footer(
      "A file that the engines of this program do not read has a digest, too, and the exit code is "
      "1.\n"
      "Examples:\n"
      "  afterimage fingerprint photo.jpg\n"
      "  afterimage fingerprint --decoded --json *.png sound.wav");
  verb->callback([args, &world, &code] { code = run(*args, world); });
}

}  // namespace afterimage
