// SPDX-License-Identifier: GPL-2.0

//! Forwarding of atomic operations by the data fabric, DF 4.15.

use kernel::prelude::*;
use rkfd_abi::{discovery::hwid, regs::df_4_15 as n};

use crate::{
    asic::mmio::{Mmio, Version},
    hw::df::DfHal,
};

/// DF 4.15.
pub(super) struct Df;

/// Versions with the register (`amdgpu_discovery_set_ip_blocks`).
const VERSIONS: [Version; 2] = [Version::new(4, 15, 0), Version::new(4, 15, 1)];

/// Kinds of atomic operations that the fabric must not execute itself (`df_v4_15_hw_init`).
const KINDS: u32 = 1 << 1 | 1 << 2 | 1 << 13;

impl DfHal for Df {
    fn forward_atomics(&self, mmio: &Mmio) -> Result {
        let df = mmio.blocks(hwid::DF).next();
        let Some(b) = df.filter(|b| VERSIONS.contains(&b.version())) else {
            return Ok(());
        };
        let field = n::NCSConfigurationRegister1__DisIntAtomicsLclProcessing;
        let kinds = field.get(b.rd(n::regNCSConfigurationRegister1)?) | KINDS;
        b.set(n::regNCSConfigurationRegister1, &[(field, kinds)])
    }
}
