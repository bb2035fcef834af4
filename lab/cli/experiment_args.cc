// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/cli/experiment_args.h"

#include "foundation/platform/environment.h"

namespace afterimage {

DataPlaces DataArgs::places() const {
  DataPlaces places{.data = data, .image_roots = {}, .questions = questions, .seed = seed};
  if (!image_folder.empty()) places.image_roots.push_back(image_folder);
  for (const char* name : {"SEMANTIC_CACHE_IMAGE_ROOT", "GQA_IMAGE_ROOT", "LLAVA_IMAGE_ROOT"}) {
    if (auto root = environment(name); root.has_value() && !root->empty()) {
      places.image_roots.push_back(*std::move(root));
    }
  }
  return places;
}

void add_data_flags(CLI::App& verb, DataArgs& args) {
  verb.add_option("--data,--video-frames-data", args.data,
                  "File with the records, or its folder; nothing is downloaded\n"
                  "(default: the images' folder, or the one above it)")
      ->type_name("PATH");
  verb.add_option("--gqa-image-dir,--video-frames-root", args.image_folder,
                  "Folder with the images; searched next: the folders in "
                  "SEMANTIC_CACHE_IMAGE_ROOT,\n"
                  "GQA_IMAGE_ROOT and LLAVA_IMAGE_ROOT, then images/ beside the records")
      ->type_name("DIR");
}

}  // namespace afterimage
