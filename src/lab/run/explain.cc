// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/run/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "afterimage/secret.h"

namespace afterimage {
namespace {

/// A request as its engine sees it.
struct Known {
  const Request* request;
  Fingerprint prints;
  Sequence prompt;
  NamespaceId root;
};

Result<Known> know(const Request& request, const Engine& engine, const Reuse& reuse) {
  const Recipes recipes = recipes_of(engine);
  AFI_TRY(const Namespace space, reuse.space(engine.identity(), request.tenant));
  Fingerprint prints = fingerprint(media_of(request), space, recipes);
  AFI_TRY(Sequence prompt, engine.prepare(request, prints.contents));
  return Known{.request = &request,
               .prints = std::move(prints),
               .prompt = std::move(prompt),
               .root = space.prefix_root(recipes.image, recipes.audio, recipes.video)};
}

/// Leading tokens that two prompts share. Other media part where their spans begin.
TokenCount shared_tokens(const Sequence& a, const Sequence& b) {
  const auto parted = std::ranges::mismatch(a.tokens, b.tokens).in1;
  TokenCount shared(static_cast<std::uint32_t>(parted - a.tokens.begin()));
  const auto [in_a, in_b] = std::ranges::mismatch(a.spans, b.spans);
  if (in_a != a.spans.end()) shared = std::min(shared, in_a->offset);
  if (in_b != b.spans.end()) shared = std::min(shared, in_b->offset);
  return shared;
}

/// The smallest thing by which two conversations can differ: a byte of text, an item, a border.
struct Piece {
  std::string shown;
  std::string identity;
  std::size_t message;
};

std::vector<Piece> pieces_of(const Known& known) {
  std::vector<Piece> pieces;
  std::size_t item = 0;
  for (std::size_t m = 0; m < known.request->messages.size(); ++m) {
    const Message& message = known.request->messages[m];
    const std::string role(to_string(message.role));
    pieces.push_back({"<" + role + "> ", "role " + role, m});
    for (const ContentPart& part : message.parts) {
      if (const auto* media = std::get_if<MediaItem>(&part)) {
        pieces.push_back(
            {fmt::format("[{} {}]", to_string(media->modality), short_name(media->name)),
             "item " + known.prints.contents[item++].hex(), m});
        continue;
      }
      for (const char c : std::get<std::string>(part)) {
        pieces.push_back({std::string(1, c), std::string(1, c), m});
      }
    }
    pieces.push_back({" ", "end", m});
  }
  return pieces;
}

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80; }

constexpr std::size_t kQuoted = 60;  // bytes of text to either side, about

/// What stands from `at` to the end of its message, or the start of it.
std::string quoted_from(const std::vector<Piece>& pieces, std::size_t at) {
  std::string text;
  for (std::size_t i = at; i < pieces.size() && pieces[i].identity != "end"; ++i) {
    if (text.size() >= kQuoted && !continues_character(pieces[i].shown[0])) return text + "…";
    text += pieces[i].shown;
  }
  return text;
}

/// What stands before `at`, or the end of it.
std::string quoted_before(const std::vector<Piece>& pieces, std::size_t at) {
  std::size_t from = at;
  std::size_t size = 0;
  while (from > 0 && (size < kQuoted || continues_character(pieces[from].shown[0]))) {
    size += pieces[--from].shown.size();
  }
  std::string text = from > 0 ? "…" : "";
  for (std::size_t i = from; i < at; ++i) text += pieces[i].shown;
  return text;
}

std::optional<PartingWords> parting_words(const Known& asked, const Known& cached) {
  const std::vector<Piece> here = pieces_of(asked);
  const std::vector<Piece> there = pieces_of(cached);
  const auto [in_here, in_there] =
      std::ranges::mismatch(here, there, {}, &Piece::identity, &Piece::identity);
  if (in_here == here.end() && in_there == there.end()) return std::nullopt;
  auto at = static_cast<std::size_t>(in_here - here.begin());
  auto other = static_cast<std::size_t>(in_there - there.begin());
  // Two characters may begin with the same bytes: quote both whole.
  while (at > 0 && at < here.size() && continues_character(here[at].shown[0])) {
    --at;
    --other;
  }
  const bool ends = at == here.size();
  const std::vector<Piece>& longer = ends ? there : here;
  const std::size_t message = longer[at].message;
  return PartingWords{.message = message + 1,
                      .at_its_start = longer[at].identity.starts_with("role "),
                      .role = (ends ? cached : asked).request->messages[message].role,
                      .before = quoted_before(longer, at),
                      .asked = ends ? "" : quoted_from(here, at),
                      .cached = other == there.size() ? "" : quoted_from(there, other),
                      .asked_ends = ends,
                      .cached_ends = other == there.size()};
}

std::optional<LikestRequest> likest(const Known& asked, const std::vector<Known>& earlier) {
  const Known* best = nullptr;
  TokenCount most{};
  for (const Known& known : earlier) {
    if (known.root != asked.root) continue;
    const TokenCount shared = shared_tokens(asked.prompt, known.prompt);
    if (best != nullptr && shared <= most) continue;
    best = &known;
    most = shared;
  }
  if (best == nullptr) return std::nullopt;
  return LikestRequest{.id = best->request->id.text(),
                       .shared = most,
                       .length = TokenCount(static_cast<std::uint32_t>(best->prompt.tokens.size())),
                       .words = parting_words(asked, *best)};
}

std::vector<ExplainedMedia> explained_media(const Known& asked, const Served& served,
                                            const std::vector<Known>& earlier) {
  std::map<EncoderKey, std::string> first;
  for (const Known& known : earlier) {
    for (const EncoderKey& key : known.prints.keys) first.emplace(key, known.request->id.text());
  }
  std::vector<ExplainedMedia> all;
  const auto media = media_of(*asked.request);
  for (std::size_t i = 0; i < media.size(); ++i) {
    const auto by = first.find(asked.prints.keys[i]);
    all.push_back({.name = media[i]->name,
                   .modality = media[i]->modality,
                   .offset = asked.prompt.spans[i].offset,
                   .length = asked.prompt.spans[i].length,
                   .source = served.sources[i],
                   .first_asked_by = by == first.end() ? "" : by->second});
  }
  return all;
}

/// Insertions, deletions and replacements that turn one into the other.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

std::string quoted_list(const std::vector<std::string>& names) {
  std::string list;
  for (std::size_t i = 0; i < names.size(); ++i) {
    list += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + ("\"" + names[i] + "\"");
  }
  return list;
}

std::unexpected<Error> no_such_request(const Workload& workload, const std::string& id) {
  std::vector<std::pair<std::size_t, std::string>> near;
  for (const Request& request : workload.requests) {
    near.emplace_back(edits(id, request.id.text()), request.id.text());
  }
  std::ranges::stable_sort(near, {}, &std::pair<std::size_t, std::string>::first);
  near.resize(std::min<std::size_t>(near.size(), 3));
  std::vector<std::string> names;
  for (const auto& [distance, name] : near) names.push_back(name);
  std::string message = fmt::format("there is no request \"{}\" in the workload", id);
  if (!names.empty()) message += "; the nearest ids are " + quoted_list(names);
  if (!workload.rejected.empty()) {
    const RejectedLine& line = workload.rejected.front();
    message += fmt::format("; line {} could not be read: {}", line.number, line.error.message);
  }
  return fail(ErrorCode::kNotFound, std::move(message));
}

Result<std::unique_ptr<Reuse>> fresh_reuse(ReuseOptions options, const Clock& clock) {
  // Nothing of this outlives the call, so nobody needs to know the secret.
  AFI_TRY(const Secret root, random_secret());
  options.prefixes = true;
  return Reuse::create(options, root, clock);
}

}  // namespace

