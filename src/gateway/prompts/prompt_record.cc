// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/prompts/prompt_record.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "foundation/json/json_text.h"
#include "foundation/media/probe.h"
#include "gateway/prompts/content_chain.h"

namespace afterimage {
namespace {

constexpr std::size_t kPointers = 2 * sizeof(void*);
constexpr std::size_t kUsualWord = 6;  // bytes, with a space

std::string_view bytes_of(const ContentDigest& digest) {
  return {reinterpret_cast<const char*>(digest.bytes.data()), digest.bytes.size()};
}

/// As JSON whose members have an order, so that two ways to write the same are one.
void append_sorted(std::string& out, const JsonValue& value) {
  if (value.is(JsonKind::kArray)) {
    out.push_back('[');
    for (const JsonValue one : value) {
      append_sorted(out, one);
      out.push_back(',');
    }
    out.push_back(']');
  } else if (value.is(JsonKind::kObject)) {
    std::vector<std::pair<std::string_view, JsonValue>> members;
    for (const JsonValue member : value) members.emplace_back(member.key(), member);
    std::ranges::sort(members, {}, &std::pair<std::string_view, JsonValue>::first);
    out.push_back('{');
    for (const auto& [key, member] : members) {
      append_json_string(out, key);
      append_sorted(out, member);
    }
    out.push_back('}');
  } else {
    append_canonical(out, value);
  }
}

/// Calls whose arguments are JSON in a string are what that JSON means.
std::string meaning_of_calls(const JsonValue& calls) {
  std::string out;
  for (const JsonValue call : calls) {
    if (!call.is(JsonKind::kObject)) continue;
    const JsonValue function = call["function"];
    append_json_string(out, function["name"].text());
    JsonReader reader;
    const JsonValue arguments = function["arguments"];
    const auto read = reader.read(arguments.text());
    append_sorted(out, read.has_value() ? *read : arguments);
  }
  return out;
}

bool is_reasoning(std::string_view member) {
  return member == "reasoning_content" || member == "reasoning" || member == "thinking" ||
         member == "reasoning_details";
}

/// Fields of a message as JSON: there the id of a tool call, "…" or #3, stands before the call.
std::string with_ids_apart(std::string_view fields) {
  std::string json;
  bool in_string = false;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const char c = fields[i];
    if (in_string && c == '\\') json.push_back(fields[i++]);
    if (!in_string && c == '{' && json.ends_with('"')) json.push_back(',');
    if (c == '"') in_string = !in_string;
    if (in_string || c != '#') {
      json.push_back(fields[i]);
      continue;
    }
    const std::size_t end = std::min(fields.find_first_not_of("0123456789", i + 1), fields.size());
    const bool is_value = end == fields.size() || fields[end] != '{';
    if (is_value) json.append(fields.substr(i + 1, end - i - 1));
    i = end - 1;
  }
  return json;
}

/// A tool's name, as its JSON has it.
std::string_view name_of_tool(std::string_view json) {
  constexpr std::string_view kName = R"("name":")";
  const std::size_t begin = json.find(kName);
  if (begin == std::string_view::npos) return {};
  const std::string_view name = json.substr(begin + kName.size());
  return name.substr(0, name.find('"'));
}

/// What tells a media item from others, as digests.
struct MediaPrint {
  std::uint64_t name = 0;
  std::uint64_t options = 0;
  std::uint64_t digest = 0;
};
MediaPrint print_of(const ApiMedia& media, const PrintKey& key) {
  MediaPrint print;
  const std::string_view address(media.address);
  const bool has_content = media.digest.has_value();
  print.name = has_content ? key.print(bytes_of(*media.digest))
                           : key.print(address.substr(0, address.find('?')));
  for (const auto& [name, value] : media.options) {
    if (name == "mime") continue;  // the engine sees decoded pixels
    print.options = key.print(print.options, key.print(key.print(name), key.print(value)));
  }
  print.digest =
      key.print(key.print(print.name, print.options), has_content ? 1 : key.print(address));
  return print;
}

/// Prints the pieces of a prompt and, on the way, everything up to each place.
class Printing {
 public:
  Printing(const PrintKey& key, PrintedPrompt& out) : key_(key), out_(out) {}

  void add(const PartPiece& piece) {
    const auto head = (static_cast<std::uint64_t>(piece.part.kind) << 8U) |
                      static_cast<std::uint64_t>(piece.kind);
    mix(head);
    switch (piece.kind) {
      case PartPiece::Kind::kName:
        out_.prints.push_back(key_.print(piece.text));
        return mix(out_.prints.back());
      case PartPiece::Kind::kMedia:
        out_.prints.push_back(print_of(*piece.media, key_).digest);
        mix(out_.prints.back());
        return out_.links.push_back(state_);
      case PartPiece::Kind::kFields:
      case PartPiece::Kind::kText:
        out_.prints.push_back(add_text(piece.text));
    }
  }
  void mix(std::uint64_t print) { state_ = key_.print(state_, print); }

