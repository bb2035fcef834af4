// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// CMakeLists.txt compiles this twice: with the header, and without it, which must fail (casters.h).
#ifdef WITH_HEADER
#include <nanobind/stl/string.h>
#endif

#include "casters.h"

void append(nanobind::list& list, const std::string& text) { list.append(text); }
