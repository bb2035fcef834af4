// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/shared_files/shared_files.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <tuple>

#include "bindings.h"
#include "storage/shared_files/shared_files_writer.h"

namespace afterimage::python {

namespace {

using Lease = SharedFiles::Lease;

/// A tensor that was read, in memory that Python owns and may write.
struct ReadTensor {
  SharedTensorForm form;
  nb::object data;
};

nb::tuple tuple_of(const std::vector<std::uint64_t>& shape) {
  nb::list extents;
  for (const std::uint64_t extent : shape) extents.append(extent);
  return nb::tuple(extents);
}

/// The file is opened and read without the GIL, which only the allocation takes.
std::optional<ReadTensor> read_tensor(const std::string& path, std::string_view name, bool verify) {
  nb::object memory;
  const auto found = without_gil([&] {
    return read_shared_file(path, name, verify, [&](Bytes size) {
      const nb::gil_scoped_acquire acquired;
      const auto length = static_cast<Py_ssize_t>(size.value());
      memory = nb::steal(PyByteArray_FromStringAndSize(nullptr, length));
      if (!memory.is_valid()) throw nb::python_error();
      auto* bytes = reinterpret_cast<std::byte*>(PyByteArray_AsString(memory.ptr()));
      return std::span(bytes, size.value());
    });
  });
  if (!found.has_value()) return std::nullopt;
  const nb::object view = nb::steal(PyMemoryView_FromObject(memory.ptr()));
  if (!view.is_valid()) throw nb::python_error();
  return ReadTensor{.form = found->form,
                    .data = view[nb::slice(nb::int_(found->data_offset), nb::none(), nb::none())]};
}

SharedTensorForm form_of(std::string dtype, nb::handle shape, double seconds) {
  SharedTensorForm form = {.dtype = std::move(dtype), .shape = {}, .seconds = seconds};
  for (const nb::handle extent : shape) form.shape.push_back(nb::cast<std::uint64_t>(extent));
  return form;
}

class PySharedFiles {
 public:
  PySharedFiles(const std::filesystem::path& folder, std::uint64_t capacity)
      : files_(or_raise(without_gil([&] { return SharedFiles::open(folder, Bytes(capacity)); }))) {}

  bool put(std::string_view name, std::string dtype, nb::handle shape, nb::handle data,
           double seconds) {
    const SharedTensorForm form = form_of(std::move(dtype), shape, seconds);
    const BorrowedTensor borrowed = borrow_tensor(data);
    return or_raise(without_gil([&] { return files_->put(name, form, borrowed.view.bytes()); }));
  }
  std::optional<ReadTensor> read(std::string_view name) {
    return read_tensor(files_->path_of(name), name, true);
  }
  std::optional<Lease> lease(std::string_view name) {
    return without_gil([&] { return files_->lease(name); });
  }
  void release(const Lease& lease) {
    without_gil([&] { SharedFiles::release(lease); });
  }
  bool holds(std::string_view name) {
    return without_gil([&] { return files_->holds(name); });
  }
  void erase(std::string_view name) {
    without_gil([&] { files_->erase(name); });
  }
  std::uint64_t used_bytes() {
    return without_gil([&] { return files_->used_bytes().value(); });
  }
  void close() {
    without_gil([&] { files_->close(); });
  }
  std::filesystem::path process_folder() { return files_->process_folder(); }
  [[nodiscard]] SharedFiles& files() const { return *files_; }

 private:
  std::unique_ptr<SharedFiles> files_;
};

/// Python's objects end in finished() and in the destructor, under the GIL.
class PySharedFilesWriter {
 public:
  PySharedFilesWriter(const PySharedFiles& files, std::size_t threads)
      : writer_(files.files(), threads) {}
  ~PySharedFilesWriter() { close(); }
  PySharedFilesWriter(const PySharedFilesWriter&) = delete;
  PySharedFilesWriter& operator=(const PySharedFilesWriter&) = delete;

  void put(std::string name, std::string dtype, nb::handle shape, nb::handle data, double seconds) {
    const auto borrowed = std::make_shared<BorrowedTensor>(borrow_tensor(data));
    or_raise(writer_.put({.name = std::move(name),
                          .form = form_of(std::move(dtype), shape, seconds),
                          .data = borrowed->view.bytes(),
                          .owner = borrowed}));
  }
  std::vector<std::tuple<std::string, bool, std::string>> finished() {
    std::vector<std::tuple<std::string, bool, std::string>> found;
    for (const auto& [name, result, owner] : writer_.finished()) {
      found.emplace_back(name, result.value_or(false),
                         result.has_value() ? "" : result.error().message);
    }
    return found;
  }
  void wait() {
    without_gil([&] { writer_.wait(); });
  }
  void close() {
    without_gil([&] { writer_.close(); });
  }