 private:
  /// Each byte is hashed once, for the text's own digest and for the links in it.
  std::uint64_t add_text(std::string_view text) {
    std::uint64_t whole = text.size();
    while (!text.empty()) {
      const std::string_view block = text.substr(0, kBlock);
      text.remove_prefix(block.size());
      const std::uint64_t print = key_.print(block);
      whole = key_.print(whole, print);
      mix(print);
      unlinked_ += block.size();
      offset_ += block.size();
      if (text.empty() || unlinked_ >= link_bytes(offset_ - unlinked_)) link();
    }
    return whole;
  }
  void link() {
    out_.links.push_back(state_);
    unlinked_ = 0;
  }

  static constexpr std::size_t kBlock = 256;
  const PrintKey& key_;
  PrintedPrompt& out_;
  std::uint64_t state_ = 0;
  std::size_t offset_ = 0;    // of text
  std::size_t unlinked_ = 0;  // bytes since the last link
};

/// The parts of an earlier prompt. In the next turn of a conversation they stand where they stood, so that
/// a table is made only once one does not.
class KnownParts {
 public:
  using Part = std::shared_ptr<const PartRecord>;

  explicit KnownParts(const PromptRecord* earlier) {
    if (earlier != nullptr) parts_ = earlier->parts;
  }
  /// One with this digest. `place`: of the new part in its prompt. nullptr: there is none.
  [[nodiscard]] Part find(std::uint64_t digest, std::size_t place) {
    const std::size_t expected = place + shift_;
    if (expected < parts_.size() && parts_[expected]->digest == digest) return parts_[expected];
    if (table_.empty() && expected >= parts_.size()) return nullptr;  // all of them were found
    make_table();
    const auto found = std::ranges::lower_bound(table_, digest, {}, &Entry::first);
    if (found == table_.end() || found->first != digest) return nullptr;
    shift_ = found->second - place;
    return parts_[found->second];
  }

 private:
  using Entry = std::pair<std::uint64_t, std::size_t>;  // digest, index

  void make_table() {
    if (!table_.empty()) return;
    for (std::size_t i = 0; i < parts_.size(); ++i) table_.emplace_back(parts_[i]->digest, i);
    std::ranges::sort(table_);
  }

  std::span<const Part> parts_;
  std::size_t shift_ = 0;  // of the earlier prompt's places; may wrap around
  std::vector<Entry> table_;
};

class Recording {
 public:
  Recording(const PrintKey& key, const PromptRecord* earlier, std::size_t pieces)
      : key_(key), known_(earlier) {
    parts_.reserve(pieces / 2 + 1);  // most have a name and a text
  }

  void add(const PartPiece& piece, std::uint64_t print) {
    const bool is_media = piece.kind == PartPiece::Kind::kMedia;
    const bool begins = piece.kind == PartPiece::Kind::kName ||
                        (piece.part.kind == PartKind::kTools && piece.part != part_.place);
    if (begins) begin(piece.part);
    if (is_media) return add_media(piece);
    switch (piece.kind) {
      case PartPiece::Kind::kName:
        part_.others = key_.print(part_.others, print);
        break;
      case PartPiece::Kind::kFields:
        part_.bytes += static_cast<std::uint32_t>(piece.text.size());
        add_fields(piece.text);
        break;
      case PartPiece::Kind::kText:
        add_text(piece.text, print);
        break;
      case PartPiece::Kind::kMedia:
        break;
    }
  }

  void finish(PromptRecord& record) {
    end();
    record.parts = std::move(parts_);
    for (const auto& part : record.parts) record.bytes += part->bytes;
  }

 private:
  void begin(const PartPlace& place) {
    end();
    part_ = {.place = place};
    texts_.clear();
    open_ = true;
  }

  void add_text(std::string_view text, std::uint64_t print) {
    part_.bytes += static_cast<std::uint32_t>(text.size());
    part_.text_bytes += static_cast<std::uint32_t>(text.size());
    part_.text = key_.print(part_.text, print);
    if (part_.place.kind == PartKind::kTools) part_.name = key_.print(name_of_tool(text));
    texts_.push_back(text);
  }

  void add_fields(std::string_view fields) {
    const std::string json = with_ids_apart(fields);
    JsonReader reader;
    const auto read = reader.read(json);
    if (!read.has_value()) {
      part_.others = key_.print(part_.others, key_.print(fields));
      return;
    }
    for (const JsonValue member : *read) add_member(member);
  }
  void add_member(const JsonValue& member) {
    const std::uint64_t print = key_.print(key_.print(member.key()), key_.print(member.source()));
    if (member.key() == "tool_calls") {
      part_.calls = print;
      part_.canonical_calls = key_.print(meaning_of_calls(member));
    } else if (is_reasoning(member.key())) {
      part_.reasoning = key_.print(part_.reasoning, print);
    } else {
      part_.others = key_.print(part_.others, print);
    }
  }

