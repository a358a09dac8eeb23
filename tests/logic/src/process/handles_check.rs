// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Checks the handles of buffers.

use super::handles::{make_handle, split_handle};

#[test]
fn handles_have_both_ids() {
    for (gpu, id) in [
        (0, 0),
        (1, u32::MAX),
        (u32::MAX, 1),
        (0x8000_0000, 0x7fff_ffff),
    ] {
        assert_eq!(split_handle(make_handle(gpu, id)), (gpu, id));
    }
}
