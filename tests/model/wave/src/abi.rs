// SPDX-License-Identifier: GPL-2.0 OR MIT

//! amdhsa launch ABI: builds a [`Dispatch`] from a kernel descriptor and the fields of an AQL
//! packet.

use crate::{Apertures, Dispatch, Fault, Isa, Memory, Scratch};
use std::fmt;

/// `kernel_code_properties` bits.
mod property {
    pub const PRIVATE_SEGMENT_BUFFER: u16 = 1 << 0;
    pub const DISPATCH_PTR: u16 = 1 << 1;
    pub const QUEUE_PTR: u16 = 1 << 2;
    pub const KERNARG_SEGMENT_PTR: u16 = 1 << 3;
    pub const DISPATCH_ID: u16 = 1 << 4;
    pub const FLAT_SCRATCH_INIT: u16 = 1 << 5;
    pub const PRIVATE_SEGMENT_SIZE: u16 = 1 << 6;
    pub const WAVEFRONT_SIZE32: u16 = 1 << 10;
    pub const USES_DYNAMIC_STACK: u16 = 1 << 11;
    /// Bits defined for both instruction sets.
    const COMMON: u16 = DISPATCH_PTR
        | QUEUE_PTR
        | KERNARG_SEGMENT_PTR
        | DISPATCH_ID
        | FLAT_SCRATCH_INIT
        | PRIVATE_SEGMENT_SIZE
        | USES_DYNAMIC_STACK;
    pub const GFX942: u16 = COMMON | PRIVATE_SEGMENT_BUFFER;
    pub const GFX1201: u16 = COMMON | WAVEFRONT_SIZE32;
}

/// `COMPUTE_PGM_RSRC2.TG_SIZE_EN`: workgroup size in an SGPR; not supported by gfx1201.
const TG_SIZE_EN: u32 = 1 << 10;

/// Maximum number of user SGPRs.
const MAX_USER_SGPRS: usize = 16;
/// LDS of a compute unit, in bytes.
const LDS_BYTES: u32 = 64 << 10;
/// LDS allocation unit, in bytes.
const LDS_GRANULE: u32 = 512;
/// Maximum number of work-items per workgroup.
const MAX_WORKGROUP: u64 = 1024;
/// Bytes of code skipped by firmware when it preloads kernel arguments.
const PRELOAD_PROLOGUE: u64 = 256;

/// Reason for refusing a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AbiError {
    /// The descriptor or packet is invalid.
    Invalid(InvalidLaunch),
    /// Fault while reading the kernel arguments to preload.
    Fault(Fault),
}

impl fmt::Display for AbiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AbiError::Invalid(reason) => write!(f, "invalid launch: {reason}"),
            AbiError::Fault(fault) => write!(f, "kernel arguments to preload: {fault}"),
        }
    }
}

impl std::error::Error for AbiError {}

impl From<InvalidLaunch> for AbiError {
    fn from(reason: InvalidLaunch) -> Self {
        AbiError::Invalid(reason)
    }
}

/// Invalid field of a kernel descriptor or packet. Sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidLaunch {
    /// Reserved bytes of the kernel descriptor are set.
    ReservedBytes,
    /// Kernel code properties that the instruction set does not define.
    CodeProperties {
        /// The undefined bits.
        bits: u16,
        /// Instruction set.
        isa: Isa,
    },
    /// Workgroup info SGPR or preloaded kernel arguments on gfx1201.
    NotOnGfx1201 {
        /// `COMPUTE_PGM_RSRC2`.
        rsrc2: u32,
        /// Kernarg preload field of the descriptor.
        preload: u16,
    },
    /// Entry point not aligned to 256 bytes.
    Entry(u64),
    /// Number of user SGPRs differs from `COMPUTE_PGM_RSRC2.USER_SGPR`, or is too large.
    UserSgprs {
        /// Number enabled by the kernel descriptor.
        enabled: usize,
        /// `COMPUTE_PGM_RSRC2.USER_SGPR`.
        rsrc2: usize,
    },
    /// Empty or oversized workgroup, in work-items.
    Workgroup([u16; 3]),
    /// Empty grid, in work-items.
    Grid([u32; 3]),
    /// Kernel object not aligned to 64 bytes.
    KernelObject(u64),
    /// Group segment smaller than the kernel's, or larger than the LDS.
    GroupSegment {
        /// Size in the packet.
        size: u32,
        /// Static LDS of the kernel.
        fixed: u32,
    },
    /// Private segment smaller than the kernel's.
    PrivateSegment {
        /// Size in the packet.
        size: u32,
        /// Scratch per work-item of the kernel.
        fixed: u32,
    },
    /// Scratch memory too small for a wave.
    Scratch {
        /// Scratch per wave of the kernel.
        need: u64,
        /// Scratch per wave slot.
        stride: u64,
        /// Number of wave slots.
        slots: u64,
    },
    /// Flat scratch init requested, although hardware initialises flat scratch.
    FlatScratchInit,
}

