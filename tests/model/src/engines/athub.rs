// SPDX-License-Identifier: GPL-2.0 OR MIT

//! ATHUB: the VMID-to-PASID mapping.

use gpu_regs::athub_1_8_0 as athub;

use crate::gpu::Gpu;
use crate::regs::{Ip, Slot};

const STATUS: u32 = athub::regATC_VMID_PASID_MAPPING_UPDATE_STATUS.off;
const FIRST: u32 = athub::regATC_VMID0_PASID_MAPPING.off;
const VALID: u32 = 1 << 31;

/// Handles a register write.
pub fn reg_write(gpu: &Gpu, slot: &Slot, value: u32) {
    match slot.id.off {
        // Write 1 to clear.
        off if slot.id.seg == 0 && off == STATUS => slot.set(slot.get() & !value),
        off if slot.id.seg == 0 && (FIRST..FIRST + 16).contains(&off) => {
            gpu.store(slot, value);
            finished(gpu, slot.instance, off - FIRST);
        }
        _ => gpu.store(slot, value),
    }
}

fn finished(gpu: &Gpu, aid: u8, vmid: u32) {
    let reg = athub::regATC_VMID_PASID_MAPPING_UPDATE_STATUS;
    if let Some(status) = gpu.regs.of(gpu.chip, Ip::Athub, aid, reg) {
        status.set(status.get() | 1 << vmid);
    }
}

/// Sets the PASID of a VMID, as scheduler firmware does when it assigns the VMID to a process. The
/// first ATHUB serves all XCCs (`kgd_gfx_v9_4_3_set_pasid_vmid_mapping`).
pub fn map_pasid(gpu: &Gpu, vmid: u8, pasid: u16) {
    let reg = athub::regATC_VMID0_PASID_MAPPING.at(u32::from(vmid & 15));
    if let Some(slot) = gpu.regs.of(gpu.chip, Ip::Athub, 0, reg) {
        slot.set(VALID | u32::from(pasid));
    }
}
