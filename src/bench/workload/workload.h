// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/request.h"
#include "afterimage/result.h"
#include "foundation/platform/files.h"
#include "foundation/text/json_lines.h"

namespace afterimage {

/// A media part as named in a workload.
struct MediaReference {
  Modality modality = Modality::kImage;
  std::string name;              // a path, or a data URL
  std::string declared_format;   // of input_audio: "wav", "mp3"; otherwise empty
  double frames_per_second = 0;  // for a folder of frames; 0: not given
};
/// One item; of a document its pages.
using LoadMedia = std::function<Result<std::vector<MediaItem>>(const MediaReference&)>;

/// Parses one line of a workload: {"id", "agent"?, "tenant"?, "conversation"?, "expected"?,
/// "messages": […]} with OpenAI chat messages whose image_url, input_audio and video_url parts name
/// local files, as file_data of file parts names PDF files. "conversation" is "goes_on" or "ends": a hint for eviction policies. "expected" is
/// the right answer, which is stored in `expected` if that is not null. Unknown fields are ignored.
///
/// Errors   kInvalidArgument: not JSON or not of this form (names the field and what was found);
///          kUnsupported: an unknown kind of part; errors of `load`.
/// Threads  Any.
Result<Request> parse_workload_line(std::string_view line, const LoadMedia& load,
                                    std::string* expected = nullptr);

struct Workload {
  std::vector<Request> requests;
  std::vector<RejectedLine> rejected;         // invalid lines; the other requests run
  std::map<RequestId, std::string> expected;  // right answers, of the requests that name one
};

/// Reads a file line by line, skipping empty lines. Fails only if the file cannot be read.
Result<Workload> read_workload(const std::string& path, const Files& files, const LoadMedia& load);

}  // namespace afterimage
