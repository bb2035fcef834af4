// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/prompts/divergence.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "afterimage/identity.h"
#include "gateway/prompts/prompt_report.h"

namespace afterimage {
namespace {

ApiRequest read_prompt(const std::string& body, ApiOperation operation = ApiOperation::kChat) {
  ApiRequest request = read_api_request(operation, body, ApiReader::kOtherServer).value();
  for (ApiMedia& item : request.media) {
    if (item.bytes == nullptr) continue;
    item.digest = content_digest({.modality = item.modality, .files = {item.bytes}});
  }
  return request;
}

PromptDivergence parts_at(const std::string& earlier, const std::string& now,
                          ApiOperation operation = ApiOperation::kChat) {
  const PromptRecorder recorder(Secret{std::byte{7}});
  const auto before = recorder.record(recorder.print(read_prompt(earlier, operation)), {}, nullptr);
  const auto after = recorder.record(recorder.print(read_prompt(now, operation)), {}, before.get());
  const PromptDivergence found = compare(*after, *before);
  // Parts that records share are compared like those that they do not.
  EXPECT_EQ(
      compare(*recorder.record(recorder.print(read_prompt(now, operation)), {}, nullptr), *before),
      found);
  return found;
}

/// "diverges=system@79; looks=counter"; empty: nothing is lost.
std::string said(const PromptDivergence& found) {
  const std::string text = header_value(first_report(found));
  const std::size_t at = text.find("diverges=");
  return at == std::string::npos ? "" : text.substr(at);
}

const std::string kRules =
    "You are a careful assistant who works in a repository. Read before you write, run the tests, "
    "and say what you have not done. ";
const std::string kAsk =
    "Please find out why the build of the parser fails on Tuesdays and fix it.";
const std::string kAnswer =
    "It compares the day of the week with a table that lacks one; I added it.";

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out.push_back('\\');
    c == '\n' ? out += "\\n" : out += c;
  }
  return out + "\"";
}
std::string says(const std::string& role, const std::string& text, const std::string& more = "") {
  return R"({"role":")" + role + R"(","content":)" + quoted(text) + more + "}";
}
std::string picture(const std::string& url, const std::string& more = "") {
  return R"({"type":"image_url","image_url":{"url":")" + url + "\"" + more + "}}";
}
std::string shows(const std::string& pictures, const std::string& text = kAsk) {
  return R"({"role":"user","content":[)" + pictures + R"(,{"type":"text","text":)" + quoted(text) +
         "}]}";
}
std::string tool(const std::string& name, const std::string& text = "does something useful") {
  return R"({"type":"function","function":{"name":")" + name + R"(","description":)" +
         quoted(text) +
         R"(,"parameters":{"type":"object","properties":{"path":{"type":"string"}}}}})";
}
std::string chat(const std::vector<std::string>& messages, const std::string& more = "",
                 const std::string& model = "m") {
  std::string all;
  for (const std::string& message : messages) all += (all.empty() ? "" : ",") + message;
  return R"({"model":")" + model + R"(","messages":[)" + all + "]" + more + "}";
}
std::string system_of(const std::string& text) {
  return chat({says("system", text), says("user", kAsk)});
}
std::string tools_of(const std::string& list) {
  return chat({says("system", kRules), says("user", kAsk)}, R"(,"tools":[)" + list + "]");
}
std::string turns(const std::string& assistant) {
  return chat(
      {says("system", kRules), says("user", kAsk), assistant, says("user", "And the other days?")});
}

const std::string kOne =
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FD"
    "AAAAAElFTkSuQmCC";
const std::string kReencoded =
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAAD0lEQVR4AQEEAPv/AP8AAAMBAQCN"
    "HeWCAAAAAElFTkSuQmCC";
const std::string kWider =
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAIAAAB7QOjdAAAADUlEQVR42mP4z8AARAAI/gH/GcBr"
    "5wAAAABJRU5ErkJggg==";

struct Case {
  const char* name;
  std::string earlier;
  std::string now;
  std::string said;
};