impl fmt::Display for InvalidLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use InvalidLaunch::*;
        match self {
            ReservedBytes => write!(f, "reserved bytes of the kernel descriptor are set"),
            CodeProperties { bits, isa } => {
                let name = match isa {
                    Isa::Gfx942 => "gfx942",
                    Isa::Gfx1201 => "gfx1201",
                };
                write!(f, "kernel code properties {bits:#x} on {name}")
            }
            NotOnGfx1201 { rsrc2, preload } => write!(
                f,
                "rsrc2 {rsrc2:#x}, preload {preload:#x}: no workgroup info SGPR or preloaded \
                 arguments on gfx1201"
            ),
            Entry(entry) => write!(f, "entry point {entry:#x} is not 256-byte aligned"),
            UserSgprs { enabled, rsrc2 } => {
                write!(f, "{enabled} user SGPRs enabled, {rsrc2} in rsrc2")
            }
            Workgroup(size) => write!(f, "workgroup of {size:?} work-items"),
            Grid(size) => write!(f, "grid of {size:?} work-items"),
            KernelObject(va) => write!(f, "kernel object {va:#x} is not 64-byte aligned"),
            GroupSegment { size, fixed } => write!(
                f,
                "group segment of {size} bytes, kernel needs {fixed}, compute unit has {LDS_BYTES}"
            ),
            PrivateSegment { size, fixed } => {
                write!(f, "private segment of {size} bytes, kernel needs {fixed}")
            }
            Scratch {
                need,
                stride,
                slots,
            } => write!(
                f,
                "scratch: a wave needs {need} bytes, {stride} allocated in {slots} slots"
            ),
            FlatScratchInit => write!(
                f,
                "FLAT_SCRATCH_INIT requested, but hardware initialises flat scratch"
            ),
        }
    }
}

/// The 64-byte amdhsa kernel descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelDescriptor {
    /// Static LDS, in bytes.
    pub group_segment_fixed_size: u32,
    /// Scratch per work-item, in bytes.
    pub private_segment_fixed_size: u32,
    /// Size of the kernarg segment, in bytes; 0 if unknown.
    pub kernarg_size: u32,
    /// Offset of the entry point from the descriptor, in bytes.
    pub entry_byte_offset: i64,
    /// `COMPUTE_PGM_RSRC3`.
    pub rsrc3: u32,
    /// `COMPUTE_PGM_RSRC1`.
    pub rsrc1: u32,
    /// `COMPUTE_PGM_RSRC2`.
    pub rsrc2: u32,
    /// Enabled user SGPRs and other properties.
    pub code_properties: u16,
    /// Kernarg preload: length in SGPRs \[6:0\], offset in dwords \[15:7\].
    pub kernarg_preload: u16,
}

impl KernelDescriptor {
    /// Size of the descriptor, in bytes.
    pub const SIZE: usize = 64;

    /// Parses a descriptor. [`Launch::dispatch`] refuses what the instruction set does not define.
    pub fn parse(bytes: &[u8; Self::SIZE]) -> Result<Self, AbiError> {
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let zero = |from: usize, to: usize| bytes[from..to].iter().all(|&b| b == 0);
        let this = KernelDescriptor {
            group_segment_fixed_size: u32_at(0),
            private_segment_fixed_size: u32_at(4),
            kernarg_size: u32_at(8),
            entry_byte_offset: i64::from_le_bytes(bytes[16..24].try_into().expect("8 bytes")),
            rsrc3: u32_at(44),
            rsrc1: u32_at(48),
            rsrc2: u32_at(52),
            code_properties: u16_at(56),
            kernarg_preload: u16_at(58),
        };
        if !zero(12, 16) || !zero(24, 44) || !zero(60, 64) {
            return Err(InvalidLaunch::ReservedBytes.into());
        }
        Ok(this)
    }

