// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Dispatch state: sizes, register allocation, initial values.

use crate::code::CodeCache;
use crate::decode::{code, Limits};
use crate::Stop;

/// Instruction set of the compute units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isa {
    /// CDNA3: wave64.
    #[default]
    Gfx942,
    /// RDNA4: wave32 or wave64.
    Gfx1201,
}

/// Private (scratch) memory of the waves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scratch {
    /// Address of the memory of wave slot 0.
    pub base: u64,
    /// Bytes per wave (64 lanes), a multiple of 1 KiB; 0 for no scratch.
    pub wave_stride: u64,
    /// Number of wave slots; wave n on an XCC uses slot `n % slots`. Must be at least the number of
    /// waves in flight there.
    pub slots: u64,
}

impl Scratch {
    /// Returns the scratch base of wave `wave` on an XCC (initial value of `FLAT_SCRATCH`).
    pub fn wave_base(&self, wave: u64) -> u64 {
        self.slot_base(self.slot(wave))
    }

    /// Returns the slot of wave `wave` on an XCC.
    pub fn slot(&self, wave: u64) -> u64 {
        wave.checked_rem(self.slots).unwrap_or(0)
    }

    /// Returns the scratch base of a slot.
    pub(crate) fn slot_base(&self, slot: u64) -> u64 {
        self.base.wrapping_add(slot.wrapping_mul(self.wave_stride))
    }
}

/// LDS and scratch windows of the flat address space (`SH_MEM_BASES`), 4 GiB each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Apertures {
    /// Start of the LDS window (shared aperture).
    pub shared: u64,
    /// Start of the scratch window (private aperture).
    pub private: u64,
}

impl Default for Apertures {
    fn default() -> Self {
        Apertures {
            shared: 1 << 48,
            private: 2 << 48,
        }
    }
}

/// Trap handler of the process (`SQ_SHADER_TBA`, `SQ_SHADER_TMA`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trap {
    /// Address of the trap handler (TBA).
    pub tba: u64,
    /// Address of its memory (TMA).
    pub tma: u64,
}

/// A wave to restore from its record in a context save area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SavedWave {
    /// Index of the wave in its workgroup.
    pub index: u32,
    /// EXEC at the entry of the restore routine: the address of the record, and bit 58 in the wave
    /// that restores LDS.
    pub record: u64,
    /// Slot of its scratch memory.
    pub scratch_slot: u64,
}

/// Where the waves of a workgroup run, for the hardware id registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaveSlots {
    /// Shader engine.
    pub se: u32,
    /// Shader array of the engine.
    pub sh: u32,
    /// Compute unit of the array; the first of a workgroup processor if both are used.
    pub cu: u32,
    /// SIMDs of its compute units.
    pub simds: u32,
    /// Wave slot of the first wave. The slots of all SIMDs are numbered in turn.
    pub slot: u32,
}

impl WaveSlots {
    /// Returns the SIMD of wave `index`, and its slot there.
    fn simd(&self, index: u32) -> (u32, u32) {
        let slot = self.slot + index;
        let simds = self.simds.max(1);
        (slot % simds, slot / simds)
    }

    /// Returns HW_ID of gfx942. PIPE_ID, QUEUE_ID, ME_ID and VM_ID are 0.
    pub(crate) fn hw_id(&self, index: u32) -> u32 {
        let (simd, slot) = self.simd(index);
        slot & 0xf
            | (simd & 3) << 4
            | (self.cu & 0xf) << 8
            | (self.sh & 1) << 12
            | (self.se & 7) << 13
    }

    /// Returns HW_ID1 of gfx1201. A workgroup processor has SIMD 0 and 1 in its first CU.
    pub(crate) fn hw_id1(&self, index: u32) -> u32 {
        let (simd, slot) = self.simd(index);
        let simd = simd + 2 * (self.cu & 1);
        slot & 0x1f
            | (simd & 3) << 8
            | (self.cu / 2 & 0xf) << 10
            | (self.sh & 1) << 16
            | (self.se & 7) << 18
    }
}

