// SPDX-License-Identifier: GPL-2.0 OR MIT

//! GPUVM page-table entries of gfx9; [`gfx12`] has the bits that differ there.
//!
//! Sources: `amdgpu/amdgpu_vm.h` (bits), `include/vega10_enum.h` and `include/soc24_enum.h` (memory
//! types), `amdgpu/gmc_v9_0.c` and `amdgpu/gmc_v12_0.c` (levels). An entry is 64 bits, little
//! endian. Its address is an MC byte address (VRAM) or a DMA address (`SYSTEM`).

use crate::bits::Field64;

/// Entry is valid (`AMDGPU_PTE_VALID`).
pub const VALID: u64 = 1 << 0;
/// Target is system memory, not VRAM (`AMDGPU_PTE_SYSTEM`).
pub const SYSTEM: u64 = 1 << 1;
/// Accesses to system memory snoop the CPU caches (`AMDGPU_PTE_SNOOPED`).
pub const SNOOPED: u64 = 1 << 2;
/// Trusted memory zone (`AMDGPU_PTE_TMZ`).
pub const TMZ: u64 = 1 << 3;
/// Execute permission (`AMDGPU_PTE_EXECUTABLE`).
pub const EXECUTABLE: u64 = 1 << 4;
/// Read permission (`AMDGPU_PTE_READABLE`).
pub const READABLE: u64 = 1 << 5;
/// Write permission (`AMDGPU_PTE_WRITEABLE`).
pub const WRITEABLE: u64 = 1 << 6;
/// Fragment: log2 of the number of 4 KiB pages that share this translation (`AMDGPU_PTE_FRAG`).
pub const FRAG: Field64 = Field64::span(11, 7);
/// Address bits of a PTE.
pub const PTE_ADDR: u64 = 0x0000_ffff_ffff_f000;
/// Address bits of a PDE: page directory or page table, 64-byte aligned.
pub const PDE_ADDR: u64 = 0x0000_ffff_ffff_ffc0;
/// Partially resident (PRT): accesses without backing are silently dropped (`AMDGPU_PTE_PRT`).
pub const PRT: u64 = 1 << 51;
/// PDE is a PTE: maps a page of the level's size (`AMDGPU_PDE_PTE`).
pub const PDE_PTE: u64 = 1 << 54;
/// Accesses are logged (`AMDGPU_PTE_LOG`).
pub const LOG: u64 = 1 << 55;
/// Translate further (`AMDGPU_PTE_TF`): in a page table, or in PDB0 under a PDE with block fragment
/// size, the entry points to another table.
pub const TF: u64 = 1 << 56;
/// Memory type, one of `MTYPE_*`.
pub const MTYPE: Field64 = Field64::span(58, 57);
/// PDE: block fragment size, log2 of the pages that an entry of the level below covers
/// (`AMDGPU_PDE_BFS`).
pub const PDE_BFS: Field64 = Field64::span(63, 59);

/// Non-coherent, cached (`MTYPE_NC`).
pub const MTYPE_NC: u64 = 0;
/// Read/write coherent within the device (`MTYPE_RW`).
pub const MTYPE_RW: u64 = 1;
/// Coherently cached (`MTYPE_CC`).
pub const MTYPE_CC: u64 = 2;
/// Uncached (`MTYPE_UC`).
pub const MTYPE_UC: u64 = 3;

/// All bits valid in a leaf entry.
pub const PTE_KNOWN: u64 = VALID
    | SYSTEM
    | SNOOPED
    | TMZ
    | EXECUTABLE
    | READABLE
    | WRITEABLE
    | FRAG.mask
    | PTE_ADDR
    | PRT
    | PDE_PTE
    | LOG
    | TF
    | MTYPE.mask;
/// All bits valid in a PDE.
pub const PDE_KNOWN: u64 = VALID | SYSTEM | SNOOPED | PDE_ADDR | TF | MTYPE.mask | PDE_BFS.mask;

/// Width of a virtual address, in bits.
pub const VA_BITS: u32 = 48;
/// log2 of the base page size.
pub const PAGE_SHIFT: u32 = 12;
/// Size of the base page, in bytes.
pub const PAGE_SIZE: u64 = 1 << PAGE_SHIFT;
/// log2 of the number of entries of a directory.
pub const LEVEL_BITS: u32 = 9;
/// Number of entries of a directory.
pub const ENTRIES: usize = 1 << LEVEL_BITS;
/// Size of an entry, in bytes.
pub const ENTRY_SIZE: usize = 8;
/// Levels of the page table: PDB2, PDB1, PDB0, PTB.
pub const LEVELS: u32 = 4;
/// Start of the hole in the virtual address space (`AMDGPU_GMC_HOLE_START`).
pub const HOLE_START: u64 = 0x0000_8000_0000_0000;
/// End of the hole, exclusive.
pub const HOLE_END: u64 = 0xffff_8000_0000_0000;

