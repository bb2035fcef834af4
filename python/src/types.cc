// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <array>
#include <cstring>
#include <optional>

#include "bindings.h"
#include "foundation/types/digest_hash.h"

namespace afterimage::python {

namespace {

constexpr std::array kDTypes = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kI8,
                                DType::kU8,  DType::kI16, DType::kI32,  DType::kI64};

nb::dlpack::dtype to_dlpack(DType dtype) {
  using Code = nb::dlpack::dtype_code;
  const auto code = [&] {
    switch (dtype) {
      case DType::kBF16:
        return Code::Bfloat;
      case DType::kF16:
      case DType::kF32:
      case DType::kF64:
        return Code::Float;
      case DType::kU8:
        return Code::UInt;
      case DType::kI8:
      case DType::kI16:
      case DType::kI32:
      case DType::kI64:
        return Code::Int;
    }
    return Code::UInt;
  }();
  return {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(size_of(dtype).value() * 8),
          1};
}

std::optional<DType> from_dlpack(const nb::dlpack::dtype& dtype) {
  for (const DType known : kDTypes) {
    if (to_dlpack(known) == dtype) return known;
  }
  return std::nullopt;
}

std::string class_name(nb::handle object) {
  return nb::cast<std::string>(nb::str(nb::inst_name(object)));
}

std::string shape_text(const nb::ndarray<nb::ro>& array) {
  std::string text = "[";
  for (std::size_t axis = 0; axis < array.ndim(); ++axis) {
    text += (axis == 0 ? "" : ", ") + std::to_string(array.shape(axis));
  }
  return text + "]";
}

bool c_contiguous(const nb::ndarray<nb::ro>& array) {
  std::int64_t expected = 1;
  bool contiguous = true;
  for (std::size_t axis = array.ndim(); axis-- > 0;) {
    if (array.shape(axis) == 0) return true;
    contiguous = contiguous && (array.shape(axis) == 1 || array.stride(axis) == expected);
    expected *= static_cast<std::int64_t>(array.shape(axis));
  }
  return contiguous;
}

/// The likely reason why the import failed.
std::string refusal(nb::handle object) {
  const auto flag = [&](const char* name) {
    return nb::hasattr(object, name) && nb::isinstance<nb::bool_>(object.attr(name)) &&
           nb::cast<bool>(object.attr(name));
  };
  if (flag("requires_grad")) return "a tensor that needs gradients: call .detach()";
  if (flag("is_sparse")) return "a sparse tensor: call .to_dense()";
  return "a " + class_name(object);
}

Result<TensorView> view_of(const nb::ndarray<nb::ro>& array) {
  if (array.device_type() != nb::device::cpu::value) {
    return fail(ErrorCode::kInvalidArgument, "expected a tensor in CPU memory, got one of " +
                                                 shape_text(array) +
                                                 " on another device: call .cpu()");
  }
  const std::optional<DType> dtype = from_dlpack(array.dtype());
  if (!dtype.has_value()) {
    return fail(ErrorCode::kInvalidArgument,
                "expected a tensor of f32, f16, bf16, f64, i8, u8, i16, i32 or i64, got one of " +
                    shape_text(array) + " of another dtype (DLPack code " +
                    std::to_string(array.dtype().code) + ", " + std::to_string(array.dtype().bits) +
                    " bits)");
  }
  if (!c_contiguous(array)) {
    return fail(ErrorCode::kInvalidArgument,
                "expected a C-contiguous tensor, got one of " + shape_text(array) +
                    " with gaps or in another order: call .contiguous() or "
                    "numpy.ascontiguousarray()");
  }
  std::vector<std::uint64_t> extents;
  for (std::size_t axis = 0; axis < array.ndim(); ++axis) extents.push_back(array.shape(axis));
  AFI_TRY(const Shape shape, Shape::of(extents));
  return TensorView::over(*dtype, shape,
                          {static_cast<const std::byte*>(array.data()), array.nbytes()});
}

nb::ndarray<nb::ro, nb::array_api> array_of(nb::handle self) {
  const auto& lent = nb::cast<const LentTensor&>(self);
  std::array<std::size_t, Shape::kMaxRank> shape{};
  for (std::size_t axis = 0; axis < lent.view.shape().rank(); ++axis) {
    shape[axis] = lent.view.shape()[axis];
  }
  return {lent.view.bytes().data(),    lent.view.shape().rank(), shape.data(), self, nullptr,
          to_dlpack(lent.view.dtype())};
}

/// A copy, which the consumer may write to.
nb::ndarray<nb::array_api> copy_of(const LentTensor& lent) {
  const auto bytes = lent.view.bytes();
  auto copy = std::make_unique<std::vector<std::byte>>(bytes.begin(), bytes.end());
  std::array<std::size_t, Shape::kMaxRank> shape{};
  for (std::size_t axis = 0; axis < lent.view.shape().rank(); ++axis) {
    shape[axis] = lent.view.shape()[axis];
  }
  void* const data = copy->data();
  const nb::capsule owner(copy.release(), [](void* memory) noexcept {
    delete static_cast<std::vector<std::byte>*>(memory);
  });
  return {data,    lent.view.shape().rank(),    shape.data(), owner,
          nullptr, to_dlpack(lent.view.dtype())};
}

/// Consumers before DLPack 1.0 do not support read-only memory, so they get a copy.
nb::object dlpack(nb::handle self, nb::handle stream, nb::handle max_version, nb::handle dl_device,
                  nb::handle copy) {
  const bool wants_copy = nb::isinstance<nb::bool_>(copy) && nb::cast<bool>(copy);
  const bool knows_read_only =
      !max_version.is_none() && nb::cast<int>(nb::object(max_version[0])) >= 1;
  const bool may_not_copy = nb::isinstance<nb::bool_>(copy) && !nb::cast<bool>(copy);
  nb::dict arguments;
  arguments["stream"] = stream;
  arguments["max_version"] = max_version;
  arguments["dl_device"] = dl_device;
  if (wants_copy || !knows_read_only) {
    if (may_not_copy) {
      throw nb::buffer_error(
          "cached tensors are read-only, and a consumer without DLPack 1.0 needs a copy, which "
          "copy=False forbids");
    }
    return nb::cast(copy_of(nb::cast<const LentTensor&>(self))).attr("__dlpack__")(**arguments);
  }
  return nb::cast(array_of(self)).attr("__dlpack__")(**arguments);
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) noexcept {
  view->obj = nullptr;
  try {
    return PyObject_GetBuffer(nb::cast(array_of(self)).ptr(), view, flags);
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_BufferError, error.what());
  }
  return -1;
}

