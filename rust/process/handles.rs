// SPDX-License-Identifier: GPL-2.0

//! Handles of buffers in ioctls: the GPU, and the handle among the buffers of the process on it.

/// Returns the handle of buffer `id` of a GPU in ioctls (`MAKE_HANDLE()`).
pub(crate) fn make_handle(gpu_id: u32, id: u32) -> u64 {
    u64::from(gpu_id) << 32 | u64::from(id)
}

/// Returns GPU id and buffer id of a handle (`GET_GPU_ID()`, `GET_IDR_HANDLE()`).
pub(super) fn split_handle(handle: u64) -> (u32, u32) {
    // CAST: The halves of the word.
    ((handle >> 32) as u32, handle as u32)
}
