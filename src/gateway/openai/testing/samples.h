// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/openai/request.h"

namespace afterimage::testing {

/// A stream of `events` that ends with [DONE].
inline std::string sse(std::initializer_list<std::string_view> events) {
  std::string text;
  for (const std::string_view event : events) text.append("data: ").append(event).append("\n\n");
  return text + "data: [DONE]\n\n";
}

/// A response of a server: an event stream or a complete response.
struct AnswerSample {
  std::string name;
  ApiOperation operation;
  std::string text;
};

// Responses as real servers shape them: field order, null fields, absent fields.
inline std::vector<AnswerSample> sample_streams() {
  using enum ApiOperation;
  return {
      {"hosted, with usage and obfuscation", kChat,
       sse({R"({"id":"chatcmpl-B1","object":"chat.completion.chunk","created":1741569952,"model":"gpt-4o-mini","service_tier":"default","system_fingerprint":"fp_06","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"aB1"})",
            R"({"id":"chatcmpl-B1","object":"chat.completion.chunk","created":1741569952,"model":"gpt-4o-mini","service_tier":"default","system_fingerprint":"fp_06","choices":[{"index":0,"delta":{"content":"Two"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"xy"})",
            R"({"id":"chatcmpl-B1","object":"chat.completion.chunk","created":1741569952,"model":"gpt-4o-mini","service_tier":"default","system_fingerprint":"fp_06","choices":[{"index":0,"delta":{"content":" \"cats\" \ud83d\udc31"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"9"})",
            R"({"id":"chatcmpl-B1","object":"chat.completion.chunk","created":1741569952,"model":"gpt-4o-mini","service_tier":"default","system_fingerprint":"fp_06","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null,"obfuscation":"Qr"})",
            R"({"id":"chatcmpl-B1","object":"chat.completion.chunk","created":1741569952,"model":"gpt-4o-mini","service_tier":"default","system_fingerprint":"fp_06","choices":[],"usage":{"prompt_tokens":19,"completion_tokens":3,"total_tokens":22,"prompt_tokens_details":{"cached_tokens":0}},"obfuscation":""})"})},
      {"reasoning first, stop_reason", kChat,
       sse({R"({"id":"chatcmpl-9f","object":"chat.completion.chunk","created":1749000000,"model":"Qwen/Qwen3-VL-8B","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]})",
            R"({"id":"chatcmpl-9f","object":"chat.completion.chunk","created":1749000000,"model":"Qwen/Qwen3-VL-8B","choices":[{"index":0,"delta":{"reasoning_content":"Look"},"logprobs":null,"finish_reason":null}]})",
            R"({"id":"chatcmpl-9f","object":"chat.completion.chunk","created":1749000000,"model":"Qwen/Qwen3-VL-8B","choices":[{"index":0,"delta":{"reasoning_content":" again."},"logprobs":null,"finish_reason":null}]})", R"({"id":"chatcmpl-9f","object":"chat.completion.chunk","created":1749000000,"model":"Qwen/Qwen3-VL-8B","choices":[{"index":0,"delta":{"content":"A dog"},"logprobs":null,"finish_reason":"length","stop_reason":7}]})", R"({"id":"chatcmpl-9f","object":"chat.completion.chunk","created":1749000000,"model":"Qwen/Qwen3-VL-8B","choices":[],"usage":{"prompt_tokens":311,"total_tokens":316,"completion_tokens":5}})"})},
      {"choices before the id, timings", kChat,
       sse({R"({"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"created":1750000001,"id":"chatcmpl-LL","model":"gemma","system_fingerprint":"b5","object":"chat.completion.chunk"})",
            R"({"choices":[{"finish_reason":null,"index":0,"delta":{"content":"Ja"}}],"created":1750000001,"id":"chatcmpl-LL","model":"gemma","system_fingerprint":"b5","object":"chat.completion.chunk"})", R"({"choices":[{"finish_reason":null,"index":0,"delta":{"content":"wohl"}}],"created":1750000002,"id":"chatcmpl-LL","model":"gemma","system_fingerprint":"b5","object":"chat.completion.chunk"})", R"({"choices":[{"finish_reason":"stop","index":0,"delta":{}}],"created":1750000002,"id":"chatcmpl-LL","model":"gemma","system_fingerprint":"b5","object":"chat.completion.chunk"})", R"({"choices":[],"created":1750000002,"id":"chatcmpl-LL","model":"gemma","system_fingerprint":"b5","object":"chat.completion.chunk","usage":{"completion_tokens":2,"prompt_tokens":9,"total_tokens":11},"timings":{"prompt_ms":12.5}})"})},
      {"role in every event, usage with the last", kChat, sse({R"({"id":"chatcmpl-31","object":"chat.completion.chunk","created":1751000000,"model":"llava","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"role":"assistant","content":"It is"},"finish_reason":null}]})", R"({"id":"chatcmpl-31","object":"chat.completion.chunk","created":1751000000,"model":"llava","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"role":"assistant","content":" red."},"finish_reason":null}]})", R"({"id":"chatcmpl-31","object":"chat.completion.chunk","created":1751000000,"model":"llava","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"stop"}],"usage":{"prompt_tokens":600,"completion_tokens":4,"total_tokens":604}})"})},
      {"two tools with interleaved arguments", kChat,
       sse({R"({"id":"c-t","object":"chat.completion.chunk","created":17,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":null},"finish_reason":null}]})",
            R"({"id":"c-t","object":"chat.completion.chunk","created":17,"model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"weather","arguments":""}}]},"finish_reason":null}]})",
            R"({"id":"c-t","object":"chat.completion.chunk","created":17,"model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_b","type":"function","function":{"name":"clock","arguments":"{"}}]},"finish_reason":null}]})",
            R"({"id":"c-t","object":"chat.completion.chunk","created":17,"model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"at\":"}},{"index":1,"function":{"arguments":"}"}}]},"finish_reason":null}]})",
            R"({"id":"c-t","object":"chat.completion.chunk","created":17,"model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"Bonn\"}"}}]},"finish_reason":null}]})",
            R"({"id":"c-t","object":"chat.completion.chunk","created":17,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]})",
            R"({"id":"c-t","object":"chat.completion.chunk","created":17,"model":"m","choices":[],"usage":{"prompt_tokens":50,"completion_tokens":20,"total_tokens":70}})"})},
      {"two interleaved choices with log probabilities", kChat,
       sse({R"({"id":"c-2","object":"chat.completion.chunk","created":18,"model":"m","choices":[{"index":1,"delta":{"role":"assistant","content":"B"},"logprobs":{"content":[{"token":"B","logprob":-0.25,"bytes":[66],"top_logprobs":[]}],"refusal":null},"finish_reason":null}]})",
            R"({"id":"c-2","object":"chat.completion.chunk","created":18,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"A"},"logprobs":{"content":[{"token":"A","logprob":-0.5,"bytes":[65],"top_logprobs":[]}],"refusal":null},"finish_reason":null}]})",
            R"({"id":"c-2","object":"chat.completion.chunk","created":18,"model":"m","choices":[{"index":0,"delta":{"content":"a"},"logprobs":{"content":[{"token":"a","logprob":-1e-3,"bytes":[97],"top_logprobs":[]}],"refusal":null},"finish_reason":null}]})",
            R"({"id":"c-2","object":"chat.completion.chunk","created":18,"model":"m","choices":[{"index":1,"delta":{},"logprobs":null,"finish_reason":"content_filter"}]})",
            R"({"id":"c-2","object":"chat.completion.chunk","created":18,"model":"m","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]})",
            R"({"id":"c-2","object":"chat.completion.chunk","created":18,"model":"m","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":3,"total_tokens":8}})"})},
      {"completion", kCompletion,
       sse({R"({"id":"cmpl-7","object":"text_completion","created":19,"model":"m","choices":[{"index":0,"text":"Once","logprobs":{"text_offset":[0],"token_logprobs":[-0.1],"tokens":["Once"],"top_logprobs":[null]},"finish_reason":null}]})",
            R"({"id":"cmpl-7","object":"text_completion","created":19,"model":"m","choices":[{"index":0,"text":" upon","logprobs":{"text_offset":[4],"token_logprobs":[-0.2],"tokens":[" upon"],"top_logprobs":[null]},"finish_reason":"length"}]})",
            R"({"id":"cmpl-7","object":"text_completion","created":19,"model":"m","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}})"})},
  };
}

