// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <map>
#include <memory>
#include <string>

#include "afterimage/identity.h"
#include "afterimage/ids.h"
#include "afterimage/model.h"
#include "afterimage/result.h"
#include "foundation/platform/mutex.h"

namespace afterimage {

/// A tenant's namespace under one model, with the ids that its scopes begin with.
struct TenantSpace {
  Namespace name_space;
  NamespaceId inputs;
  NamespaceId answers;  // answer_space()
};

/// A cache of tenants' namespaces: making one takes several hashes.
/// Threads  Any.
class Spaces {
 public:
  explicit Spaces(const Secret& root) : root_(root) {}
  /// kInvalidArgument: the model is not named.
  [[nodiscard]] Result<std::shared_ptr<const TenantSpace>> of(const ModelIdentity& model,
                                                              const TenantId& tenant);

 private:
  const Secret root_;
  Mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<const TenantSpace>, std::less<>>
      spaces_ AFI_GUARDED_BY(mutex_);
};

}  // namespace afterimage
