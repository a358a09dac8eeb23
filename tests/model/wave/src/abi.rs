// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The amdhsa launch ABI: from a kernel descriptor and the facts of an AQL packet to a
//! [`Dispatch`].

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
    /// Those of both instruction sets.
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

/// `COMPUTE_PGM_RSRC2.TG_SIZE_EN`: the workgroup's size in an SGPR, which gfx1201 does not have.
const TG_SIZE_EN: u32 = 1 << 10;

/// How many user SGPRs the hardware loads at most.
const MAX_USER_SGPRS: usize = 16;
/// LDS of a compute unit.
const LDS_BYTES: u32 = 64 << 10;
/// Allocation unit of the LDS.
const LDS_GRANULE: u32 = 512;
/// Most work-items in a workgroup.
const MAX_WORKGROUP: u64 = 1024;
/// Code that firmware skips when it preloads kernel arguments.
const PRELOAD_PROLOGUE: u64 = 256;

/// Why a launch is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AbiError {
    /// The descriptor or packet breaks a rule.
    Invalid(String),
    /// The kernel arguments to preload could not be read.
    Fault(Fault),
}

impl fmt::Display for AbiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AbiError::Invalid(text) => write!(f, "invalid launch: {text}"),
            AbiError::Fault(fault) => write!(f, "kernel arguments to preload: {fault}"),
        }
    }
}

impl std::error::Error for AbiError {}

/// The 64-byte amdhsa kernel descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelDescriptor {
    /// Static LDS, bytes.
    pub group_segment_fixed_size: u32,
    /// Scratch of a work-item, bytes.
    pub private_segment_fixed_size: u32,
    /// Bytes of kernel arguments; 0 when not known.
    pub kernarg_size: u32,
    /// Entry point relative to the descriptor.
    pub entry_byte_offset: i64,
    /// `COMPUTE_PGM_RSRC3`.
    pub rsrc3: u32,
    /// `COMPUTE_PGM_RSRC1`.
    pub rsrc1: u32,
    /// `COMPUTE_PGM_RSRC2`.
    pub rsrc2: u32,
    /// Which user SGPRs the kernel wants.
    pub code_properties: u16,
    /// Preload: length in SGPRs \[6:0\], offset in dwords \[15:7\].
    pub kernarg_preload: u16,
}

impl KernelDescriptor {
    /// Size in memory.
    pub const SIZE: usize = 64;

    /// Reads a descriptor. What the instruction set does not define, [`Launch::dispatch`] refuses.
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
            return Err(AbiError::Invalid(
                "reserved bytes of the kernel descriptor are set".into(),
            ));
        }
        Ok(this)
    }

    /// Are its waves to have 32 lanes?
    pub fn wave32(&self) -> bool {
        self.code_properties & property::WAVEFRONT_SIZE32 != 0
    }

    /// Scratch of one wave in bytes, as the hardware allocates it, for a kernel that wants
    /// `private_segment_size` for each work-item.
    pub fn scratch_wave_bytes(&self, isa: Isa, private_segment_size: u32) -> u64 {
        let lanes = if self.wave32() { 32 } else { 64 };
        let granule = match isa {
            Isa::Gfx942 => 1024,
            Isa::Gfx1201 => 256,
        };
        (u64::from(private_segment_size) * lanes).next_multiple_of(granule)
    }

    /// Refuses what the instruction set does not define.
    fn check(&self, isa: Isa) -> Result<(), AbiError> {
        let (known, name) = match isa {
            Isa::Gfx942 => (property::GFX942, "gfx942"),
            Isa::Gfx1201 => (property::GFX1201, "gfx1201"),
        };
        let unknown = self.code_properties & !known;
        if unknown != 0 {
            let text = format!("kernel code properties {unknown:#x} on {name}");
            return Err(AbiError::Invalid(text));
        }
        if isa == Isa::Gfx1201 && (self.rsrc2 & TG_SIZE_EN != 0 || self.kernarg_preload != 0) {
            let text = format!(
                "rsrc2 {:#x}, preload {:#x}: gfx1201 has neither a workgroup info register nor preloaded arguments",
                self.rsrc2, self.kernarg_preload
            );
            return Err(AbiError::Invalid(text));
        }
        Ok(())
    }

    /// Does the kernel find its stack size only at run time?
    pub fn uses_dynamic_stack(&self) -> bool {
        self.code_properties & property::USES_DYNAMIC_STACK != 0
    }

    /// Preloaded kernel arguments: first dword, number of dwords.
    pub fn preload(&self) -> (u64, usize) {
        (
            u64::from(self.kernarg_preload >> 7),
            usize::from(self.kernarg_preload & 0x7f),
        )
    }
}

