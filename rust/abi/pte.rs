// SPDX-License-Identifier: GPL-2.0 OR MIT

//! GPUVM page-table entries of gfx9, and in [`gfx12`] what gfx12 has elsewhere.
//!
//! Sources: `amdgpu/amdgpu_vm.h` (bits), `include/vega10_enum.h` and `include/soc24_enum.h` (memory
//! types), `amdgpu/gmc_v9_0.c` and `amdgpu/gmc_v12_0.c` (levels). An entry is 64 bits, little endian;
//! an address is a byte address in the memory controller's physical space (VRAM) or a DMA address
//! (`SYSTEM`).

use crate::bits::Field64;

/// Entry is valid.
pub const VALID: u64 = 1 << 0;
/// Target is system memory, not VRAM.
pub const SYSTEM: u64 = 1 << 1;
/// Accesses snoop the CPU's caches (system memory).
pub const SNOOPED: u64 = 1 << 2;
/// Trusted memory zone.
pub const TMZ: u64 = 1 << 3;
/// Instruction fetch is allowed.
pub const EXECUTABLE: u64 = 1 << 4;
/// Reading is allowed.
pub const READABLE: u64 = 1 << 5;
/// Writing is allowed.
pub const WRITEABLE: u64 = 1 << 6;
/// log2 of the number of 4 KiB pages that share this translation.
pub const FRAG: Field64 = Field64::span(11, 7);
/// Address of a page.
pub const PTE_ADDR: u64 = 0x0000_ffff_ffff_f000;
/// Address of a page directory or page table (64-byte aligned).
pub const PDE_ADDR: u64 = 0x0000_ffff_ffff_ffc0;
/// Partially resident: an access without backing is silently dropped.
pub const PRT: u64 = 1 << 51;
/// In a directory: the entry is a page of the level's size, not a directory.
pub const PDE_PTE: u64 = 1 << 54;
/// Accesses are logged.
pub const LOG: u64 = 1 << 55;
/// Translate further: in a page table (or in PDB0 under a BFS directory) the entry points on.
pub const TF: u64 = 1 << 56;
/// Memory type, one of `MTYPE_*`.
pub const MTYPE: Field64 = Field64::span(58, 57);
/// In a directory: log2 of the pages that an entry of the level below covers.
pub const PDE_BFS: Field64 = Field64::span(63, 59);

/// Not coherent, cached.
pub const MTYPE_NC: u64 = 0;
/// Read/write coherent within the device.
pub const MTYPE_RW: u64 = 1;
/// Coherently cached.
pub const MTYPE_CC: u64 = 2;
/// Uncached.
pub const MTYPE_UC: u64 = 3;

/// Bits that a leaf entry may carry.
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
/// Bits that an entry pointing to another table may carry.
pub const PDE_KNOWN: u64 = VALID | SYSTEM | SNOOPED | PDE_ADDR | TF | MTYPE.mask | PDE_BFS.mask;

/// Bits of a virtual address.
pub const VA_BITS: u32 = 48;
/// log2 of the base page.
pub const PAGE_SHIFT: u32 = 12;
/// Bytes of the base page.
pub const PAGE_SIZE: u64 = 1 << PAGE_SHIFT;
/// log2 of the entries of one directory.
pub const LEVEL_BITS: u32 = 9;
/// Entries of one directory.
pub const ENTRIES: usize = 1 << LEVEL_BITS;
/// Bytes of one entry.
pub const ENTRY_SIZE: usize = 8;
/// Levels of the tree: PDB2, PDB1, PDB0, PTB.
pub const LEVELS: u32 = 4;
/// Virtual addresses from here to [`HOLE_END`] do not exist (`AMDGPU_GMC_HOLE_START`).
pub const HOLE_START: u64 = 0x0000_8000_0000_0000;
/// End of the hole, exclusive.
pub const HOLE_END: u64 = 0xffff_8000_0000_0000;

/// The levels, counted from the root of a 4-level tree (Linux counts from PDB3, one more).
pub mod level {
    /// Root; an entry covers 512 GiB.
    pub const PDB2: u32 = 0;
    /// An entry covers 1 GiB.
    pub const PDB1: u32 = 1;
    /// An entry covers 2 MiB.
    pub const PDB0: u32 = 2;
    /// An entry covers 4 KiB.
    pub const PTB: u32 = 3;

    /// log2 of the bytes that one entry of `level` covers (block size 9).
    pub const fn shift(level: u32) -> u32 {
        super::PAGE_SHIFT + (PTB - level) * super::LEVEL_BITS
    }
}

/// What gfx12 has at other places: everything that is not here is as on gfx9. There is no
/// "translate further": four plain levels, and a page may end the walk at each of them.
pub mod gfx12 {
    use super::{Field64, EXECUTABLE, FRAG, READABLE, SNOOPED, SYSTEM, TMZ, VALID, WRITEABLE};
    pub use super::{PDE_ADDR, PTE_ADDR};

    /// For the driver's own use.
    pub const SOFTWARE: Field64 = Field64::span(53, 52);
    /// Memory type, one of `MTYPE_*` of gfx9 (gfx12 knows NC and UC).
    pub const MTYPE: Field64 = Field64::span(55, 54);
    /// Partially resident: an access without backing is silently dropped.
    pub const PRT: u64 = 1 << 56;
    /// Compressed. (`AMDGPU_PTE_NOALLOC`, which `gmc_v12_0.c` also sets, is the same bit.)
    pub const DCC: u64 = 1 << 58;
    /// In a directory: log2 of the pages that an entry of the level below covers.
    pub const PDE_BFS: Field64 = Field64::span(62, 58);
    /// The entry is a page of the level's size; in a directory, without it, it points to the table
    /// below.
    pub const IS_PTE: u64 = 1 << 63;

    /// Bits that a leaf entry may carry.
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
    /// Bits that an entry pointing to another table may carry.
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
