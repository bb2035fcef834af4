// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/tenant_spaces.h"

#include <string_view>

#include "afterimage/question.h"
#include "gateway/proxy/cache_salt.h"

namespace afterimage {
namespace {

constexpr std::size_t kKept = 4096;

}  // namespace

/// The rest of a model's identity does not change while the process runs.
Result<std::shared_ptr<const TenantSpace>> TenantSpaces::of(const ModelIdentity& model,
                                                            const TenantId& tenant,
                                                            const std::string& tenant_name) {
  const std::array<std::string_view, 3> key{model.model, tenant.text(), tenant_name};
  {
    const MutexLock lock(mutex_);
    if (const auto it = spaces_.find(key); it != spaces_.end()) return it->second;
  }
  AFI_TRY(const Namespace name_space, Namespace::of(model, tenant, root_, tenant_name));
  const PreprocessRecipe none;
  auto space = std::make_shared<const TenantSpace>(
      TenantSpace{.name_space = name_space,
                  .inputs = name_space.prefix_root(none, none, none),
                  .answers = answer_space(name_space)});
  const MutexLock lock(mutex_);
  if (spaces_.size() >= kKept) spaces_.clear();
  spaces_.emplace(Key{model.model, tenant.text(), tenant_name}, space);
  return space;
}

std::string TenantSpaces::cache_salt(const TenantId& tenant) {
  {
    const MutexLock lock(mutex_);
    if (const auto it = salts_.find(tenant.text()); it != salts_.end()) return it->second;
  }
  std::string salt = derived_cache_salt(root_, tenant, "");
  const MutexLock lock(mutex_);
  if (salts_.size() >= kKept) salts_.clear();
  salts_.emplace(tenant.text(), salt);
  return salt;
}

}  // namespace afterimage