std::vector<Case> cases_of_text() {
  const std::string head = "Build 7 of the agent. ";
  const auto with = [](const std::string& value) {
    return kRules + "cch=" + value + "; " + kRules;
  };
  const std::string at = "@" + std::to_string(kRules.size() + 4);
  return {
      {"nonce in the system block", system_of(with("a3f2b1")), system_of(with("9c04de")),
       "diverges=system" + at + "; looks=nonce"},
      {"date", system_of(with("2026-11-28")), system_of(with("2026-11-29")),
       "diverges=system" + at + "; looks=date"},
      {"date in words", system_of(with("Sunday, November 29, 2026")),
       system_of(with("Sunday, November 30, 2026")),
       "diverges=system@" + std::to_string(kRules.size() + 4 + 17) + "; looks=date"},
      {"date with seconds", system_of(with("2026-11-29T03:23:05Z")),
       system_of(with("2026-11-29T03:23:47Z")),
       "diverges=system@" + std::to_string(kRules.size() + 4 + 10) + "; looks=time"},
      {"time of day", system_of(with("14:05")), system_of(with("14:06")),
       "diverges=system" + at + "; looks=time"},
      {"seconds since 1970", system_of(with("1795922585")), system_of(with("1795922601")),
       "diverges=system" + at + "; looks=time"},
      {"counter of requests", system_of(with("1041")), system_of(with("1042")),
       "diverges=system" + at + "; looks=counter"},
      {"number", system_of(with("8812345")), system_of(with("23")),
       "diverges=system" + at + "; looks=number"},
      {"session id", system_of(with("550e8400-e29b-41d4-a716-446655440000")),
       system_of(with("6ba7b810-9dad-11d1-80b4-00c04fd430c8")),
       "diverges=system" + at + "; looks=id"},
      {"prefixed id", system_of(with("session_01HZX5K8Q2")), system_of(with("session_01HZX7B3M9")),
       "diverges=system" + at + "; looks=id"},
      {"hash of a commit", system_of(with("91534c9b0afbd968365de4f8a1cf2bac90fabd78")),
       system_of(with("b964c716dffb5a07e6a6e7bc43ff4291d197b81b")),
       "diverges=system" + at + "; looks=hash"},
      {"working directory", system_of(with("alpha")), system_of(with("omega")),
       "diverges=system" + at + "; looks=text"},
      {"whitespace", system_of(kRules + "Be brief.\n" + kRules),
       system_of(kRules + "Be brief. \n" + kRules),
       "diverges=system@" + std::to_string(kRules.size() + 3) + "; looks=whitespace"},
      {"line in front", system_of(kRules), system_of(head + kRules),
       "diverges=system@0; looks=text"},
      {"system message inserted", chat({says("user", kAsk), says("assistant", kAnswer)}),
       chat({says("system", kRules), says("user", kAsk), says("assistant", kAnswer)}),
       "diverges=system; change=added"},
      {"system message dropped", system_of(kRules), chat({says("user", kAsk)}),
       "diverges=system; change=removed"},
  };
}

std::vector<Case> cases_of_fields() {
  const std::string a = tool("read");
  const std::string b = tool("write");
  const std::string c = tool("search");
  const auto field = [](const std::string& more) {
    return chat({says("system", kRules), says("user", kAsk)}, more);
  };
  return {
      {"another model", field(""), chat({says("system", kRules), says("user", kAsk)}, "", "n"),
       "diverges=model"},
      {"another reasoning_effort", field(R"(,"reasoning_effort":"low")"),
       field(R"(,"reasoning_effort":"high")"), "diverges=parameters.reasoning_effort"},
      {"chat_template_kwargs added", field(""),
       field(R"(,"chat_template_kwargs":{"enable_thinking":false})"),
       "diverges=parameters.chat_template_kwargs; change=added"},
      {"cache_salt dropped", field(R"(,"cache_salt":"x")"), field(""),
       "diverges=parameters.cache_salt; change=removed"},
      {"no tool is to be called", tools_of(a),
       chat({says("system", kRules), says("user", kAsk)},
            R"(,"tools":[)" + a + R"(],"tool_choice":"none")"),
       "diverges=parameters.tool_choice; change=added"},
      {"tools in another order", tools_of(a + "," + b + "," + c), tools_of(a + "," + c + "," + b),
       "diverges=tools[1]; change=reordered"},
      {"tool added in front", tools_of(a + "," + b), tools_of(c + "," + a + "," + b),
       "diverges=tools[0]; change=added"},
      {"tool added at the end", tools_of(a + "," + b), tools_of(a + "," + b + "," + c),
       "diverges=tools[2]; change=added"},
      {"tool removed", tools_of(a + "," + b + "," + c), tools_of(a + "," + c),
       "diverges=tools[1]; change=removed"},
      {"all tools removed", tools_of(a), field(""), "diverges=tools[0]; change=removed"},
      {"date in a tool's description", tools_of(a + "," + tool("now", "Today is 2026-11-28.")),
       tools_of(a + "," + tool("now", "Today is 2026-11-29.")), "diverges=tools[1]@68; looks=date"},
  };
}

std::string calls(const std::string& arguments) {
  return R"({"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function",)"
         R"("function":{"name":"read","arguments":)" +
         quoted(arguments) + "}}]}";
}

