# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""A control group with a memory limit, a folder that looks like one, or a GPU, and a hog that fills it: for drills."""
import ctypes
import json
import mmap
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

MIB = 1 << 20
CHUNK = 4 * MIB


class CannotRun(Exception):
    """The drill has no result, because it could not run as planned."""


class Group:
    """A control group with a memory limit, of either version."""

    chunk = CHUNK

    def take(self):
        block = mmap.mmap(-1, self.chunk)
        block.write(b"\xa5" * self.chunk)
        return block

    def __init__(self, folder, version):
        self.folder, self.version, self.name = folder, version, f"control group v{version} {folder}"
        self.governor = "auto"
        self.peak = 0

    def read(self, name):
        return (self.folder / name).read_text()

    def write(self, name, value):
        (self.folder / name).write_text(str(value))

    def limit(self, size):
        if self.version == 1:
            self.write("memory.limit_in_bytes", size)
        else:
            self.write("memory.max", size)
            if (self.folder / "memory.swap.max").exists():
                self.write("memory.swap.max", 0)

    def join(self):
        self.write("cgroup.procs", os.getpid())

    def begin_hog(self):
        """In its process."""
        self.join()

    def add(self, pid):
        pass

    def used(self):
        """Usage as the gauge counts it: without memory that the kernel can reclaim at once."""
        usage, label = (("memory.usage_in_bytes", "total_inactive_file") if self.version == 1
                        else ("memory.current", "inactive_file"))
        inactive = int(re.search(rf"^{label} (\d+)", self.read("memory.stat"), re.M).group(1))
        used = int(self.read(usage)) - inactive
        self.peak = max(self.peak, used)
        return used

    def kills(self):
        name = "memory.oom_control" if self.version == 1 else "memory.events"
        found = re.search(r"^oom_kill (\d+)", self.read(name), re.M)
        return int(found.group(1)) if found else 0

    def close(self):
        for _ in range(100):
            try:
                os.rmdir(self.folder)
                return
            except OSError:
                time.sleep(0.05)
        print(f"drill: could not remove {self.folder}", file=sys.stderr)


class SimulatedGroup(Group):
    """A folder that looks like a control group; nothing enforces its limit."""

    def __init__(self, why):
        self.temporary = tempfile.TemporaryDirectory()
        super().__init__(pathlib.Path(self.temporary.name), 2)
        self.name, self.why, self.pids, self.over = "scripted", why, [], 0
        self.governor = self.temporary.name
        self.stopped = threading.Event()
        for name, text in {"memory.high": "max\n", "memory.stat": "inactive_file 0\n",
                           "memory.current": "0\n"}.items():
            self.write(name, text)

    def limit(self, size):
        self.size = size
        self.write("memory.max", size)
        threading.Thread(target=self.play, daemon=True).start()

    def join(self):
        pass

    def add(self, pid):
        self.pids.append(pid)

    def play(self):
        draft = self.folder / "draft"
        page = os.sysconf("SC_PAGE_SIZE")
        while not self.stopped.is_set():
            used = 0
            for pid in self.pids:
                try:
                    _, resident, shared, *_ = pathlib.Path(f"/proc/{pid}/statm").read_text().split()
                    used += (int(resident) - int(shared)) * page
                except OSError:
                    pass  # it has exited
            self.over += used > self.size
            draft.write_text(f"{used}\n")
            draft.rename(self.folder / "memory.current")
            time.sleep(0.002)

    def kills(self):
        return self.over  # a kernel would have killed a process

    def close(self):
        self.stopped.set()
        time.sleep(0.05)
        self.temporary.cleanup()