    /// Returns whether the kernel is wave32.
    pub fn wave32(&self) -> bool {
        self.code_properties & property::WAVEFRONT_SIZE32 != 0
    }

    /// Returns the scratch that hardware allocates for a wave, in bytes, given
    /// `private_segment_size` bytes per work-item.
    pub fn scratch_wave_bytes(&self, isa: Isa, private_segment_size: u32) -> u64 {
        let lanes = if self.wave32() { 32 } else { 64 };
        let granule = match isa {
            Isa::Gfx942 => 1024,
            Isa::Gfx1201 => 256,
        };
        (u64::from(private_segment_size) * lanes).next_multiple_of(granule)
    }

    /// Returns an error for bits that the instruction set does not define.
    fn check(&self, isa: Isa) -> Result<(), InvalidLaunch> {
        let known = match isa {
            Isa::Gfx942 => property::GFX942,
            Isa::Gfx1201 => property::GFX1201,
        };
        let bits = self.code_properties & !known;
        if bits != 0 {
            return Err(InvalidLaunch::CodeProperties { bits, isa });
        }
        if isa == Isa::Gfx1201 && (self.rsrc2 & TG_SIZE_EN != 0 || self.kernarg_preload != 0) {
            return Err(InvalidLaunch::NotOnGfx1201 {
                rsrc2: self.rsrc2,
                preload: self.kernarg_preload,
            });
        }
        Ok(())
    }

    /// Returns whether the kernel uses a dynamic stack.
    pub fn uses_dynamic_stack(&self) -> bool {
        self.code_properties & property::USES_DYNAMIC_STACK != 0
    }

    /// Returns first dword and number of dwords of the preloaded kernel arguments.
    pub fn preload(&self) -> (u64, usize) {
        (
            u64::from(self.kernarg_preload >> 7),
            usize::from(self.kernarg_preload & 0x7f),
        )
    }
}

/// Parameters of a launch outside the kernel descriptor.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// The instruction set of the compute units.
    pub isa: Isa,
    /// Address of the kernel descriptor (`kernel_object`).
    pub kernel_object: u64,
    /// `grid_size_{x,y,z}`.
    pub grid: [u32; 3],
    /// `workgroup_size_{x,y,z}`.
    pub workgroup: [u16; 3],
    /// `group_segment_size`: static and dynamic LDS, in bytes.
    pub group_segment_size: u32,
    /// `private_segment_size`: scratch per work-item, in bytes.
    pub private_segment_size: u32,
    /// `kernarg_address`.
    pub kernarg: u64,
    /// Address of the packet in its ring.
    pub packet: u64,
    /// Address of the queue's `amd_queue_t`.
    pub queue: u64,
    /// Dispatch id: index of the packet in the queue.
    pub dispatch_id: u64,
    /// `scratch_resource_descriptor` of the `amd_queue_t`.
    pub scratch_descriptor: [u32; 4],
    /// Location of the scratch memory.
    pub scratch: Scratch,
    /// Apertures of the process.
    pub apertures: Apertures,
    /// Physical id of the XCC.
    pub xcc_id: u32,
}

impl Launch {
    /// Returns the scratch that gfx942 allocates for a wave, in bytes (a multiple of 1 KiB).
    pub fn scratch_wave_bytes(private_segment_size: u32) -> u64 {
        (u64::from(private_segment_size) * 64).next_multiple_of(1024)
    }

