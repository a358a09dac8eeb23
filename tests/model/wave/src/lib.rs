// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A wave64 shader interpreter for gfx942.
