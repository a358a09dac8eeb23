// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Doorbells: assignment of the doorbell BAR on GC 9.4.3 and GC 12.0.
//!
//! Sources: `amdgpu/amdgpu_doorbell.h` (`AMDGPU_DOORBELL_ASSIGNMENT_LAYOUT1`,
//! `AMDGPU_NAVI10_DOORBELL_ASSIGNMENT`), `amdgpu/soc24.c`, `amdkfd/kfd_priv.h`,
//! `amdkfd/kfd_doorbell.c`. The assignments are **qword** indices (a doorbell is 64 bits);
//! registers and packets take **dword** indices, twice that.

/// Size of a doorbell, in bytes.
pub const SIZE: usize = 8;
/// Dwords per doorbell: converts a qword index to the dword index of registers and packets.
pub const DWORDS: u32 = 2;

/// Assignments of GC 9.4.3, qword indices (`AMDGPU_DOORBELL_ASSIGNMENT_LAYOUT1`).
pub mod layout1 {
    /// KIQ of XCC 0; that of XCC n is n * [`XCC_RANGE`] higher.
    pub const KIQ_START: u32 = 0x000;
    /// HIQ (unused: KFD allocates the HIQ doorbell from its own page).
    pub const HIQ: u32 = 0x001;
    /// DIQ (unused).
    pub const DIQ: u32 = 0x002;
    /// First kernel compute ring.
    pub const MEC_RING_START: u32 = 0x008;
    /// Last kernel compute ring.
    pub const MEC_RING_END: u32 = 0x00f;
    /// First amdgpu user queue.
    pub const USERQUEUE_START: u32 = 0x010;
    /// Last amdgpu user queue.
    pub const USERQUEUE_END: u32 = 0x01f;
    /// Distance between the assignments of two XCCs.
    pub const XCC_RANGE: u32 = 0x020;
    /// First SDMA doorbell.
    pub const SDMA_ENGINE_START: u32 = 0x100;
    /// Last SDMA doorbell.
    pub const SDMA_ENGINE_END: u32 = 0x19f;
    /// Distance between the doorbells of two SDMA engines (`sdma_doorbell_range` / 2,
    /// `amdgpu/aqua_vanjaram.c`).
    pub const SDMA_ENGINE_STRIDE: u32 = 10;
    /// IH ring 0; IH ring 1, IH ring 2 and the retry CAM follow.
    pub const IH: u32 = 0x1a0;
    /// First VCN doorbell.
    pub const VCN_START: u32 = 0x1b0;
    /// Last VCN doorbell.
    pub const VCN_END: u32 = 0x1e8;
    /// First doorbell outside the CP's range.
    pub const FIRST_NON_CP: u32 = SDMA_ENGINE_START;
    /// Last doorbell outside the CP's range.
    pub const LAST_NON_CP: u32 = VCN_END;
    /// Highest assignment.
    pub const MAX_ASSIGNMENT: u32 = 0x1e8;
    /// Invalid doorbell.
    pub const INVALID: u32 = 0xffff;
}

/// Assignments of GC 12.0, qword indices (`AMDGPU_NAVI10_DOORBELL_ASSIGNMENT`).
pub mod navi10 {
    /// KIQ; with MES the KIQ pipe uses [`MES_RING1`] instead.
    pub const KIQ: u32 = 0x000;
    /// HIQ (unused).
    pub const HIQ: u32 = 0x001;
    /// DIQ (unused).
    pub const DIQ: u32 = 0x002;
    /// First kernel compute ring.
    pub const MEC_RING0: u32 = 0x003;
    /// Last kernel compute ring.
    pub const MEC_RING7: u32 = 0x00a;
    /// MES scheduler pipe.
    pub const MES_RING0: u32 = 0x00b;
    /// MES KIQ pipe.
    pub const MES_RING1: u32 = 0x00c;
    /// First amdgpu user queue.
    pub const USERQUEUE_START: u32 = 0x00d;
    /// Last amdgpu user queue.
    pub const USERQUEUE_END: u32 = 0x08a;
    /// First graphics ring.
    pub const GFX_RING0: u32 = 0x08b;
    /// Second graphics ring.
    pub const GFX_RING1: u32 = 0x08c;
    /// First amdgpu graphics user queue.
    pub const GFX_USERQUEUE_START: u32 = 0x08d;
    /// Last amdgpu graphics user queue.
    pub const GFX_USERQUEUE_END: u32 = 0x0ff;
    /// SDMA engine 0; that of engine n is n * [`SDMA_ENGINE_STRIDE`] higher.
    pub const SDMA_ENGINE0: u32 = 0x100;
    /// SDMA engine 1.
    pub const SDMA_ENGINE1: u32 = 0x10a;
    /// Distance between the doorbells of two SDMA engines (`sdma_doorbell_range` / 2,
    /// `amdgpu/soc24.c`).
    pub const SDMA_ENGINE_STRIDE: u32 = 10;
    /// IH ring 0; IH ring 1 follows.
    pub const IH: u32 = 0x178;
    /// First VCN doorbell.
    pub const VCN0_1: u32 = 0x188;
    /// Last VCN doorbell.
    pub const VCNE_F: u32 = 0x18f;
    /// VPE (video processing engine).
    pub const VPE: u32 = 0x190;
    /// First doorbell outside the CP's range.
    pub const FIRST_NON_CP: u32 = SDMA_ENGINE0;
    /// Last doorbell outside the CP's range.
    pub const LAST_NON_CP: u32 = VPE;
    /// Highest assignment.
    pub const MAX_ASSIGNMENT: u32 = VPE;
    /// Invalid doorbell.
    pub const INVALID: u32 = 0xffff;
}

/// Number of aggregated doorbells, one per MES priority level (low, normal, medium, high, real
/// time). MES maps the queues of a level when its doorbell is rung for an unmapped queue
/// (`AMDGPU_MES_PRIORITY_NUM_LEVELS`, `amdgpu/amdgpu_mes.h`).
pub const AGGREGATED: u32 = 5;

/// Doorbells per process (`KFD_MAX_NUM_OF_QUEUES_PER_PROCESS`).
pub const PER_PROCESS: usize = 1024;
/// Bytes of a process's doorbell slice.
pub const PROCESS_SLICE: usize = PER_PROCESS * SIZE;
/// Routing uses the low 12 bits of the doorbell address: qword indices that differ by this value
/// have the same destination (`KFD_QUEUE_DOORBELL_MIRROR_OFFSET`).
pub const MIRROR: u32 = 512;

/// Returns whether the doorbell routing of GC 12.0 delivers this doorbell to the CP; see
/// [`routes_to_cp`].
pub const fn navi10_routes_to_cp(qword: u32) -> bool {
    let local = qword % MIRROR;
    local < navi10::FIRST_NON_CP || local > navi10::LAST_NON_CP
}

/// Returns whether the doorbell routing of GC 9.4.3 delivers this doorbell (qword index from the
/// start of the BAR) to the CP and not to SDMA, IH or VCN.
pub const fn routes_to_cp(qword: u32) -> bool {
    let local = qword % MIRROR;
    local < layout1::FIRST_NON_CP || local > layout1::LAST_NON_CP
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routing_repeats_every_page() {
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
