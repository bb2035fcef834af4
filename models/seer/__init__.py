# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Seer: a small vision-language model, its pictures, its questions and its files. models/README.md explains it."""
