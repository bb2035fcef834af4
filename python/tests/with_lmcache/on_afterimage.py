# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""A pytest plug-in that runs LMCache's own tests, unmodified, on TierConnector.

    pytest -p on_afterimage TESTS...        in LMCache's source distribution, without its package

It replaces the storage below LMCache's adapters: the mock connector, the Redis connector, the file system adapter and
the mock adapter. At the end it prints a table of the files: passed, failed with the reason, not applicable.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from afterimage.lmcache import TierConnector

sys.path[:0] = [str(Path(__file__).resolve().parents[3] / "tests" / "testing"), str(Path(__file__).resolve().parents[1])]
import redis_cluster  # noqa: E402
from external_tests import print_table  # noqa: E402

# Tests that cannot tell anything about a connector, with the reason.
NOT_APPLICABLE = {
    "test_delete_after_close_does_not_raise": "asks the file system adapter to notice a delete() after close(); NativeConnectorL2Adapter waits 30 s",
    "test_restore_of_existing_key_does_not_renotify": "NativeConnectorL2Adapter notifies its listener again, with size 0, for any connector",
}

_model = tempfile.TemporaryDirectory(prefix="afterimage-model-")
for _name in ("config.json", "model.safetensors"):
    Path(_model.name, _name).write_text("{}")
_folders: list[tempfile.TemporaryDirectory[str]] = []
_made = Counter[str]()


class OnDisk(TierConnector):
    def __init__(self) -> None:
        _folders.append(tempfile.TemporaryDirectory(prefix="afterimage-lmcache-"))
        _made["disk"] += 1
        super().__init__(f"{_folders[-1].name}/store", 1 << 28, model=_model.name)


class OnServers(TierConnector):
    def __init__(self, host: str, port: int, workers: int, *_: Any, **__: Any) -> None:
        _made["remote"] += 1
        super().__init__(remote=f"redis://{host}:{port}", threads=workers, remote_timeout=20, model=_model.name)


def pytest_configure(config: pytest.Config) -> None:
    if redis_cluster.installed():
        servers = redis_cluster.Servers()
        servers.__enter__()
        config.add_cleanup(lambda: servers.__exit__(None, None, None))
        host, port = servers.url.removeprefix("redis://").split(",")[0].split(":")
        os.environ["REDIS_HOST"], os.environ["REDIS_PORT"] = host, port
    import lmcache.lmcache_redis
    from lmcache.v1.distributed.l2_adapters import factory
    from lmcache.v1.distributed.l2_adapters.native_connector_l2_adapter import NativeConnectorL2Adapter

    lmcache.lmcache_redis.LMCacheRedisClient = OnServers
    for name in ("fs", "mock"):
        factory.ensure_adapter_loaded(name)
        factory._L2_ADAPTER_FACTORY_REGISTRY[name] = lambda _, __: NativeConnectorL2Adapter(OnDisk())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    from lmcache.v1.distributed.l2_adapters.native_connector_l2_adapter import NativeConnectorL2Adapter

    for module in {item.module for item in items}:  # type: ignore[attr-defined]
        if hasattr(module, "MockNativeConnector"):
            module.MockNativeConnector = OnDisk
            module.RecordingNativeConnector.__bases__ = (OnDisk,)
        if hasattr(module, "FSL2Adapter"):
            module.FSL2Adapter = lambda _: NativeConnectorL2Adapter(OnDisk())
    for item in items:
        reason = NOT_APPLICABLE.get(item.name)
        if reason:
            item.add_marker(pytest.mark.skip(reason=f"not applicable: {reason}"))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    print_table(terminalreporter, "LMCache's tests on Afterimage")
    terminalreporter.line(f"connectors opened: {_made['disk']} on disk, {_made['remote']} on Redis")
