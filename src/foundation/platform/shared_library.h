// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <dlfcn.h>

#include <string>
#include <utility>

#include "afterimage/result.h"

namespace afterimage {

/// A library, such as a driver's, loaded at run time, because most machines do not have it. Closed by the
/// destructor.
///
/// Errors   kUnavailable: it cannot be loaded, or lacks a function.
class SharedLibrary {
 public:
  static Result<SharedLibrary> open(const std::string& name) {
    void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* why = ::dlerror();
      return fail(ErrorCode::kUnavailable, "'" + name + "' cannot be loaded (" +
                                               (why == nullptr ? "" : why) + "): is it installed?");
    }
    return SharedLibrary(handle, name);
  }
  SharedLibrary(SharedLibrary&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), name_(std::move(other.name_)) {}
  SharedLibrary& operator=(SharedLibrary&&) = delete;
  ~SharedLibrary() {
    if (handle_ != nullptr) ::dlclose(handle_);
  }

  template <typename Function>
  Result<void> bind(Function*& function, const char* symbol) const {
    function = reinterpret_cast<Function*>(::dlsym(handle_, symbol));
    if (function != nullptr) return {};
    return fail(ErrorCode::kUnavailable, "'" + name_ + "' has no function " + symbol +
                                             ": it is too old, or another library");
  }

 private:
  SharedLibrary(void* handle, std::string name) : handle_(handle), name_(std::move(name)) {}
  void* handle_;
  std::string name_;
};

}  // namespace afterimage