class GpuMemory:
    """The memory of one NVIDIA GPU. NVML counts it here, and CUDA in the process of the hog."""

    class Info(ctypes.Structure):
        _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]

    chunk = 64 * MIB

    def __init__(self, index):
        self.index, self.cuda, self.peak, self.refused = index, None, 0, 0
        self.name, self.governor = f"memory of GPU {index}", f"nvml:{index}"
        try:
            self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError as error:
            raise CannotRun(f"there is no NVIDIA GPU here: {error}") from error
        self.handle = ctypes.c_void_p()
        if self.nvml.nvmlInit_v2() != 0 or self.nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(self.handle)) != 0:
            raise CannotRun(f"NVML does not know GPU {index}")
        self.size = self.info().total

    def info(self):
        info = self.Info()
        if self.nvml.nvmlDeviceGetMemoryInfo(self.handle, ctypes.byref(info)) != 0:
            raise CannotRun("NVML does not say how much memory is used")
        return info

    def join(self):
        pass

    def begin_hog(self):
        self.cuda, device, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p()
        failed = self.cuda.cuInit(0) or self.cuda.cuDeviceGet(ctypes.byref(device), self.index)
        failed = failed or self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) or self.cuda.cuCtxSetCurrent(context)
        if failed:
            raise CannotRun(f"CUDA cannot use GPU {self.index} (code {failed})")

    def add(self, pid):
        pass

    def take(self):
        memory = ctypes.c_ulonglong()
        if self.cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(self.chunk)) != 0:
            raise MemoryError
        return memory

    def used(self):
        if self.cuda is None:
            self.peak = max(self.peak, self.info().used)
            return self.info().used
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        return self.size - free.value

    def kills(self):
        return self.refused  # allocations of the hog

    def close(self):
        pass


def make_group(size):
    """A group below ours or beside it, where we have been delegated permission."""
    why = []
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        version = 1 if controllers else 2
        mount = pathlib.Path("/sys/fs/cgroup/memory" if version == 1 else "/sys/fs/cgroup")
        ours = mount / path.lstrip("/")
        for base in [ours] if version == 1 else [ours, ours.parent]:
            folder = base / f"afterimage-drill-{os.getpid()}"
            try:
                folder.mkdir()
            except OSError as error:
                why.append(str(error))
                continue
            group = Group(folder, version)
            try:
                group.limit(size)
                subprocess.run(["true"], check=True, preexec_fn=group.join)
                return group
            except (OSError, subprocess.SubprocessError) as error:
                why.append(str(error))
                group.close()
    return SimulatedGroup("; ".join(why) or "no memory controller is mounted")


def hog(group, size, reserve):
    """In a child process: fills the free memory, then pushes into the reserve until it is ended."""
    held, pushed_at = [], None
    while True:
        free = size - group.used()
        if pushed_at is None and free < reserve + group.chunk:
            pushed_at = time.monotonic()
            print(json.dumps({"pushed_at": pushed_at}), flush=True)
        if free > reserve * 3 // 4 + group.chunk:
            try:
                held.append(group.take())
                print(json.dumps({"held": len(held) * group.chunk, "at": time.monotonic()}), flush=True)
            except MemoryError:
                print(json.dumps({"refused": 1}), flush=True)
                time.sleep(0.01)
        if pushed_at is not None:
            time.sleep(0.01)  # 400 MB/s at most: less than the reserve between two samples


def spawn_hog(group, size, reserve):
    """Its process, and a file to read what it said, once it has ended. Not a pipe: nobody reads while it works, and a full one stops it."""
    told = tempfile.TemporaryFile("w+")
    pid = os.fork()
    if pid == 0:
        try:
            sys.stdout = told
            group.begin_hog()
            hog(group, size, reserve)
        except BaseException as error:
            print(json.dumps({"failed": repr(error)}), flush=True)
        finally:
            os._exit(1)
    return pid, told


def words_of(told):
    """What the hog said, in order."""
    told.seek(0)
    words = [json.loads(line) for line in told.read().splitlines()]
    failed = next((word["failed"] for word in words if "failed" in word), None)
    if failed is not None:
        raise CannotRun(f"the hog ended: {failed}")
    return words


def in_group(group, drill):
    """Runs a drill, which gets a folder of its own. Returns the exit code."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            passed = drill(pathlib.Path(folder))
    except (CannotRun, AssertionError) as error:
        print(f"drill: {error}", file=sys.stderr)
        return 2
    finally:
        group.close()
    print("passed" if passed else "FAILED")
    return 0 if passed else 1
