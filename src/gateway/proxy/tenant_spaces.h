// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "afterimage/identity.h"
#include "afterimage/ids.h"
#include "afterimage/result.h"
#include "foundation/platform/mutex.h"

namespace afterimage {

/// A tenant's namespace under one model, with the ids that its scopes begin with.
struct TenantSpace {
  Namespace name_space;
  NamespaceId inputs;
  NamespaceId answers;  // answer_space()
};

/// A cache of tenants' namespaces, and of their salts: making one takes several hashes.
/// Threads  Any.
class TenantSpaces {
 public:
  explicit TenantSpaces(const Secret& root) : root_(root) {}
  /// `tenant_name` as for Namespace::of(). kInvalidArgument: the model is not named.
  [[nodiscard]] Result<std::shared_ptr<const TenantSpace>> of(const ModelIdentity& model,
                                                              const TenantId& tenant,
                                                              const std::string& tenant_name);
  /// Of prompts whose client sends no `cache_salt`: gateway/proxy/cache_salt.h.
  [[nodiscard]] std::string cache_salt(const TenantId& tenant);

 private:
  const Secret root_;
  Mutex mutex_;
  using Key = std::array<std::string, 3>;  // model, tenant, its name
  struct Before {
    using is_transparent = void;
    bool operator()(const auto& one, const auto& other) const {
      return std::ranges::lexicographical_compare(one, other);
    }
  };
  std::map<Key, std::shared_ptr<const TenantSpace>, Before> spaces_ AFI_GUARDED_BY(mutex_);
  std::map<std::string, std::string, std::less<>> salts_ AFI_GUARDED_BY(mutex_);  // by tenant
};

}  // namespace afterimage