    /// Checks the launch against the descriptor, lays out the user SGPRs and returns the dispatch.
    /// Reads `mem` for preloaded kernel arguments only.
    ///
    /// # Errors
    ///
    /// [`AbiError::Invalid`] if packet or descriptor are invalid, [`AbiError::Fault`] if the kernel
    /// arguments to preload cannot be read.
    pub fn dispatch(&self, kd: &KernelDescriptor, mem: &dyn Memory) -> Result<Dispatch, AbiError> {
        self.check(kd)?;
        let (preload_at, preload_len) = kd.preload();
        let mut entry = self.kernel_object.wrapping_add_signed(kd.entry_byte_offset);
        if preload_len != 0 {
            entry = entry.wrapping_add(PRELOAD_PROLOGUE);
        }
        if entry % 256 != 0 {
            return Err(InvalidLaunch::Entry(entry).into());
        }
        let mut sgprs = self.fixed_user_sgprs(kd)?;
        for i in 0..preload_len as u64 {
            let mut dword = [0; 4];
            let va = self.kernarg.wrapping_add((preload_at + i) * 4);
            mem.read(va, &mut dword).map_err(AbiError::Fault)?;
            sgprs.push(u32::from_le_bytes(dword));
        }
        let count = (kd.rsrc2 >> 1 & 0x1f) as usize;
        if sgprs.len() > MAX_USER_SGPRS || sgprs.len() != count {
            return Err(InvalidLaunch::UserSgprs {
                enabled: sgprs.len(),
                rsrc2: count,
            }
            .into());
        }
        Ok(Dispatch {
            isa: self.isa,
            wave32: kd.wave32(),
            grid: self.grid,
            workgroup: self.workgroup,
            entry,
            rsrc1: kd.rsrc1,
            rsrc2: kd.rsrc2,
            rsrc3: kd.rsrc3,
            user_sgprs: sgprs,
            lds_bytes: self.group_segment_size.next_multiple_of(LDS_GRANULE),
            scratch: self.scratch,
            apertures: self.apertures,
            xcc_id: self.xcc_id,
            ..Dispatch::default()
        })
    }

    fn check(&self, kd: &KernelDescriptor) -> Result<(), InvalidLaunch> {
        kd.check(self.isa)?;
        let items: u64 = self.workgroup.iter().map(|&n| u64::from(n)).product();
        if items == 0 || items > MAX_WORKGROUP {
            return Err(InvalidLaunch::Workgroup(self.workgroup));
        }
        if self.grid.contains(&0) {
            return Err(InvalidLaunch::Grid(self.grid));
        }
        if self.kernel_object % 64 != 0 {
            return Err(InvalidLaunch::KernelObject(self.kernel_object));
        }
        if self.group_segment_size < kd.group_segment_fixed_size
            || self.group_segment_size > LDS_BYTES
        {
            return Err(InvalidLaunch::GroupSegment {
                size: self.group_segment_size,
                fixed: kd.group_segment_fixed_size,
            });
        }
        if self.private_segment_size < kd.private_segment_fixed_size {
            return Err(InvalidLaunch::PrivateSegment {
                size: self.private_segment_size,
                fixed: kd.private_segment_fixed_size,
            });
        }
        let need = kd.scratch_wave_bytes(self.isa, self.private_segment_size);
        if need > 0 && (self.scratch.wave_stride < need || self.scratch.slots == 0) {
            return Err(InvalidLaunch::Scratch {
                need,
                stride: self.scratch.wave_stride,
                slots: self.scratch.slots,
            });
        }
        Ok(())
    }

    fn fixed_user_sgprs(&self, kd: &KernelDescriptor) -> Result<Vec<u32>, InvalidLaunch> {
        let has = |bit: u16| kd.code_properties & bit != 0;
        let mut sgprs = Vec::with_capacity(MAX_USER_SGPRS);
        let pair = |sgprs: &mut Vec<u32>, on: bool, v: u64| {
            if on {
                sgprs.extend([v as u32, (v >> 32) as u32]);
            }
        };
        if has(property::PRIVATE_SEGMENT_BUFFER) {
            sgprs.extend(self.scratch_descriptor);
        }
        pair(&mut sgprs, has(property::DISPATCH_PTR), self.packet);
        pair(&mut sgprs, has(property::QUEUE_PTR), self.queue);
        pair(&mut sgprs, has(property::KERNARG_SEGMENT_PTR), self.kernarg);
        pair(&mut sgprs, has(property::DISPATCH_ID), self.dispatch_id);
        if has(property::FLAT_SCRATCH_INIT) {
            return Err(InvalidLaunch::FlatScratchInit);
        }
        if has(property::PRIVATE_SEGMENT_SIZE) {
            sgprs.push(self.private_segment_size);
        }
        Ok(sgprs)
    }
}