 private:
  SharedFilesWriter writer_;
};

}  // namespace

void bind_shared_files(nb::module_& module) {
  nb::class_<Lease>(module, "SharedLease",
                    "Guarantees that the file at path exists and is intact until it is released.")
      .def_ro("name", &Lease::name)
      .def_ro("path", &Lease::path)
      .def_prop_ro("bytes", [](const Lease& lease) { return lease.bytes.value(); })
      .def_ro("seconds", &Lease::seconds)
      .def_prop_ro("shape", [](const Lease& lease) { return tuple_of(lease.shape); })
      .def("__getstate__",
           [](const Lease& lease) {
             return std::tuple(lease.name, lease.path, lease.bytes.value(), lease.seconds,
                               lease.shape);
           })
      .def("__setstate__", [](Lease& lease,
                              const std::tuple<std::string, std::string, std::uint64_t, double,
                                               std::vector<std::uint64_t>>& state) {
        const auto& [name, path, bytes, seconds, shape] = state;
        new (&lease) Lease{
            .name = name, .path = path, .bytes = Bytes(bytes), .seconds = seconds, .shape = shape};
      });

  nb::class_<ReadTensor>(
      module, "SharedTensor",
      "A tensor that was read from a file, and the seconds that computing it took (0: unknown).")
      .def_prop_ro("dtype", [](const ReadTensor& tensor) { return tensor.form.dtype; })
      .def_prop_ro("shape", [](const ReadTensor& tensor) { return tuple_of(tensor.form.shape); })
      .def_prop_ro("seconds", [](const ReadTensor& tensor) { return tensor.form.seconds; })
      .def_prop_ro(
          "data", [](const ReadTensor& tensor) { return tensor.data; },
          nb::sig("def data(self) -> memoryview"), "Its bytes, which the caller may change.");

  module.def("read_shared_tensor", &read_tensor, nb::arg("path"), nb::arg("name"), nb::kw_only(),
             nb::arg("verify") = false,
             "Reads a file of SharedFiles, or returns None if it is damaged or another's. "
             "verify=False: a lease "
             "says that it is intact.");

  nb::class_<PySharedFiles>(module, "SharedFiles", R"(
Tensors in a memory folder (/dev/shm) that the processes of one machine share: one file per tensor, and leases.

A lease is a hard link. Eviction, by any process, removes a file's name; the bytes of a leased file stay until the
lease is released. So a leased tensor can always be loaded. The bytes of files, leased and unfinished ones included,
never exceed the capacity. A damaged file is a miss and is removed; a folder that disappears is made again by the next
put. Any threads and processes may use one folder.

Unavailable: the folder cannot be written.)")
      .def(nb::init<const std::filesystem::path&, std::uint64_t>(), nb::arg("folder"),
           nb::arg("capacity_bytes"))
      .def("put", &PySharedFiles::put, nb::arg("name"), nb::arg("dtype"), nb::arg("shape"),
           nb::arg("data"), nb::arg("seconds") = 0.0,
           nb::sig("def put(self, name: str, dtype: str, shape: Iterable[int], data: TensorLike, "
                   "seconds: float = 0.0) -> bool"),
           "Copies a tensor in, evicting the least recently put, leased or released. False: no "
           "space, or it exists already.")
      .def("read", &PySharedFiles::read, nb::arg("name"),
           "A copy, verified. Its file need not be leased.")
      .def("lease", &PySharedFiles::lease, nb::arg("name"),
           "A lease that guarantees a load, or None. Each file's checksum is verified once.")
      .def("release", &PySharedFiles::release, nb::arg("lease"), "May be called twice.")
      .def("holds", &PySharedFiles::holds, nb::arg("name"))
      .def("erase", &PySharedFiles::erase, nb::arg("name"))
      .def("used_bytes", &PySharedFiles::used_bytes)
      .def("close", &PySharedFiles::close,
           "Releases all leases of this process. May be called twice.")
      .def_prop_ro("process_folder", &PySharedFiles::process_folder,
                   "A folder of this process alone; it is removed when the process has ended.");

  nb::class_<PySharedFilesWriter>(module, "SharedFilesWriter",
                                  "Puts tensors into SharedFiles from threads of its own, which "
                                  "never wait for the interpreter.")
      .def(nb::init<const PySharedFiles&, std::size_t>(), nb::arg("files"), nb::arg("threads"),
           nb::keep_alive<1, 2>())
      .def("put", &PySharedFilesWriter::put, nb::arg("name"), nb::arg("dtype"), nb::arg("shape"),
           nb::arg("data"), nb::arg("seconds") = 0.0,
           nb::sig("def put(self, name: str, dtype: str, shape: Iterable[int], data: TensorLike, "
                   "seconds: float = 0.0) -> None"),
           "Returns at once. The data must not change until it is among finished().")
      .def("finished", &PySharedFilesWriter::finished,
           "What was written since the last call: the name, what SharedFiles.put returned, and why "
           "it failed (empty: it did not).")
      .def("wait", &PySharedFilesWriter::wait, "Until everything that was put by now is written.")
      .def("close", &PySharedFilesWriter::close, "Writes what was put. May be called twice.");
}

}  // namespace afterimage::python
