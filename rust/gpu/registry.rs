// SPDX-License-Identifier: GPL-2.0

//! The list of GPUs that are bound, and the ids by which user space knows them.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::{account, Gpu};
use crate::{asic::config::Config, kapi::global::global_mutex};

global_mutex! {
    LIST: KVec<Arc<Gpu>> = KVec::new();
    init init
}

/// All bound GPUs, in the order of their probing.
pub(crate) fn list() -> KVec<Arc<Gpu>> {
    let list = LIST.lock();
    let mut out = KVec::new();
    for gpu in list.iter() {
        // Without memory for the copy nobody can be served anyway: the caller sees fewer GPUs.
        if out.push(gpu.clone(), GFP_KERNEL).is_err() {
            pr_warn!("no memory to list the GPUs\n");
            break;
        }
    }
    out
}

/// How many GPUs are bound.
pub(crate) fn count() -> usize {
    LIST.lock().len()
}

/// Adds a GPU that can be used from now on.
pub(super) fn add(gpu: &Arc<Gpu>) -> Result {
    let mut list = LIST.lock();
    if list.iter().any(|g| g.id() == gpu.id()) {
        return Err(EEXIST);
    }
    list.push(gpu.clone(), GFP_KERNEL)?;
    account::vram_came(gpu.vram().size());
    Ok(())
}

/// Takes a GPU off the list. It goes away when the last process lets go of it.
pub(super) fn remove(gpu: &Gpu) {
    let mut list = LIST.lock();
    if let Some(i) = list.iter().position(|g| core::ptr::eq(&**g, gpu)) {
        // Only the index found above is taken out.
        let _ = list.remove(i);
        account::vram_went(gpu.vram().size());
    }
}

/// CRC-16 (polynomial 0x8005, reflected), as the kernel's `crc16()`.
fn crc16(mut crc: u16, data: &[u8]) -> u16 {
    for byte in data {
        crc ^= u16::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 != 0 {
                (crc >> 1) ^ 0xa001
            } else {
                crc >> 1
            };
        }
    }
    crc
}

/// The id of a GPU: a hash of what tells it from others, never 0 and not in use yet.
///
/// User space stores it, so that it is computed as the C driver does.
pub(super) fn make_id(config: &Config, first_xcc: u32) -> u32 {
    let pci = &config.pci;
    let subsystem = u32::from(pci.subsystem) << 16 | u32::from(pci.subsystem_vendor);
    let words: [u32; 8] = [
        u32::from(pci.bdf & 0xff),
        subsystem,
        pci.domain,
        u32::from(pci.device),
        u32::from(pci.bdf >> 8),
        config.vram_size as u32,
        (config.vram_size >> 32) as u32,
        first_xcc | config.num_xcc << 16,
    ];
    let mut crc = 0;
    for word in words {
        crc = crc16(crc, &word.to_ne_bytes());
    }
    let list = LIST.lock();
    let mut id = u32::from(crc);
    // There are fewer GPUs than ids: this ends.
    while id == 0 || list.iter().any(|g| g.id() == id) {
        id = (id + 1) & 0xffff;
    }
    id
}
