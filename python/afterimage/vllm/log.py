# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The plug-ins' logger. Below vLLM's own, so that its handlers and level apply."""

import logging

log = logging.getLogger("vllm.afterimage")