std::vector<Case> cases_of_messages() {
  const std::string result = says(
      "tool", "int main() { return 0; }  // a program that does nothing at all, and does it well",
      R"(,"tool_call_id":"call_1")");
  const auto called = [&](const std::string& arguments) {
    return chat({says("user", kAsk), calls(arguments), result, says("user", "What next?")});
  };
  const std::string thought = R"(,"reasoning_content":"The user wants the parser fixed.")";
  return {
      {"reasoning dropped between turns", turns(says("assistant", kAnswer, thought)),
       turns(says("assistant", kAnswer)), "diverges=messages[2]; change=reasoning-dropped"},
      {"tool arguments serialised again", called(R"({"path":"a.c","line":1})"),
       called(R"({"line": 1, "path": "a.c"})"), "diverges=messages[1]; change=tool-call-rewritten"},
      {"other tool arguments", called(R"({"path":"a.c"})"), called(R"({"path":"b.c"})"),
       "diverges=messages[1]"},
      {"history cut from the front",
       chat({says("system", kRules), says("user", "One?"), says("assistant", "1"),
             says("user", kAsk), says("assistant", kAnswer)}),
       chat({says("system", kRules), says("user", kAsk), says("assistant", kAnswer),
             says("user", "And now?")}),
       "diverges=messages[1]; change=removed"},
      {"message inserted",
       chat({says("system", kRules), says("user", kAsk), says("assistant", kAnswer)}),
       chat({says("system", kRules), says("user", "Remember the style guide."), says("user", kAsk),
             says("assistant", kAnswer)}),
       "diverges=messages[1]; change=added"},
      {"two messages merged",
       chat({says("user", kAsk), says("user", "Thanks."), says("assistant", kAnswer)}),
       chat({says("user", kAsk + "\nThanks."), says("assistant", kAnswer)}),
       "diverges=messages[0]@" + std::to_string(kAsk.size()) + "; looks=text"},
      {"answer edited", turns(says("assistant", "Well 1. " + kAnswer)),
       turns(says("assistant", "Well 2. " + kAnswer)), "diverges=messages[2]@5; looks=counter"},
  };
}

std::vector<Case> cases_of_media() {
  const auto ask = [](const std::string& pictures) {
    return chat({says("system", kRules), shows(pictures)});
  };
  return {
      {"picture encoded again", ask(picture(kOne)), ask(picture(kReencoded)), "diverges=media[0]"},
      {"picture in another size", ask(picture(kOne)), ask(picture(kWider)),
       "diverges=media[0]; change=resized"},
      {"detail changed", ask(picture(kOne, R"(,"detail":"low")")),
       ask(picture(kOne, R"(,"detail":"high")")), "diverges=media[0]; change=options"},
      {"pictures in another order", ask(picture(kOne) + "," + picture(kWider)),
       ask(picture(kWider) + "," + picture(kOne)), "diverges=media[0]; change=reordered"},
      {"picture moved to another message", chat({shows(picture(kOne)), says("user", kAnswer)}),
       chat({says("user", kAsk), shows(picture(kOne), kAnswer)}),
       "diverges=media[0]; change=reordered"},
      {"picture dropped", chat({shows(picture(kOne)), says("assistant", kAnswer)}),
       chat({says("user", kAsk), says("assistant", kAnswer)}), "diverges=media[0]; change=removed"},
      {"address signed again", ask(picture("https://a.example/1.png?sig=abc")),
       ask(picture("https://a.example/1.png?sig=def")), "diverges=media[0]; change=readdressed"},
      {"another address", ask(picture("https://a.example/1.png")),
       ask(picture("https://a.example/2.png")), "diverges=media[0]"},
  };
}

std::vector<Case> cases_without_loss() {
  return {
      {"the same again", system_of(kRules), system_of(kRules), ""},
      {"next turn", chat({says("system", kRules), says("user", kAsk)}),
       turns(says("assistant", kAnswer)), ""},
      {"turn taken back", turns(says("assistant", kAnswer)),
       chat({says("system", kRules), says("user", kAsk)}), ""},
      {"another question", system_of(kRules),
       chat({says("system", kRules), says("user", "How long is the Nile?")}), ""},
      {"another conversation", turns(says("assistant", kAnswer)),
       chat({says("system", kRules), says("user", "How long is the Nile?"),
             says("assistant", "6650 km"), says("user", "And the Amazon?")}),
       ""},
      {"another temperature", system_of(kRules),
       chat({says("system", kRules), says("user", kAsk)}, R"(,"temperature":0.2,"max_tokens":9)"),
       ""},
      {"last message goes on", system_of(kRules),
       chat({says("system", kRules), says("user", kAsk + " Quickly.")}), ""},
      {"time behind everything else",
       chat({says("system", kRules), says("user", kAsk + " It is 03:23:05")}),
       chat({says("system", kRules), says("user", kAsk + " It is 03:24:17")}), ""},
      {"another prompt altogether", system_of(kRules),
       chat({says("user", "Translate to French: the cat sat on the mat.")}), ""},
      {"another tool_choice", tools_of(tool("read")),
       chat({says("system", kRules), says("user", kAsk)},
            R"(,"tools":[)" + tool("read") + R"(],"tool_choice":"required")"),
       ""},
  };
}