PyType_Slot tensor_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};

nb::tuple shape_of(const LentTensor& lent) {
  nb::list extents;
  for (const std::uint64_t extent : lent.view.shape().extents()) extents.append(extent);
  return nb::tuple(extents);
}

/// nanobind reads a buffer's strides, which arrays of ctypes leave out; a memoryview has them.
nb::object with_strides(nb::handle object) {
  const bool has_strides = PyBytes_Check(object.ptr()) || PyMemoryView_Check(object.ptr()) ||
                           PyObject_CheckBuffer(object.ptr()) == 0 ||
                           nb::hasattr(object, "__dlpack__");
  if (has_strides) return nb::borrow(object);
  nb::object view = nb::steal(PyMemoryView_FromObject(object.ptr()));
  if (!view.is_valid()) throw nb::python_error();
  return view;
}

template <typename Tag>
void bind_digest(nb::module_& module, const char* name, const char* doc) {
  using This = Digest<Tag>;
  nb::class_<This>(module, name, doc)
      .def(
          "__init__",
          [](This* self, const nb::bytes& bytes) {
            if (bytes.size() != kDigestBytes) {
              raise(ErrorCode::kInvalidArgument,
                    "expected 32 bytes, got " + std::to_string(bytes.size()));
            }
            new (self) This();
            std::memcpy(self->bytes.data(), bytes.data(), kDigestBytes);
          },
          nb::arg("bytes"), "From its 32 bytes.")
      .def_static(
          "from_hex", [](std::string_view hex) { return or_raise(This::from_hex(hex)); },
          nb::arg("hex"), "From 64 hexadecimal digits.")
      .def("hex", &This::hex, "64 lower-case hexadecimal digits.")
      .def("__bytes__",
           [](const This& self) { return nb::bytes(self.bytes.data(), self.bytes.size()); })
      .def("__repr__",
           [name = std::string(name)](const This& self) { return name + "(" + self.hex() + ")"; })
      .def("__hash__",
           [](const This& self) { return static_cast<Py_ssize_t>(DigestHash{}(self) >> 1U); })
      .def(
          "__eq__",
          [](const This& self, nb::handle other) {
            return nb::isinstance<This>(other) && self == nb::cast<const This&>(other);
          },
          nb::arg("other").none())
      .def("__lt__", [](const This& self, const This& other) { return self < other; });
}

}  // namespace

void raise(const Error& error) {
  const nb::object type = nb::module_::import_("afterimage.errors")
                              .attr("BY_CODE")[nb::str(std::string(to_string(error.code)).c_str())];
  PyErr_SetString(type.ptr(), error.message.c_str());
  throw nb::python_error();
}

