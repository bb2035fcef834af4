// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "fire/child.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "afterimage/result.h"

namespace afterimage::fire {

bool ChildEnd::killed() const { return signal == SIGKILL && !late; }

std::string ChildEnd::text() const {
  if (late) return "timed out";
  if (signal != 0) return "ended by signal " + std::to_string(signal);
  return "ended with " + std::to_string(code);
}

Child::Child(const std::function<int()>& body) : pid_(-1) {
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  AFI_CHECK(pid_ >= 0);
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(9);
    const int code = body();
    std::fflush(nullptr);
    ::_exit(code);
  }
}

Child::~Child() {
  if (!reaped_) static_cast<void>(kill());
}

void Child::signal(int number) const {
  if (!reaped_) ::kill(pid_, number);
}

ChildEnd Child::kill() {
  if (!reaped_) ::kill(pid_, SIGKILL);
  return reap(std::chrono::minutes(1));
}

bool Child::ended() {
  static_cast<void>(reap(Duration(0)));
  return reaped_;
}

ChildEnd Child::wait(Duration timeout) {
  ChildEnd end = reap(timeout);
  if (!reaped_) {
    end = kill();
    end.late = true;
  }
  return end;
}

ChildEnd Child::reap(Duration timeout) {
  if (reaped_) return end_;
  const SystemClock clock;
  const Duration until = clock.now() + timeout;
  Duration pause = std::chrono::microseconds(100);
  do {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) == pid_) {
      reaped_ = true;
      end_ = {.code = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
              .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0};
      return end_;
    }
    if (timeout == Duration(0)) return {};
    std::this_thread::sleep_for(pause);
    pause = std::min<Duration>(pause * 2, std::chrono::milliseconds(2));
  } while (clock.now() < until);
  return {};
}

FireFolder::FireFolder(const std::string& within, const std::string& name)
    : path_(within + "/" + name + "-" + std::to_string(::getpid())) {
  empty();
}

FireFolder::~FireFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

void FireFolder::empty() const {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
  std::filesystem::create_directories(path_, error);
}

}  // namespace afterimage::fire