inline std::vector<AnswerSample> sample_bodies() {
  using enum ApiOperation;
  return {
      {"hosted", kChat,
       R"({
  "id": "chatcmpl-B9", "object": "chat.completion", "created": 1741569952, "model": "gpt-4o",
  "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello!\nHow?", "refusal": null,
    "annotations": []}, "logprobs": null, "finish_reason": "stop"}],
  "usage": {"prompt_tokens": 19, "completion_tokens": 10, "total_tokens": 29},
  "service_tier": "default", "system_fingerprint": "fp_1"
})"},
      {"tools", kChat,
       R"({"id":"c","object":"chat.completion","created":20,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"call_2","type":"function","function":{"name":"g","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":4,"completion_tokens":9,"total_tokens":13}})"},
      {"reasoning and two choices", kChat,
       R"({"choices":[{"finish_reason":"stop","index":0,"message":{"role":"assistant","reasoning_content":"Hm.","content":"x"},"logprobs":{"content":[{"token":"x","logprob":-0.5,"bytes":null,"top_logprobs":[]}]}},{"finish_reason":"length","index":1,"message":{"role":"assistant","reasoning_content":"Hm?","content":"y"},"logprobs":{"content":[]}}],"created":21,"model":"m","object":"chat.completion","usage":{"completion_tokens":2,"prompt_tokens":3,"total_tokens":5},"id":"chatcmpl-l","timings":{"predicted_n":2}})"},
      {"completion", kCompletion,
       R"({"id":"cmpl-1","object":"text_completion","created":22,"model":"m","choices":[{"index":0,"text":" there","logprobs":null,"finish_reason":"stop","stop_reason":null}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}})"},
      {"embedding", kEmbedding,
       R"({"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.25,-1e-7,3]}],"model":"e5","usage":{"prompt_tokens":8,"total_tokens":8}})"},
      {"embedding with an id", kEmbedding,
       R"({"id":"embd-1","object":"list","created":23,"data":[{"object":"embedding","index":0,"embedding":"AACAPw=="}],"model":"e5","usage":{"prompt_tokens":8,"total_tokens":8,"completion_tokens":0}})"},
  };
}

}  // namespace afterimage::testing