void raise(ErrorCode code, std::string message) { raise(Error{code, std::move(message)}); }

BorrowedTensor borrow_tensor(nb::handle object) {
  BorrowedTensor borrowed;
  if (!nb::try_cast(with_strides(object), borrowed.array)) {
    raise(ErrorCode::kInvalidArgument,
          "expected a tensor that offers the buffer protocol or DLPack (numpy.ndarray, "
          "torch.Tensor, bytes, memoryview), got " +
              refusal(object));
  }
  borrowed.view = or_raise(view_of(borrowed.array));
  return borrowed;
}

std::vector<BorrowedTensor> borrow_tensors(nb::handle object) {
  std::vector<BorrowedTensor> tensors;
  if (nb::isinstance<nb::list>(object) || nb::isinstance<nb::tuple>(object)) {
    for (const nb::handle element : nb::borrow<nb::sequence>(object)) {
      tensors.push_back(borrow_tensor(element));
    }
  } else {
    tensors.push_back(borrow_tensor(object));
  }
  return tensors;
}

TensorViews views_of(const std::vector<BorrowedTensor>& tensors) {
  TensorViews views;
  for (const BorrowedTensor& tensor : tensors) views.push_back(tensor.view);
  return views;
}

nb::tuple lend(const std::shared_ptr<const void>& owner, std::span<const TensorView> views) {
  nb::list tensors;
  for (const TensorView& view : views) tensors.append(nb::cast(LentTensor{owner, view}));
  return nb::tuple(tensors);
}

DType dtype_named(std::string_view name) {
  for (const DType dtype : kDTypes) {
    if (to_string(dtype) == name) return dtype;
  }
  raise(ErrorCode::kInvalidArgument,
        "expected a dtype (f32, f16, bf16, f64, i8, u8, i16, i32, "
        "i64), got '" +
            std::string(name) + "'");
}

Modality modality_named(std::string_view name) {
  for (const Modality modality : {Modality::kImage, Modality::kAudio, Modality::kVideo}) {
    if (to_string(modality) == name) return modality;
  }
  raise(ErrorCode::kInvalidArgument,
        "expected a modality (image, audio, video), got '" + std::string(name) + "'");
}

void bind_types(nb::module_& module) {
  nb::class_<LentTensor>(module, "Tensor", nb::type_slots(tensor_slots),
                         "A dense, row-major, read-only tensor in a cache.\n"
                         "\n"
                         "Read it without a copy through the buffer protocol (numpy.asarray) or "
                         "DLPack 1.0\n"
                         "(numpy.from_dlpack). Consumers of older DLPack get a copy. Its entry "
                         "stays pinned while\n"
                         "it is referenced.")
      .def_prop_ro(
          "dtype", [](const LentTensor& self) { return to_string(self.view.dtype()); },
          "Element type: f32, f16, bf16, f64, i8, u8, i16, i32 or i64.")
      .def_prop_ro("shape", shape_of, nb::sig("def shape(self) -> tuple[int, ...]"),
                   "Extents, outermost first.")
      .def_prop_ro(
          "nbytes", [](const LentTensor& self) { return self.view.bytes().size(); },
          "Bytes of all elements.")
      .def("__dlpack__", dlpack, nb::kw_only(), nb::arg("stream") = nb::none(),
           nb::arg("max_version") = nb::none(), nb::arg("dl_device") = nb::none(),
           nb::arg("copy") = nb::none(),
           nb::sig("def __dlpack__(self, *, stream: object | None = None, max_version: tuple[int, "
                   "int] | None = None, dl_device: tuple[int, int] | None = None, copy: bool | "
                   "None = None) -> object"))
      .def(
          "__dlpack_device__", [](const LentTensor&) { return nb::make_tuple(1, 0); },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"))
      .def("__repr__", [](const LentTensor& self) {
        return "Tensor(" + std::string(to_string(self.view.dtype())) + ", " +
               to_string(self.view.shape()) + ")";
      });
  bind_digest<ContentDigestTag>(module, "ContentDigest", "SHA-256 of a media item's raw bytes.");
  bind_digest<DecodedDigestTag>(module, "DecodedDigest",
                                "SHA-256 of decoded pixels, samples or tensors, with dtype and "
                                "shape.");
  bind_digest<EncoderKeyTag>(
      module, "EncoderKey",
      "The key of one encoder output: content, preprocessing, encoder, weights and tenant.");
  bind_digest<NamespaceIdTag>(module, "NamespaceId",
                              "Identifies everything besides the sequence that changes its KV.");
}

}  // namespace afterimage::python