void expect_all(const std::vector<Case>& cases) {
  for (const Case& c : cases) EXPECT_EQ(said(parts_at(c.earlier, c.now)), c.said) << c.name;
}

TEST(Divergence, SaysWhereAndHowATextChanged) { expect_all(cases_of_text()); }
TEST(Divergence, SaysWhichFieldOrToolChanged) { expect_all(cases_of_fields()); }
TEST(Divergence, SaysWhatBecameOfAMessage) { expect_all(cases_of_messages()); }
TEST(Divergence, SaysWhatBecameOfAMedium) { expect_all(cases_of_media()); }
TEST(Divergence, SaysNothingWhereNothingIsLost) { expect_all(cases_without_loss()); }

TEST(Divergence, CountsWhatIsSharedToTheWord) {
  const PromptDivergence found = parts_at(system_of(kRules + "Request 17. " + kRules),
                                          system_of(kRules + "Request 18. " + kRules));
  EXPECT_EQ(found.shared_bytes, kRules.size() + 8);
  EXPECT_EQ(found.total_bytes, 2 * kRules.size() + 12 + kAsk.size());
  EXPECT_EQ(found.lost_bytes, kRules.size() + kAsk.size());
}

TEST(Divergence, CountsAllBehindAToolThatMoved) {
  const std::string a = tool("read");
  const std::string b = tool("write");
  const PromptDivergence found = parts_at(tools_of(a + "," + b), tools_of(b + "," + a));
  EXPECT_EQ(found.shared_bytes, 0U);
  EXPECT_EQ(found.lost_bytes, found.total_bytes);
}

TEST(Divergence, CountsTheToolsInFrontOfASystemPromptThatChanged) {
  const auto with = [](const std::string& value) {
    return chat({says("system", "Request " + value + ". " + kRules), says("user", kAsk)},
                R"(,"tools":[)" + tool("read") + "," + tool("write") + "]");
  };
  const PromptDivergence found = parts_at(with("17"), with("18"));
  EXPECT_EQ(found.shared_bytes, found.tools_bytes + 8);
  EXPECT_GT(found.tools_bytes, 200U);
  EXPECT_EQ(
      parts_at(tools_of(tool("read")), tools_of(tool("read") + "," + tool("write"))).tools_bytes,
      0U);
}

TEST(Divergence, APromptOfACompletionMayGoOn) {
  const auto prompt = [](const std::string& text) {
    return R"({"model":"m","prompt":)" + quoted(text) + "}";
  };
  const auto kind = ApiOperation::kCompletion;
  EXPECT_EQ(said(parts_at(prompt(kRules), prompt(kRules + kAsk), kind)), "");
  EXPECT_EQ(said(parts_at(prompt("Run 1. " + kRules), prompt("Run 2. " + kRules), kind)),
            "diverges=prompt@4; looks=counter");
}

TEST(Divergence, BehindTheFirst64KiBOfATextThePlaceIsTheEndOfThese) {
  const std::string text(70'000, 'a');
  const PromptDivergence found =
      parts_at(system_of(text + " 1 " + kRules), system_of(text + " 2 " + kRules));
  EXPECT_EQ(found.part, (PartPlace{.kind = PartKind::kSystem}));
  EXPECT_EQ(found.offset, kPrintedBytes);
  EXPECT_EQ(found.looks, Looks::kText);
}

TEST(Divergence, ItsWordsAndPlacesAreNotTheClients) {
  const std::string evil = "\nX-Evil: 1; diverges=model";
  const PromptDivergence found = parts_at(
      chat({says("system", kRules), says("user", kAsk)}, R"(,"tools":[)" + tool("a") + "]"),
      chat({says("system", evil + kRules), says("user", kAsk)},
           R"(,"tools":[)" + tool("b; x") + "]"));
  EXPECT_EQ(said(found), "diverges=tools[0]");
}

}  // namespace
}  // namespace afterimage