/// A kernel dispatch, as seen by the compute units.
///
/// Caches decoded instructions: create a new one per dispatch, since code may change in between.
#[derive(Debug, Default)]
pub struct Dispatch {
    /// The instruction set.
    pub isa: Isa,
    /// Wave32 (`COMPUTE_DISPATCH_INITIATOR.CS_W32_EN`; never on gfx942).
    pub wave32: bool,
    /// Work-items in x, y, z, of which those before workgroup `first` do not run.
    pub grid: [u32; 3],
    /// First workgroup in x, y, z (`COMPUTE_START_*`).
    pub first: [u32; 3],
    /// Work-items per workgroup in x, y, z.
    pub workgroup: [u16; 3],
    /// Address of the first instruction, 256-byte aligned.
    pub entry: u64,
    /// `COMPUTE_PGM_RSRC1`.
    pub rsrc1: u32,
    /// `COMPUTE_PGM_RSRC2`. LDS_SIZE is ignored: see `lds_bytes`.
    pub rsrc2: u32,
    /// `COMPUTE_PGM_RSRC3`.
    pub rsrc3: u32,
    /// User SGPRs; `rsrc2.USER_SGPR` of them.
    pub user_sgprs: Vec<u32>,
    /// Static and dynamic LDS of a workgroup as allocated, in bytes (a multiple of 512).
    pub lds_bytes: u32,
    /// Scratch memory.
    pub scratch: Scratch,
    /// Apertures of the process.
    pub apertures: Apertures,
    /// Physical XCC id, for `s_getreg_b32 hwreg(HW_REG_XCC_ID)`.
    pub xcc_id: u32,
    /// Number of XCCs to which the workgroups are distributed in turn; 0 is one.
    pub xccs: u64,
    /// Workgroups in succession on an XCC; 0 is one.
    pub chunk: u64,
    /// Trap handler, if installed.
    pub trap: Option<Trap>,
    /// Doorbell id of the queue, returned by MSG_GET_DOORBELL (10 bits).
    pub doorbell_id: u32,
    /// Decoded instructions; initially empty.
    pub code: CodeCache,
    /// Decoded instructions of privileged waves, which can name other registers.
    pub trap_code: CodeCache,
}

impl Dispatch {
    /// Returns the number of workgroups before workgroup `index` on its XCC.
    pub fn index_on_xcc(&self, index: u64) -> u64 {
        let (xccs, chunk) = (self.xccs.max(1), self.chunk.max(1));
        index / (xccs * chunk) * chunk + index % chunk
    }

    /// Returns the index of a workgroup.
    pub(crate) fn linear(&self, workgroup: [u32; 3]) -> u64 {
        let groups = self.workgroups().map(u64::from);
        let [x, y, z] = [0, 1, 2].map(|n| u64::from(workgroup[n] - self.first[n]));
        x + groups[0] * (y + groups[1] * z)
    }

    /// Returns the workgroup with an index.
    pub fn workgroup_at(&self, index: u64) -> [u32; 3] {
        let [x, y, _] = self.workgroups().map(u64::from);
        let from_first = [index % x, index / x % y, index / x / y];
        [0, 1, 2].map(|n| self.first[n] + from_first[n] as u32)
    }

    /// Returns the number on its XCC of wave `wave` of the workgroup with this index, which
    /// [`Scratch`] refers to.
    pub fn wave_number(&self, index: u64, wave: u32) -> u64 {
        self.index_on_xcc(index) * u64::from(self.waves_per_workgroup()) + u64::from(wave)
    }

    /// Returns the number of workgroups in x, y, z.
    pub fn workgroups(&self) -> [u32; 3] {
        let n = |i: usize| match u32::from(self.workgroup[i]) {
            0 => 0,
            size => self.grid[i].div_ceil(size).saturating_sub(self.first[i]),
        };
        [n(0), n(1), n(2)]
    }

