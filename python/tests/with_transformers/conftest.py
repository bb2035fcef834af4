# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
import torch

torch.set_num_threads(1)  # the models are small