/// Levels, counted from the root of a 4-level page table (Linux counts from PDB3, one more).
pub mod level {
    /// Root; an entry covers 512 GiB.
    pub const PDB2: u32 = 0;
    /// An entry covers 1 GiB.
    pub const PDB1: u32 = 1;
    /// An entry covers 2 MiB.
    pub const PDB0: u32 = 2;
    /// An entry covers 4 KiB.
    pub const PTB: u32 = 3;

    /// Returns log2 of the bytes that an entry of `level` covers (block size 9).
    pub const fn shift(level: u32) -> u32 {
        super::PAGE_SHIFT + (PTB - level) * super::LEVEL_BITS
    }
}

/// Bits of gfx12 that differ; all others are as on gfx9. There is no "translate further": four
/// levels, and a PTE is valid at each of them.
pub mod gfx12 {
    use super::{Field64, EXECUTABLE, FRAG, READABLE, SNOOPED, SYSTEM, TMZ, VALID, WRITEABLE};
    pub use super::{PDE_ADDR, PTE_ADDR};

    /// Reserved for software.
    pub const SOFTWARE: Field64 = Field64::span(53, 52);
    /// Memory type, one of `MTYPE_*` of gfx9; gfx12 supports NC and UC (`AMDGPU_PTE_MTYPE_GFX12`).
    pub const MTYPE: Field64 = Field64::span(55, 54);
    /// Partially resident: accesses without backing are silently dropped (`AMDGPU_PTE_PRT_GFX12`).
    pub const PRT: u64 = 1 << 56;
    /// Compressed (`AMDGPU_PTE_DCC`). The same bit as `AMDGPU_PTE_NOALLOC`, which `gmc_v12_0.c`
    /// sets.
    pub const DCC: u64 = 1 << 58;
    /// PDE: block fragment size (`AMDGPU_PDE_BFS_GFX12`), log2 of the pages that an entry of the
    /// level below covers.
    pub const PDE_BFS: Field64 = Field64::span(62, 58);
    /// Entry is a PTE (`AMDGPU_PTE_IS_PTE`): maps a page of the level's size. A PDE without it
    /// points to the table below.
    pub const IS_PTE: u64 = 1 << 63;

    /// All bits valid in a leaf entry.
    pub const PTE_KNOWN: u64 = VALID
        | SYSTEM
        | SNOOPED
        | TMZ
        | EXECUTABLE
        | READABLE
        | WRITEABLE
        | FRAG.mask
        | PTE_ADDR
        | SOFTWARE.mask
        | MTYPE.mask
        | PRT
        | DCC
        | IS_PTE;
    /// All bits valid in a PDE.
    pub const PDE_KNOWN: u64 = VALID | SYSTEM | SNOOPED | PDE_ADDR | MTYPE.mask | PDE_BFS.mask;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_gfx12_do_not_collide() {
        let leaf = [
            VALID,
            SYSTEM,
            SNOOPED,
            TMZ,
            EXECUTABLE,
            READABLE,
            WRITEABLE,
            FRAG.mask,
            PTE_ADDR,
            gfx12::SOFTWARE.mask,
            gfx12::MTYPE.mask,
            gfx12::PRT,
            gfx12::DCC,
            gfx12::IS_PTE,
        ];
        assert_eq!(leaf.iter().sum::<u64>(), gfx12::PTE_KNOWN);
        let directory = [
            VALID,
            SYSTEM,
            SNOOPED,
            PDE_ADDR,
            gfx12::MTYPE.mask,
            gfx12::PDE_BFS.mask,
        ];
        assert_eq!(directory.iter().sum::<u64>(), gfx12::PDE_KNOWN);
        assert_eq!(gfx12::PDE_KNOWN & gfx12::IS_PTE, 0);
    }

    #[test]
    fn bits_do_not_collide() {
        let single = [
            VALID,
            SYSTEM,
            SNOOPED,
            TMZ,
            EXECUTABLE,
            READABLE,
            WRITEABLE,
            FRAG.mask,
            PTE_ADDR,
            PRT,
            PDE_PTE,
            LOG,
            TF,
            MTYPE.mask,
            PDE_BFS.mask,
        ];
        let mut seen = 0;
        for bits in single {
            assert_eq!(seen & bits, 0, "{bits:#x}");
            seen |= bits;
        }
    }

    #[test]
    fn levels_span_the_address_space() {
        assert_eq!(level::shift(level::PTB), 12);
        assert_eq!(level::shift(level::PDB0), 21);
        assert_eq!(level::shift(level::PDB1), 30);
        assert_eq!(level::shift(level::PDB2), 39);
        assert_eq!(level::shift(level::PDB2) + LEVEL_BITS, VA_BITS);
    }
}
