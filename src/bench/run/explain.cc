// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "bench/run/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "afterimage/secret.h"
#include "foundation/text/edit_distance.h"
#include "runtime/reuse/plan.h"

namespace afterimage {
namespace {

/// A request with its identity and its prompt.
struct PlannedRequest {
  const Request* request;
  Fingerprint prints;
  Sequence prompt;
  NamespaceId root;
};

Result<PlannedRequest> prepare_request(const Request& request, const Engine& engine,
                                       const Reuse& reuse) {
  const Recipes recipes = recipes_of(engine);
  AFI_TRY(const Namespace space, reuse.space(engine.identity(), request.tenant));
  Fingerprint prints = fingerprint(media_of(request), space, recipes);
  AFI_TRY(Sequence prompt, engine.prepare(request, prints.contents));
  return PlannedRequest{.request = &request,
                        .prints = std::move(prints),
                        .prompt = std::move(prompt),
                        .root = space.prefix_root(recipes.image, recipes.audio, recipes.video)};
}

/// Number of leading tokens that two prompts share. Different media diverge at the span's start.
TokenCount shared_tokens(const Sequence& a, const Sequence& b) {
  const auto parted = std::ranges::mismatch(a.tokens, b.tokens).in1;
  TokenCount shared(static_cast<std::uint32_t>(parted - a.tokens.begin()));
  const auto [in_a, in_b] = std::ranges::mismatch(a.spans, b.spans);
  if (in_a != a.spans.end()) shared = std::min(shared, in_a->offset);
  if (in_b != b.spans.end()) shared = std::min(shared, in_b->offset);
  return shared;
}

/// The unit of comparison of two conversations: a byte of text, a media item, a message border.
struct Piece {
  enum class Kind : unsigned char { kRole, kMedia, kByte, kEnd };
  Kind kind;
  std::string shown;
  std::string identity;
  std::size_t message;
  bool operator==(const Piece& other) const {
    return kind == other.kind && identity == other.identity;
  }
};

std::vector<Piece> pieces_of(const PlannedRequest& prepared) {
  std::vector<Piece> pieces;
  std::size_t item = 0;
  for (std::size_t m = 0; m < prepared.request->messages.size(); ++m) {
    const Message& message = prepared.request->messages[m];
    const std::string role(to_string(message.role));
    pieces.push_back({Piece::Kind::kRole, "<" + role + "> ", role, m});
    for (const ContentPart& part : message.parts) {
      if (const auto* media = std::get_if<MediaItem>(&part)) {
        pieces.push_back(
            {Piece::Kind::kMedia,
             fmt::format("[{} {}]", to_string(media->modality), short_name(media->name)),
             prepared.prints.contents[item++].hex(), m});
        continue;
      }
      for (const char c : std::get<std::string>(part)) {
        pieces.push_back({Piece::Kind::kByte, std::string(1, c), std::string(1, c), m});
      }
    }
    pieces.push_back({Piece::Kind::kEnd, " ", "", m});
  }
  return pieces;
}

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80; }

constexpr std::size_t kQuoted = 60;  // approximate bytes of text on either side

/// The text from `at` to the end of its message, truncated.
std::string quoted_from(const std::vector<Piece>& pieces, std::size_t at) {
  std::string text;
  for (std::size_t i = at; i < pieces.size() && pieces[i].kind != Piece::Kind::kEnd; ++i) {
    if (text.size() >= kQuoted && !continues_character(pieces[i].shown[0])) return text + "…";
    text += pieces[i].shown;
  }
  return text;
}

/// The text before `at`, truncated at its start.
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

std::optional<DivergenceQuote> divergence_quote(const PlannedRequest& asked,
                                                const PlannedRequest& cached) {
  const std::vector<Piece> asked_pieces = pieces_of(asked);
  const std::vector<Piece> cached_pieces = pieces_of(cached);
  const auto [in_here, in_there] = std::ranges::mismatch(asked_pieces, cached_pieces);
  if (in_here == asked_pieces.end() && in_there == cached_pieces.end()) return std::nullopt;
  auto at = static_cast<std::size_t>(in_here - asked_pieces.begin());
  auto other = static_cast<std::size_t>(in_there - cached_pieces.begin());
  // Two characters may begin with the same bytes: quote whole characters.
  while (at > 0 && at < asked_pieces.size() && continues_character(asked_pieces[at].shown[0])) {
    --at;
    --other;
  }
  const bool ends = at == asked_pieces.size();
  const std::vector<Piece>& longer = ends ? cached_pieces : asked_pieces;
  const std::size_t message = longer[at].message;
  return DivergenceQuote{
      .message = message + 1,
      .whole_message = longer[at].kind == Piece::Kind::kRole,
      .role = (ends ? cached : asked).request->messages[message].role,
      .before = quoted_before(longer, at),
      .asked = ends ? "" : quoted_from(asked_pieces, at),
      .cached = other == cached_pieces.size() ? "" : quoted_from(cached_pieces, other),
      .asked_ends = ends,
      .cached_ends = other == cached_pieces.size()};
}

std::optional<ClosestRequest> closest(const PlannedRequest& asked,
                                      const std::vector<PlannedRequest>& earlier) {
  const PlannedRequest* best = nullptr;
  TokenCount most{};
  for (const PlannedRequest& prepared : earlier) {
    if (prepared.root != asked.root) continue;
    const TokenCount shared = shared_tokens(asked.prompt, prepared.prompt);
    if (best != nullptr && shared <= most) continue;
    best = &prepared;
    most = shared;
  }
  if (best == nullptr) return std::nullopt;
  return ClosestRequest{
      .id = best->request->id.text(),
      .shared = most,
      .length = TokenCount(static_cast<std::uint32_t>(best->prompt.tokens.size())),
      .quote = divergence_quote(asked, *best)};
}

std::vector<ExplainedMedia> explained_media(const PlannedRequest& asked, const Served& served,
                                            const std::vector<PlannedRequest>& earlier) {
  std::map<EncoderKey, std::string> first;
  for (const PlannedRequest& prepared : earlier) {
    for (const EncoderKey& key : prepared.prints.keys)
      first.emplace(key, prepared.request->id.text());
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
    near.emplace_back(edit_distance(id, request.id.text()), request.id.text());
  }
  std::ranges::stable_sort(near, {}, &std::pair<std::size_t, std::string>::first);
  near.resize(std::min<std::size_t>(near.size(), 3));
  std::vector<std::string> names;
  for (const auto& [distance, name] : near) names.push_back(name);
  std::string message = fmt::format("no request \"{}\" in the workload", id);
  if (!names.empty()) message += "; the nearest ids are " + quoted_list(names);
  if (!workload.rejected.empty()) {
    const RejectedLine& line = workload.rejected.front();
    message += fmt::format("; line {} could not be read: {}", line.number, line.error.message);
  }
  return fail(ErrorCode::kNotFound, std::move(message));
}

Result<std::unique_ptr<Reuse>> fresh_reuse(ReuseOptions options, const Clock& clock) {
  // The cache does not outlive the call, so a random secret suffices.
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
    return fail(ErrorCode::kUnsupported,
                "this engine does not expose its KV, so nothing is resumed");
  }
  AFI_TRY(const auto reuse, fresh_reuse(options, clock));
  const auto before = static_cast<std::size_t>(asked - workload.requests.begin());
  RequestExplanation explanation{.id = id.text(),
                                 .tenant = asked->tenant.text(),
                                 .place = before + 1,
                                 .of = workload.requests.size(),
                                 .layout = *engine.kv_layout(),
                                 .exactness = engine.exactness(),
                                 .budget = options.budget};
  const GenerateOptions one_token{.max_tokens = TokenCount(1)};  // only prompts are cached
  std::vector<PlannedRequest> earlier;
  for (std::size_t i = 0; i < before; ++i) {
    const Request& request = workload.requests[i];
    const auto served = serve(request, engine, *reuse, one_token);
    if (served.has_value()) {
      AFI_TRY(PlannedRequest prepared, prepare_request(request, engine, *reuse));
      earlier.push_back(std::move(prepared));
    } else {
      explanation.failed.push_back({.id = request.id.text(), .error = to_string(served.error())});
    }
    if (progress) progress("serving", i + 1, before);
  }
  AFI_TRY(const PlannedRequest prepared, prepare_request(*asked, engine, *reuse));
  explanation.evictions = reuse->stats().prefix.evictions;
  AFI_TRY(explanation.prefix, reuse->prefix()->cache().explain(prepared.root, prepared.prompt));
  AFI_TRY(const Served served, serve(*asked, engine, *reuse, one_token));
  explanation.resumed_from = served.completion.resumed_from;
  explanation.restore_failed = served.restore_failed;
  explanation.media = explained_media(prepared, served, earlier);
  explanation.closest = closest(prepared, earlier);
  return explanation;
}

}  // namespace afterimage
