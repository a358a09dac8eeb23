// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What a dispatch is to the compute units: sizes, register allocation, start values.

use crate::code::CodeCache;
use crate::decode::Limits;
use crate::Stop;

/// The instruction set of the compute units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isa {
    /// CDNA3: wave64.
    #[default]
    Gfx942,
    /// RDNA4: wave32 or wave64.
    Gfx1201,
}

/// Where the private (scratch) memory of the waves lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scratch {
    /// First byte of the memory of the first wave.
    pub base: u64,
    /// Bytes of one wave: 64 lanes, a multiple of 1 KiB. 0: there is no scratch.
    pub wave_stride: u64,
    /// How many waves it serves at once; the wave with running number n uses slot `n % slots`.
    /// Set it to the number of waves that the dispatcher runs at the same time, or to all of them.
    pub slots: u64,
}

impl Scratch {
    /// Scratch base of the wave with running number `wave` (what hardware puts in `FLAT_SCRATCH`).
    pub fn wave_base(&self, wave: u64) -> u64 {
        let slot = wave.checked_rem(self.slots).unwrap_or(0);
        self.base.wrapping_add(slot.wrapping_mul(self.wave_stride))
    }
}

/// The two windows of the flat address space that are not memory (`SH_MEM_BASES`). A window is
/// 4 GiB long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Apertures {
    /// Start of the LDS window.
    pub shared: u64,
    /// Start of the scratch window.
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

/// Where waves go when they trap (`SQ_SHADER_TBA` and `SQ_SHADER_TMA` of the process).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trap {
    /// Address of the trap handler.
    pub tba: u64,
    /// Address of its memory.
    pub tma: u64,
}

/// One kernel dispatch, as the compute units see it.
///
/// It also keeps the instructions decoded so far: make a new one for each dispatch, since the code
/// at an address may have changed.
#[derive(Debug, Default)]
pub struct Dispatch {
    /// The instruction set.
    pub isa: Isa,
    /// Do its waves have 32 lanes? (`COMPUTE_DISPATCH_INITIATOR.CS_W32_EN`; never on gfx942.)
    pub wave32: bool,
    /// Work-items in x, y, z.
    pub grid: [u32; 3],
    /// Work-items of a workgroup in x, y, z.
    pub workgroup: [u16; 3],
    /// Address of the first instruction, 256-byte aligned.
    pub entry: u64,
    /// `COMPUTE_PGM_RSRC1`.
    pub rsrc1: u32,
    /// `COMPUTE_PGM_RSRC2`. Its LDS_SIZE is not used: see `lds_bytes`.
    pub rsrc2: u32,
    /// `COMPUTE_PGM_RSRC3`.
    pub rsrc3: u32,
    /// The user SGPRs; as many as `rsrc2.USER_SGPR` says.
    pub user_sgprs: Vec<u32>,
    /// LDS of a workgroup, static and dynamic, as allocated (multiple of 512).
    pub lds_bytes: u32,
    /// Scratch memory.
    pub scratch: Scratch,
    /// Flat apertures.
    pub apertures: Apertures,
    /// Logical XCC id, for `s_getreg_b32 hwreg(HW_REG_XCC_ID)`.
    pub xcc_id: u32,
    /// The trap handler, if there is one.
    pub trap: Option<Trap>,
    /// The queue's doorbell, which a trap handler asks for (10 bits).
    pub doorbell_id: u32,
    /// Instructions decoded so far: empty at the start.
    pub code: CodeCache,
    /// The same of privileged waves, who may name other registers.
    pub trap_code: CodeCache,
}

impl Dispatch {
    /// Number of workgroups in x, y, z.
    pub fn workgroups(&self) -> [u32; 3] {
        let n = |i: usize| match u32::from(self.workgroup[i]) {
            0 => 0,
            size => self.grid[i].div_ceil(size),
        };
        [n(0), n(1), n(2)]
    }

    /// Work-items of the workgroup `wg` in x, y, z: fewer than `workgroup` at the upper edges.
    pub fn workgroup_extent(&self, wg: [u32; 3]) -> Result<[u32; 3], Stop> {
        let mut extent = [0; 3];
        for (i, out) in extent.iter_mut().enumerate() {
            let size = u64::from(self.workgroup[i]);
            let start = u64::from(wg[i]) * size;
            let end = (start + size).min(u64::from(self.grid[i]));
            if start >= end {
                let text = format!("workgroup {wg:?} is outside of the grid {:?}", self.grid);
                return Err(Stop::BadDispatch(text));
            }
            *out = (end - start) as u32;
        }
        Ok(extent)
    }

    /// Lanes of a wave.
    pub fn lanes(&self) -> u32 {
        if self.wave32 {
            32
        } else {
            64
        }
    }

    /// Waves of a whole workgroup.
    pub fn waves_per_workgroup(&self) -> u32 {
        let items: u64 = self.workgroup.iter().map(|&n| u64::from(n)).product();
        items.div_ceil(self.lanes().into()) as u32
    }

    /// VGPRs of a wave, architectural and accumulators.
    pub fn vgprs(&self) -> usize {
        let blocks = (self.rsrc1 as usize & 0x3f) + 1;
        match (self.isa, self.wave32) {
            (Isa::Gfx942, _) => blocks * 8,
            (Isa::Gfx1201, true) => (blocks * 8).min(256),
            (Isa::Gfx1201, false) => (blocks * 4).min(256),
        }
    }

    /// Architectural VGPRs of a wave: where the accumulators begin.
    pub fn arch_vgprs(&self) -> usize {
        match self.isa {
            Isa::Gfx942 => (((self.rsrc3 as usize & 0x3f) + 1) * 4).min(self.vgprs()),
            Isa::Gfx1201 => self.vgprs(),
        }
    }

    /// The registers that operands may name.
    pub(crate) fn limits(&self, privileged: bool) -> Limits {
        let arch = self.arch_vgprs();
        let acc = self.vgprs() - arch;
        Limits {
            isa: self.isa,
            wave32: self.wave32,
            arch: arch as u16,
            acc: acc.min(256) as u16,
            sgprs: self.sgprs() as u16,
            privileged,
        }
    }

    /// SGPRs of a wave, without VCC.
    pub fn sgprs(&self) -> usize {
        match self.isa {
            Isa::Gfx942 => (((self.rsrc1 as usize >> 6 & 0xf) / 2 + 1) * 16).min(102),
            Isa::Gfx1201 => 106,
        }
    }
}