  /// A message goes on behind its media.
  void add_media(const PartPiece& piece) {
    part_.media += 1;
    part_.text = key_.print(part_.text, 0);
    const ApiMedia& media = *piece.media;
    const MediaPrint print = print_of(media, key_);
    PartRecord item{.place = piece.part,
                    .digest = print.digest,
                    .bytes = kMediaBytes,
                    .name = print.name,
                    .options = print.options,
                    .has_content = media.digest.has_value()};
    // Behind its message, which has not ended yet.
    const std::size_t place = parts_.size() + 1 + waiting_.size();
    if (auto known = known_.find(item.digest, place); known != nullptr) {
      waiting_.push_back(known->place == item.place ? std::move(known) : placed(item, *known));
      return;
    }
    measure(item, media);
    waiting_.push_back(std::make_shared<const PartRecord>(std::move(item)));
  }
  static std::shared_ptr<const PartRecord> placed(PartRecord item, const PartRecord& known) {
    item.width = known.width;
    item.height = known.height;
    return std::make_shared<const PartRecord>(std::move(item));
  }
  static void measure(PartRecord& item, const ApiMedia& media) {
    if (media.bytes == nullptr || media.modality != Modality::kImage) return;
    const auto info = probe({.modality = media.modality, .files = {media.bytes}});
    if (!info.has_value()) return;
    item.width = info->width;
    item.height = info->height;
  }

  void end() {
    if (!std::exchange(open_, false)) return;
    part_.digest = key_.print(
        key_.print(key_.print(static_cast<std::uint64_t>(part_.place.kind), part_.others),
                   key_.print(part_.text, part_.media)),
        key_.print(part_.reasoning, part_.calls));
    auto known = known_.find(part_.digest, parts_.size());
    if (known != nullptr && known->place == part_.place) {
      parts_.push_back(std::move(known));
    } else {
      if (known != nullptr) {
        part_.words = known->words;
      } else {
        print_words();
      }
      parts_.push_back(std::make_shared<const PartRecord>(std::move(part_)));
    }
    std::ranges::move(waiting_, std::back_inserter(parts_));
    waiting_.clear();
  }
  void print_words() {
    std::size_t left = kPrintedBytes;
    words_.clear();
    words_.reserve(std::min<std::size_t>(part_.text_bytes, kPrintedBytes) / kUsualWord + 1);
    for (const std::string_view text : texts_) {
      append_words(words_, text.substr(0, left), key_);
      left -= std::min(left, text.size());
    }
    part_.words.assign(words_.begin(), words_.end());
  }

  const PrintKey& key_;
  KnownParts known_;
  PartRecord part_;  // that has begun
  bool open_ = false;
  std::vector<std::string_view> texts_;                     // of it
  std::vector<WordPrint> words_;                            // of it, with room to grow
  std::vector<std::shared_ptr<const PartRecord>> waiting_;  // its media
  std::vector<std::shared_ptr<const PartRecord>> parts_;
};

}  // namespace

Bytes PartRecord::size() const {
  return Bytes(sizeof(PartRecord) + kPointers + words.capacity() * sizeof(WordPrint));
}

Bytes PromptRecord::own_size() const {
  return Bytes(sizeof(PromptRecord) + kPointers + origin.conversation.capacity() +
               parts.capacity() * sizeof(parts[0]) + links.capacity() * sizeof(links[0]));
}

PrintedPrompt PromptRecorder::print(const ApiRequest& request) const {
  PrintedPrompt printed{.pieces = prompt_pieces(request), .prints = {}, .links = {}};
  printed.prints.reserve(printed.pieces.size());
  printed.links.reserve(printed.pieces.size());
  Printing printing(key_, printed);
  printing.mix(static_cast<std::uint64_t>(request.operation));
  for (const PartPiece& piece : printed.pieces) printing.add(piece);
  return printed;
}

std::shared_ptr<const PromptRecord> PromptRecorder::record(PrintedPrompt prompt,
                                                           PromptOrigin origin,
                                                           const PromptRecord* earlier) const {
  Recording recording(key_, earlier, prompt.pieces.size());
  for (std::size_t i = 0; i < prompt.pieces.size(); ++i) {
    recording.add(prompt.pieces[i], prompt.prints[i]);
  }
  auto record = std::make_shared<PromptRecord>();
  record->origin = std::move(origin);
  record->links.assign(prompt.links.begin(), prompt.links.end());
  recording.finish(*record);
  return record;
}

}  // namespace afterimage
