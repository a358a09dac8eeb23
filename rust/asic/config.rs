// SPDX-License-Identifier: GPL-2.0

//! GPU configuration from IP discovery, harvesting and PCI, read once at probe. Used by the
//! topology and the checks of queue buffers.

use kernel::{page::PAGE_SIZE, prelude::*, sync::SetOnce};

use super::{caps::Caps, instance::Version, xcc::Xcc};

/// PCI address and ids.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PciInfo {
    /// PCI domain.
    pub(crate) domain: u32,
    /// Bus, device and function as one number.
    pub(crate) bdf: u16,
    /// Vendor id.
    pub(crate) vendor: u16,
    /// Device id.
    pub(crate) device: u16,
    /// Subsystem vendor id.
    pub(crate) subsystem_vendor: u16,
    /// Subsystem id.
    pub(crate) subsystem: u16,
    /// Revision id.
    pub(crate) revision: u8,
}

/// Cache sizes in KiB, 0 when unknown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Caches {
    /// Vector L1 of a CU.
    pub(crate) tcp_kib: u32,
    /// Instruction cache of a group of CUs.
    pub(crate) sqc_inst_kib: u32,
    /// Scalar data cache of a group of CUs.
    pub(crate) sqc_data_kib: u32,
    /// L1 of a shader array.
    pub(crate) gl1_kib: u32,
    /// CUs that share the scalar caches.
    pub(crate) cu_per_sqc: u32,
    /// Groups of scalar caches of a WGP, 0 if CUs do not form WGPs.
    pub(crate) sqc_per_wgp: u32,
    /// L2 of an XCC.
    pub(crate) tcc_kib: u32,
    /// Channels of that L2.
    pub(crate) tcc_channels: u32,
    /// Bytes of an L1 line.
    pub(crate) tcp_line: u32,
    /// Bytes of an L2 line.
    pub(crate) tcc_line: u32,
    /// Bytes of an instruction cache line.
    pub(crate) sqc_inst_line: u32,
    /// Bytes of a scalar data cache line.
    pub(crate) sqc_data_line: u32,
    /// Memory attached last level cache.
    pub(crate) mall_kib: u32,
}

/// Entry points of engines that the driver starts, in bytes; 0 for those that have none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EntryPoints {
    /// MEC.
    pub(crate) mec: u64,
    /// Both pipes of MES.
    pub(crate) mes: u64,
}

/// Configuration read from registers of the graphics core, which may have no power before its
/// firmware is loaded.
#[derive(Debug, Default)]
pub(crate) struct Core {
    /// Active CUs of the card.
    pub(crate) cu_total: u32,
    /// Masks of active CUs per shader array: by XCC, shader engine, array.
    pub(crate) cu_bitmap: KVec<u32>,
    /// GB_ADDR_CONFIG.
    pub(crate) gb_addr_config: u32,
}

/// Returned by [`Config::core`] before the bring-up.
static NO_CORE: Core = Core {
    cu_total: 0,
    cu_bitmap: KVec::new(),
    gb_addr_config: 0,
};

/// GPU configuration.
#[derive(Default)]
pub(crate) struct Config {
    /// PCI identity.
    pub(crate) pci: PciInfo,
    /// GC version.
    pub(crate) gc: Version,
    /// Version of the DMA engines.
    pub(crate) sdma: Version,
    /// Revision of the silicon.
    pub(crate) rev_id: u32,
    /// Form of the board: `cem`, `oam` or `unknown`.
    pub(crate) board: &'static str,
    /// Vendor of the VRAM, 0 if it is unknown.
    pub(crate) vram_vendor: u32,
    /// `gfx_target_version` of the topology.
    pub(crate) gfx_target_version: u32,
    /// Shader engines of an XCC.
    pub(crate) num_se: u32,
    /// Shader arrays of a shader engine.
    pub(crate) sh_per_se: u32,
    /// CUs of a shader array before harvesting.
    pub(crate) cu_per_sh: u32,
    /// See [`Config::core`].
    pub(super) core: SetOnce<Core>,
    /// SIMDs of a CU.
    pub(crate) simd_per_cu: u32,
    /// Lanes of a wave.
    pub(crate) wave_size: u32,
    /// Waves that a SIMD can hold.
    pub(crate) waves_per_simd: u32,
    /// Scratch slots of a CU.
    pub(crate) scratch_slots_per_cu: u32,
    /// Bytes of LDS of a CU.
    pub(crate) lds_bytes: u32,
    /// Vector registers that a wave may have.
    pub(crate) vgprs: u32,
    /// Cache sizes.
    pub(crate) caches: Caches,
    /// SDMA engines of the card, all kinds.
    pub(crate) num_sdma: u32,
    /// Video engines (VCN) of the card.
    pub(crate) num_vcn: u32,
    /// User queues of an SDMA engine.
    pub(crate) sdma_queues_per_engine: u32,
    /// Compute queue slots of the firmware scheduler.
    pub(crate) num_cp_queues: u32,
    /// Global wave sync entries.
    pub(crate) num_gws: u32,
    /// Bytes of VRAM.
    pub(crate) vram_size: u64,
    /// Bytes of VRAM that the CPU reaches through the BAR.
    pub(crate) vram_visible: u64,
    /// The GPU may send 32- and 64-bit AtomicOp requests to system memory.
    pub(crate) pci_atomics: bool,
    /// Blocks that have RAS, a bit each.
    pub(crate) ras_blocks: u32,
    /// Version of the MEC firmware.
    pub(crate) mec_fw: u32,
    /// Version of the SDMA firmware.
    pub(crate) sdma_fw: u32,
    /// Entry points of firmware.
    pub(crate) entries: EntryPoints,
}