    /// Returns the work-items of workgroup `wg` in x, y, z; less than `workgroup` at the upper
    /// edges.
    pub fn workgroup_extent(&self, wg: [u32; 3]) -> Result<[u32; 3], Stop> {
        let mut extent = [0; 3];
        for (i, out) in extent.iter_mut().enumerate() {
            let size = u64::from(self.workgroup[i]);
            let start = u64::from(wg[i]) * size;
            let end = (start + size).min(u64::from(self.grid[i]));
            if start >= end {
                let text = format!("workgroup {wg:?} is outside the grid {:?}", self.grid);
                return Err(Stop::BadDispatch(text));
            }
            *out = (end - start) as u32;
        }
        Ok(extent)
    }

    /// Returns the number of lanes of a wave.
    pub fn lanes(&self) -> u32 {
        if self.wave32 {
            32
        } else {
            64
        }
    }

    /// Returns the number of waves of a full workgroup.
    pub fn waves_per_workgroup(&self) -> u32 {
        let items: u64 = self.workgroup.iter().map(|&n| u64::from(n)).product();
        items.div_ceil(self.lanes().into()) as u32
    }

    /// Returns the VGPRs of a wave, architectural and accumulators.
    pub fn vgprs(&self) -> usize {
        let blocks = (self.rsrc1 as usize & 0x3f) + 1;
        match (self.isa, self.wave32) {
            (Isa::Gfx942, _) => blocks * 8,
            (Isa::Gfx1201, true) => (blocks * 8).min(256),
            (Isa::Gfx1201, false) => (blocks * 4).min(256),
        }
    }

    /// Returns the architectural VGPRs of a wave; the accumulators follow.
    pub fn arch_vgprs(&self) -> usize {
        match self.isa {
            Isa::Gfx942 => (((self.rsrc3 as usize & 0x3f) + 1) * 4).min(self.vgprs()),
            Isa::Gfx1201 => self.vgprs(),
        }
    }

    /// Returns the registers that operands can name.
    pub(crate) fn limits(&self, privileged: bool) -> Limits {
        let arch = self.arch_vgprs();
        let acc = self.vgprs() - arch;
        Limits {
            isa: self.isa,
            wave32: self.wave32,
            arch: arch as u16,
            acc: acc.min(256) as u16,
            sgprs: self.sgprs() as u16,
            alias: self.alias(),
            privileged,
        }
    }

    /// Returns the SGPRs that operands can name, without VCC.
    pub fn sgprs(&self) -> usize {
        match self.isa {
            Isa::Gfx942 => self.allocated_sgprs().min(code::FLAT_SCRATCH.into()),
            Isa::Gfx1201 => 106,
        }
    }

    /// Returns the SGPRs allocated to a wave.
    pub(crate) fn allocated_sgprs(&self) -> usize {
        match self.isa {
            Isa::Gfx942 => ((self.rsrc1 as usize >> 6 & 0xf) / 2 + 1) * 16,
            Isa::Gfx1201 => 128,
        }
    }

    /// Returns the index of FLAT_SCRATCH. It is followed by XNACK_MASK and VCC: on gfx942 these are
    /// the last six of the allocated SGPRs, of the first 108.
    pub(crate) fn alias(&self) -> u8 {
        match self.isa {
            Isa::Gfx942 => self.allocated_sgprs().min(code::TTMP0.into()) as u8 - 6,
            Isa::Gfx1201 => code::FLAT_SCRATCH,
        }
    }

    /// Returns the bytes of a wave in the context save area, without LDS: VGPRs, SGPRs, hardware
    /// registers and trap temporaries, and on gfx942 64 bytes that are not used.
    pub fn record_bytes(&self) -> u64 {
        let unused = match self.isa {
            Isa::Gfx942 => 64,
            Isa::Gfx1201 => 0,
        };
        let vgprs = self.vgprs() as u64 * u64::from(self.lanes()) * 4;
        vgprs + self.allocated_sgprs() as u64 * 4 + 128 + unused
    }
}
