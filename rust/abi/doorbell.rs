// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Doorbells: how the doorbell BAR is divided on GC 9.4.3 and on GC 12.0.
//!
//! Sources: `amdgpu/amdgpu_doorbell.h` (`AMDGPU_DOORBELL_ASSIGNMENT_LAYOUT1`,
//! `AMDGPU_NAVI10_DOORBELL_ASSIGNMENT`), `amdgpu/soc24.c`, `amdkfd/kfd_priv.h`,
//! `amdkfd/kfd_doorbell.c`. The assignments count **qwords** (a doorbell is 64 bits); registers
//! and packets take the **dword** index, which is twice that.

/// Bytes of one doorbell.
pub const SIZE: usize = 8;
/// Dwords of one doorbell: from a qword index to the index that registers and packets use.
pub const DWORDS: u32 = 2;

/// Assignments of GC 9.4.3, in qwords.
pub mod layout1 {
    /// KIQ of XCC 0; the others follow by [`XCC_RANGE`].
    pub const KIQ_START: u32 = 0x000;
    /// HIQ (a name only: KFD takes a doorbell of its own page).
    pub const HIQ: u32 = 0x001;
    /// DIQ (a name only).
    pub const DIQ: u32 = 0x002;
    /// First compute ring of the kernel.
    pub const MEC_RING_START: u32 = 0x008;
    /// Last compute ring of the kernel.
    pub const MEC_RING_END: u32 = 0x00f;
    /// First user queue of amdgpu.
    pub const USERQUEUE_START: u32 = 0x010;
    /// Last user queue of amdgpu.
    pub const USERQUEUE_END: u32 = 0x01f;
    /// From one XCC's assignments to the next one's.
    pub const XCC_RANGE: u32 = 0x020;
    /// First SDMA doorbell.
    pub const SDMA_ENGINE_START: u32 = 0x100;
    /// Last SDMA doorbell.
    pub const SDMA_ENGINE_END: u32 = 0x19f;
    /// From one SDMA engine's doorbells to the next one's (`sdma_doorbell_range` / 2,
    /// `amdgpu/aqua_vanjaram.c`).
    pub const SDMA_ENGINE_STRIDE: u32 = 10;
    /// IH ring 0; ring 1, ring 2 and the retry CAM follow.
    pub const IH: u32 = 0x1a0;
    /// First video doorbell.
    pub const VCN_START: u32 = 0x1b0;
    /// Last video doorbell.
    pub const VCN_END: u32 = 0x1e8;
    /// First doorbell that does not belong to the command processor.
    pub const FIRST_NON_CP: u32 = SDMA_ENGINE_START;
    /// Last doorbell that does not belong to the command processor.
    pub const LAST_NON_CP: u32 = VCN_END;
    /// Highest assignment.
    pub const MAX_ASSIGNMENT: u32 = 0x1e8;
    /// No doorbell.
    pub const INVALID: u32 = 0xffff;
}