/// CWSR sizes of a queue, for one XCC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CwsrSizes {
    /// Bytes of the control stack.
    pub(crate) ctl_stack: u32,
    /// Bytes of control stack and wave state.
    pub(crate) total: u32,
    /// Bytes of the debugger area after it.
    pub(crate) debug: u32,
}

const fn align_up(value: u64, to: u64) -> u64 {
    value.div_ceil(to) * to
}

impl Config {
    /// Returns the configuration of the graphics core; zeroes until the card is brought up.
    pub(crate) fn core(&self) -> &Core {
        self.core.as_ref().unwrap_or(&NO_CORE)
    }

    /// Sets [`Config::core`] if it is not set yet to the result of `read`.
    pub(crate) fn set_core(&self, read: impl FnOnce() -> Result<Core>) -> Result {
        if self.core.as_ref().is_none() {
            self.core.populate(read()?);
        }
        Ok(())
    }

    /// Returns whether all shader engines of an XCC have the same number of active CUs.
    pub(crate) fn is_symmetric(&self, xcc: Xcc) -> bool {
        let arrays = self.sh_per_se.max(1) as usize;
        let mut engines = (self.core().cu_bitmap.chunks(arrays))
            .skip(usize::from(xcc.logical) * self.num_se as usize)
            .take(self.num_se as usize)
            .map(|engine| engine.iter().map(|cus| cus.count_ones()).sum::<u32>());
        let first = engines.next();
        first.is_some() && engines.all(|cus| Some(cus) == first)
    }

    /// Returns the CWSR sizes of a queue on each of `xccs` XCCs (C:
    /// `kfd_queue_ctx_save_restore_size`, `kfd_queue.c`; ROCr computes the same). `EINVAL` when a
    /// size exceeds 32 bits.
    pub(crate) fn cwsr(&self, caps: &Caps, xccs: u32) -> Result<CwsrSizes> {
        /// Bytes of `struct kfd_context_save_area_header`.
        const HEADER: u64 = 40;
        /// Debugger bytes of a wave (`DEBUGGER_BYTES_PER_WAVE`, `kfd_queue.c`).
        const DEBUGGER_BYTES_PER_WAVE: u64 = 32;
        const DEBUGGER_ALIGN: u64 = 64;

        let page = PAGE_SIZE as u64;
        let cu = u64::from(self.core().cu_total / xccs.max(1));
        let ses = u64::from(self.num_se);
        let mut waves = cu * u64::from(caps.waves_per_cu);
        if let Some(most) = caps.waves_per_se {
            waves = waves.min(ses * u64::from(most));
        }
        let per_cu = u64::from(caps.cwsr_vgpr_per_cu)
            + u64::from(caps.cwsr_sgpr_per_cu)
            + u64::from(caps.cwsr_hwreg_per_cu)
            + u64::from(self.lds_bytes);
        let wave_state = align_up(cu * per_cu, page);
        let ctl_stack = align_up(
            HEADER + waves * u64::from(caps.cwsr_stack_per_wave) + 8,
            page,
        );
        Ok(CwsrSizes {
            ctl_stack: ctl_stack.try_into()?,
            total: (ctl_stack + wave_state).try_into()?,
            debug: align_up(waves * DEBUGGER_BYTES_PER_WAVE, DEBUGGER_ALIGN).try_into()?,
        })
    }
}