/// The facts of one launch that are not in the kernel descriptor.
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
    /// `group_segment_size`: LDS in bytes, static and dynamic.
    pub group_segment_size: u32,
    /// `private_segment_size`: scratch of a work-item in bytes.
    pub private_segment_size: u32,
    /// `kernarg_address`.
    pub kernarg: u64,
    /// Address of the packet in its ring.
    pub packet: u64,
    /// Address of the queue's `amd_queue_t`.
    pub queue: u64,
    /// Dispatch id: the packet's index in the queue.
    pub dispatch_id: u64,
    /// `scratch_resource_descriptor` of the `amd_queue_t`.
    pub scratch_descriptor: [u32; 4],
    /// Where scratch lies.
    pub scratch: Scratch,
    /// Flat apertures of the process.
    pub apertures: Apertures,
    /// XCC on which it runs.
    pub xcc_id: u32,
}

impl Launch {
    /// Scratch of one wave of gfx942 in bytes, as the hardware allocates it (multiple of 1 KiB).
    pub fn scratch_wave_bytes(private_segment_size: u32) -> u64 {
        (u64::from(private_segment_size) * 64).next_multiple_of(1024)
    }

    /// Makes the dispatch: checks the launch against the descriptor and lays out the user SGPRs.
    /// `mem` is read only for kernel arguments that the kernel wants in SGPRs.
    pub fn dispatch(&self, kd: &KernelDescriptor, mem: &dyn Memory) -> Result<Dispatch, AbiError> {
        self.check(kd)?;
        let (preload_at, preload_len) = kd.preload();
        let mut entry = self.kernel_object.wrapping_add_signed(kd.entry_byte_offset);
        if preload_len != 0 {
            entry = entry.wrapping_add(PRELOAD_PROLOGUE);
        }
        if entry % 256 != 0 {
            let text = format!("entry point {entry:#x} is not 256-byte aligned");
            return Err(AbiError::Invalid(text));
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
            let text = format!("{} user SGPRs laid out, rsrc2 says {count}", sgprs.len());
            return Err(AbiError::Invalid(text));
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

    fn check(&self, kd: &KernelDescriptor) -> Result<(), AbiError> {
        let fail = |text: String| Err(AbiError::Invalid(text));
        kd.check(self.isa)?;
        let items: u64 = self.workgroup.iter().map(|&n| u64::from(n)).product();
        if items == 0 || items > MAX_WORKGROUP {
            return fail(format!("workgroup of {:?} work-items", self.workgroup));
        }
        if self.grid.contains(&0) {
            return fail(format!("grid of {:?} work-items", self.grid));
        }
        if self.kernel_object % 64 != 0 {
            return fail(format!(
                "kernel object {:#x} is not 64-byte aligned",
                self.kernel_object
            ));
        }
        if self.group_segment_size < kd.group_segment_fixed_size
            || self.group_segment_size > LDS_BYTES
        {
            return fail(format!(
                "group segment of {} bytes, kernel needs {}, compute unit has {LDS_BYTES}",
                self.group_segment_size, kd.group_segment_fixed_size
            ));
        }
        if self.private_segment_size < kd.private_segment_fixed_size {
            return fail(format!(
                "private segment of {} bytes, kernel needs {}",
                self.private_segment_size, kd.private_segment_fixed_size
            ));
        }
        let need = kd.scratch_wave_bytes(self.isa, self.private_segment_size);
        if need > 0 && (self.scratch.wave_stride < need || self.scratch.slots == 0) {
            return fail(format!(
                "scratch: a wave needs {need} bytes, has {} in {} slots",
                self.scratch.wave_stride, self.scratch.slots
            ));
        }
        Ok(())
    }

    fn fixed_user_sgprs(&self, kd: &KernelDescriptor) -> Result<Vec<u32>, AbiError> {
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
            let text = "the kernel wants FLAT_SCRATCH_INIT, which the hardware initialises itself";
            return Err(AbiError::Invalid(text.into()));
        }
        if has(property::PRIVATE_SEGMENT_SIZE) {
            sgprs.push(self.private_segment_size);
        }
        Ok(sgprs)
    }
}