/// Assignments of GC 12.0, in qwords.
pub mod navi10 {
    /// KIQ; with MES, its second pipe has [`MES_RING1`] instead.
    pub const KIQ: u32 = 0x000;
    /// HIQ (a name only).
    pub const HIQ: u32 = 0x001;
    /// DIQ (a name only).
    pub const DIQ: u32 = 0x002;
    /// First compute ring of the kernel.
    pub const MEC_RING0: u32 = 0x003;
    /// Last compute ring of the kernel.
    pub const MEC_RING7: u32 = 0x00a;
    /// The scheduler's pipe of MES.
    pub const MES_RING0: u32 = 0x00b;
    /// The other pipe of MES, in the place of a KIQ.
    pub const MES_RING1: u32 = 0x00c;
    /// First user queue of amdgpu.
    pub const USERQUEUE_START: u32 = 0x00d;
    /// Last user queue of amdgpu.
    pub const USERQUEUE_END: u32 = 0x08a;
    /// First graphics ring.
    pub const GFX_RING0: u32 = 0x08b;
    /// Second graphics ring.
    pub const GFX_RING1: u32 = 0x08c;
    /// First graphics user queue of amdgpu.
    pub const GFX_USERQUEUE_START: u32 = 0x08d;
    /// Last graphics user queue of amdgpu.
    pub const GFX_USERQUEUE_END: u32 = 0x0ff;
    /// SDMA engine 0; the others follow by [`SDMA_ENGINE_STRIDE`].
    pub const SDMA_ENGINE0: u32 = 0x100;
    /// SDMA engine 1.
    pub const SDMA_ENGINE1: u32 = 0x10a;
    /// From one SDMA engine's doorbells to the next one's (`sdma_doorbell_range` / 2,
    /// `amdgpu/soc24.c`).
    pub const SDMA_ENGINE_STRIDE: u32 = 10;
    /// IH ring 0; ring 1 follows.
    pub const IH: u32 = 0x178;
    /// First video doorbell.
    pub const VCN0_1: u32 = 0x188;
    /// Last video doorbell.
    pub const VCNE_F: u32 = 0x18f;
    /// The video processing engine.
    pub const VPE: u32 = 0x190;
    /// First doorbell that does not belong to the command processor.
    pub const FIRST_NON_CP: u32 = SDMA_ENGINE0;
    /// Last doorbell that does not belong to the command processor.
    pub const LAST_NON_CP: u32 = VPE;
    /// Highest assignment.
    pub const MAX_ASSIGNMENT: u32 = VPE;
    /// No doorbell.
    pub const INVALID: u32 = 0xffff;
}

/// Doorbells by which queues of one priority that are not on the hardware wake the scheduler
/// (`AMDGPU_MES_PRIORITY_NUM_LEVELS`, `amdgpu/amdgpu_mes.h`): low, normal, medium, high, real time.
pub const AGGREGATED: u32 = 5;

/// Doorbells in a process's slice (`KFD_MAX_NUM_OF_QUEUES_PER_PROCESS`).
pub const PER_PROCESS: usize = 1024;
/// Bytes of a process's slice.
pub const PROCESS_SLICE: usize = PER_PROCESS * SIZE;
/// The bus routes by the low 12 bits of the doorbell's address: qword indices that differ by this
/// have the same destination (`KFD_QUEUE_DOORBELL_MIRROR_OFFSET`).
pub const MIRROR: u32 = 512;

/// Whether the bus of GC 12.0 delivers this doorbell to the command processor, see
/// [`routes_to_cp`].
pub const fn navi10_routes_to_cp(qword: u32) -> bool {
    let local = qword % MIRROR;
    local < navi10::FIRST_NON_CP || local > navi10::LAST_NON_CP
}

/// Whether the bus of GC 9.4.3 delivers this doorbell (qword index from the start of the BAR) to
/// the command processor, and not to SDMA, IH or VCN.
pub const fn routes_to_cp(qword: u32) -> bool {
    let local = qword % MIRROR;
    local < layout1::FIRST_NON_CP || local > layout1::LAST_NON_CP
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_repeats_in_every_page() {
        for page in 0..8 {
            let base = page * MIRROR;
            assert!(routes_to_cp(base));
            assert!(routes_to_cp(base + 0xff));
            assert!(!routes_to_cp(base + 0x100));
            assert!(!routes_to_cp(base + 0x1e8));
            assert!(routes_to_cp(base + 0x1e9));
            assert!(navi10_routes_to_cp(base + navi10::MES_RING1));
            assert!(!navi10_routes_to_cp(base + navi10::SDMA_ENGINE0));
            assert!(!navi10_routes_to_cp(base + 0x190));
            assert!(navi10_routes_to_cp(base + 0x191));
        }
        assert_eq!(PROCESS_SLICE, 8192);
        assert_eq!(MIRROR as usize * SIZE, 4096);
    }
}
