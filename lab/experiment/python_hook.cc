// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/experiment/python_hook.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "foundation/text/data_url.h"
#include "lab/experiment/plugin_hook.h"

namespace afterimage {
namespace {

using Json = nlohmann::json;

/// One line of JSON in, one out; the first line out says that the hook is loaded.
constexpr const char* kRunner = R"(
import base64, importlib, json, sys
sys.path.insert(0, "")
answers, sys.stdout = sys.stdout, sys.stderr
module, name = sys.argv[1].rsplit(":", 1)
hook = getattr(importlib.import_module(module), name)()
print("{}", file=answers, flush=True)
for line in sys.stdin:
    sample = json.loads(line)
    if sample["image"] is not None:
        sample["image"] = base64.b64decode(sample["image"])
    vectors = hook(sample) or {}
    print(json.dumps({layer: [float(x) for x in vector] for layer, vector in vectors.items()}), file=answers, flush=True)
)";

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

/// Python with the hook in it.
class PythonProcess {
 public:
  explicit PythonProcess(std::string hook) : hook_(std::move(hook)) {}
  PythonProcess(const PythonProcess&) = delete;
  PythonProcess& operator=(const PythonProcess&) = delete;
  ~PythonProcess() {
    if (questions_ >= 0) ::close(questions_);  // it ends when there are no more
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  }

  Result<void> start() {
    std::array<int, 2> in{-1, -1};
    std::array<int, 2> out{-1, -1};
    // A socket: writing to one that was closed is an error, and no signal.
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in.data()) != 0) {
      return failed("has no pipe");
    }
    questions_ = in[1];
    if (::pipe2(out.data(), O_CLOEXEC) != 0) {
      ::close(in[0]);
      return failed("has no pipe");
    }
    answers_.reset(::fdopen(out[0], "r"));
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    std::array<std::string, 4> words{"python3", "-c", kRunner, hook_};
    std::array<char*, 5> arguments{words[0].data(), words[1].data(), words[2].data(),
                                   words[3].data(), nullptr};
    const int error =
        ::posix_spawnp(&pid_, "python3", &actions, nullptr, arguments.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(in[0]);
    ::close(out[1]);
    if (error != 0) {
      pid_ = -1;
      return failed("needs python3, which is not on the PATH");
    }
    AFI_TRY(const Json ready, answer());
    return {};
  }

  Result<Json> ask(const Json& question) {
    const std::string line = question.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    for (std::string_view left = line; !left.empty();) {
      const ssize_t sent = ::send(questions_, left.data(), left.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return failed("has ended: Python says above why");
      left.remove_prefix(static_cast<std::size_t>(sent));
    }
    return answer();
  }

 private:
  Result<Json> answer() {
    char* line = nullptr;
    std::size_t size = 0;
    const ssize_t length = ::getline(&line, &size, answers_.get());
    const std::unique_ptr<char, decltype(&std::free)> owner(line, &std::free);
    if (length <= 0) return failed("has ended: Python says above why");
    Json json = Json::parse(line, line + length, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) return failed("gave no vectors");
    return json;
  }
  [[nodiscard]] std::unexpected<Error> failed(const char* why) const {
    return fail(ErrorCode::kUnavailable, fmt::format("the hook \"{}\" {}", hook_, why));
  }

  std::string hook_;
  pid_t pid_ = -1;
  int questions_ = -1;
  File answers_;
};

class PythonVectors final : public LayerVectors {
 public:
  PythonVectors(std::vector<LayerSpec> layers, std::unique_ptr<PythonProcess> process,
                const ImageRoots& images)
      : LayerVectors(std::move(layers)), process_(std::move(process)), images_(images) {}

  Result<std::vector<Vector>> of(const SampleToEmbed& asked) override {
    const Sample& sample = asked.sample;
    Json image = nullptr;
    if (sample.content.has_value()) {
      AFI_TRY(const FileBytes bytes, images_.bytes_of(sample));
      image = encode_base64(*bytes);
    }
    AFI_TRY(const Json made, process_->ask({{"dataset_id", sample.dataset_id},
                                            {"image_id", sample.image_id},
                                            {"question", sample.question},
                                            {"prompt", asked.prompt},
                                            {"image", std::move(image)}}));
    std::vector<Vector> vectors;
    for (const LayerSpec& layer : layers()) {
      Vector& vector = vectors.emplace_back();
      const auto found = made.find(layer.name);
      if (found == made.end()) continue;
      for (const Json& number : *found) {
        vector.push_back(number.is_number() ? number.get<float>() : 0.0F);
      }
      if (vector.size() != layer.dimensions) {
        return fail(ErrorCode::kInvalidArgument,
                    fmt::format("layer \"{}\": the hook made {} dimensions and not {}", layer.name,
                                vector.size(), layer.dimensions));
      }
      if (!to_length_1(vector)) vector.clear();
    }
    return vectors;
  }

 private:
  std::unique_ptr<PythonProcess> process_;
  const ImageRoots& images_;
};

}  // namespace

Result<std::unique_ptr<LayerVectors>> python_vectors(const ExperimentSpec& spec,
                                                     const ImageRoots& images) {
  auto process = std::make_unique<PythonProcess>(spec.hook.python);
  AFI_TRY_VOID(process->start());
  return std::make_unique<PythonVectors>(spec.layers, std::move(process), images);
}

}  // namespace afterimage
