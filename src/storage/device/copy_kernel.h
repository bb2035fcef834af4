// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>

namespace afterimage {

inline constexpr unsigned kCopyThreads = 1024;         // of one block of the kernel
inline constexpr std::size_t kCopySize = 64UL << 10U;  // most bytes of a copy

/// Block n of the grid does copy n of a table of DeviceCopy in host memory. Two loads of 16 bytes are in flight in
/// each thread, past the first-level cache. Addresses are multiples of 16; sizes are any. PTX, so that the
/// driver compiles it for the GPU that is there.
inline constexpr const char* kCopyKernel = R"ptx(
.version 7.4
.target sm_70
.address_size 64

.visible .entry afterimage_copy(.param .u64 table)
.maxntid 1024, 1, 1
{
  .reg .pred %p<4>;
  .reg .b16 %h<2>;
  .reg .b32 %r<10>;
  .reg .b64 %d<16>;

  ld.param.u64 %d0, [table];
  cvta.to.global.u64 %d0, %d0;
  mov.u32 %r0, %ctaid.x;
  mul.wide.u32 %d1, %r0, 24;
  add.u64 %d1, %d0, %d1;
  ld.global.u64 %d2, [%d1];
  ld.global.u64 %d3, [%d1+8];
  ld.global.u64 %d4, [%d1+16];
  cvta.to.global.u64 %d2, %d2;
  cvta.to.global.u64 %d3, %d3;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %d5, %r1, 16;

TWO:
  add.u64 %d6, %d5, 16400;
  setp.gt.u64 %p0, %d6, %d4;
  @%p0 bra ONE;
  add.u64 %d7, %d2, %d5;
  add.u64 %d8, %d3, %d5;
  ld.global.L1::no_allocate.v4.u32 {%r2, %r3, %r4, %r5}, [%d7];
  ld.global.L1::no_allocate.v4.u32 {%r6, %r7, %r8, %r9}, [%d7+16384];
  st.global.L1::no_allocate.v4.u32 [%d8], {%r2, %r3, %r4, %r5};
  st.global.L1::no_allocate.v4.u32 [%d8+16384], {%r6, %r7, %r8, %r9};
  add.u64 %d5, %d5, 32768;
  bra TWO;

ONE:
  add.u64 %d6, %d5, 16;
  setp.gt.u64 %p1, %d6, %d4;
  @%p1 bra REST;
  add.u64 %d7, %d2, %d5;
  add.u64 %d8, %d3, %d5;
  ld.global.L1::no_allocate.v4.u32 {%r2, %r3, %r4, %r5}, [%d7];
  st.global.L1::no_allocate.v4.u32 [%d8], {%r2, %r3, %r4, %r5};
  add.u64 %d5, %d5, 16384;
  bra ONE;

REST:
  and.b64 %d9, %d4, 15;
  cvt.u64.u32 %d10, %r1;
  setp.ge.u64 %p2, %d10, %d9;
  @%p2 bra DONE;
  sub.u64 %d11, %d4, %d9;
  add.u64 %d11, %d11, %d10;
  add.u64 %d7, %d2, %d11;
  add.u64 %d8, %d3, %d11;
  ld.global.u8 %h0, [%d7];
  st.global.u8 [%d8], %h0;

DONE:
  ret;
}
)ptx";

}  // namespace afterimage