Result<RequestExplanation> explain_request(const Workload& workload, const RequestId& id,
                                           const Engine& engine, const ReuseOptions& options,
                                           const Clock& clock, const RunProgress& progress) {
  const auto asked = std::ranges::find(workload.requests, id, &Request::id);
  if (asked == workload.requests.end()) return no_such_request(workload, id.text());
  if (engine.kv_layout() == nullptr) {
    return fail(ErrorCode::kUnsupported, "this engine keeps its KV to itself: nothing is resumed");
  }
  AFI_TRY(const auto reuse, fresh_reuse(options, clock));
  const auto before = static_cast<std::size_t>(asked - workload.requests.begin());
  RequestExplanation told{.id = id.text(),
                          .tenant = asked->tenant.text(),
                          .place = before + 1,
                          .of = workload.requests.size(),
                          .layout = *engine.kv_layout(),
                          .budget = options.budget};
  const GenerateOptions one_token{.max_tokens = TokenCount(1)};  // only prompts are cached
  std::vector<Known> earlier;
  for (std::size_t i = 0; i < before; ++i) {
    const Request& request = workload.requests[i];
    const auto served = serve(request, engine, *reuse, one_token);
    if (served.has_value()) {
      AFI_TRY(Known known, know(request, engine, *reuse));
      earlier.push_back(std::move(known));
    } else {
      told.failed.push_back({.id = request.id.text(), .error = to_string(served.error())});
    }
    if (progress) progress("serving", i + 1, before);
  }
  AFI_TRY(const Known known, know(*asked, engine, *reuse));
  told.evictions = reuse->stats().prefix.evictions;
  AFI_TRY(told.prefix, reuse->prefix()->explain(known.root, known.prompt));
  AFI_TRY(const Served served, serve(*asked, engine, *reuse, one_token));
  told.resumed_from = served.completion.resumed_from;
  told.restore_failed = served.restore_failed;
  told.media = explained_media(known, served, earlier);
  told.likest = likest(known, earlier);
  return told;
}

}  // namespace afterimage
