#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# A compiler launcher: the compiler reads the source and writes no object; precompiled headers it does write.
case " $* " in
  *" c++-header "*) exec "$@" ;;
  *) exec "$@" -fsyntax-only ;;
esac
