# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Runs vLLM with Afterimage's plug-ins that work with the model, which are enabled in its configuration.

    python vllm_launch.py Qwen/Qwen2.5-VL-3B-Instruct
"""

import sys

from afterimage.vllm import launch_settings


def main() -> None:
    from vllm import LLM

    llm = LLM(**launch_settings(folder="/var/cache/afterimage", host_bytes=4 << 30, disk_bytes=64 << 30, model=sys.argv[1]))
    question = {"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": "https://picsum.photos/id/237/640/480"}},
        {"type": "text", "text": "What is this?"},
    ]}
    for _ in range(2):  # the second run does not encode the image
        print(llm.chat([question])[0].outputs[0].text)


if __name__ == "__main__":
    main()
