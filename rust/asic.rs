// SPDX-License-Identifier: GPL-2.0

//! Register access, IP discovery, per-chip numbers, and parsers of firmware files, the VBIOS and
//! FRU data: the layer below the hardware abstraction in [`crate::hw`].

pub(crate) mod bytes;
pub(crate) mod caps;
pub(crate) mod config;
pub(crate) mod discovery;
pub(crate) mod firmware;
pub(crate) mod fru;
pub(crate) mod instance;
pub(crate) mod mmio;
pub(crate) mod partition;
pub(crate) mod vbios;
pub(crate) mod xcc;
