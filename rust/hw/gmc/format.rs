// SPDX-License-Identifier: GPL-2.0

//! Page table format: flags of PTEs, entries of each level. Pure functions, without registers.

use rkfd_abi::pte;

/// Page table level: 0 is the PTB, 3 the root (PDB2).
pub(crate) type Level = u32;

/// Memory type that a mapping asks for (`AMDGPU_VM_MTYPE_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mtype {
    /// Not coherent.
    #[default]
    NonCoherent,
    /// Coherent within the device. Same as write-combined.
    ReadWrite,
    /// Coherently cached.
    Coherent,
    /// Uncached.
    Uncached,
}

/// Attributes of a mapping, independent of the PTE format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PteAttrs {
    /// Bus address, not VRAM.
    pub(crate) system: bool,
    /// VRAM of the memory partition of the address space.
    pub(crate) local: bool,
    /// Readable. KFD mappings always set it.
    pub(crate) read: bool,
    /// Writable.
    pub(crate) write: bool,
    /// Executable.
    pub(crate) exec: bool,
    /// Uncached (KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED).
    pub(crate) uncached: bool,
    /// Memory type of this mapping, where the memory does not require one.
    pub(crate) mtype: Mtype,
    /// Coherent across devices (KFD_IOC_ALLOC_MEM_FLAGS_EXT_COHERENT).
    pub(crate) ext_coherent: bool,
}

/// The page table format.
pub(crate) trait PageFormat: Sync {
    /// Returns the PTE flags of a page.
    fn pte_flags(&self, attrs: PteAttrs) -> u64;

    /// Returns the PTE flags of the GART.
    fn gart_flags(&self) -> u64;

    /// Returns the leaf entry at `level` for a page or block at `addr`; `fragment` is the log2 of
    /// the contiguous pages around it.
    fn leaf(&self, level: Level, addr: u64, flags: u64, fragment: u32) -> u64;

    /// Returns the PDE at `level` that points to a table at `addr`.
    fn table(&self, level: Level, addr: u64) -> u64;

    /// Returns the entry at `level` when nothing is mapped.
    fn empty(&self, level: Level) -> u64;

    /// Returns an entry at level 0 that makes accesses fault, also if those to invalid pages are
    /// repeated (`AMDGPU_VM_NORETRY_FLAGS_TF`).
    fn no_retry(&self) -> u64;

    /// Returns the page table base, for registers and MAP_PROCESS, of a root at `addr`.
    fn root(&self, addr: u64) -> u64;
}

/// A version of the page table format.
pub(crate) trait FormatVersion: Sync {
    /// GART flags of this version.
    const GART: u64;
    /// See [`PageFormat::no_retry`].
    const NO_RETRY: u64;

    /// PTE flags of this version.
    fn own_flags(attrs: PteAttrs) -> u64;

    /// Further flags of a PDE.
    fn table_flags(level: Level) -> u64 {
        let _ = level;
        0
    }

    /// The entry above level 0 when nothing is mapped.
    fn empty_block(level: Level) -> u64;
}

impl<T: FormatVersion> PageFormat for T {
    fn no_retry(&self) -> u64 {
        T::NO_RETRY
    }

    fn pte_flags(&self, a: PteAttrs) -> u64 {
        let mut flags = pte::VALID | T::own_flags(a);
        for (on, bit) in [
            (a.system, pte::SYSTEM),
            (a.read, pte::READABLE),
            (a.write, pte::WRITEABLE),
            (a.exec, pte::EXECUTABLE),
        ] {
            if on {
                flags |= bit;
            }
        }
        flags
    }

    fn gart_flags(&self) -> u64 {
        pte::VALID
            | pte::SYSTEM
            | pte::SNOOPED
            | pte::READABLE
            | pte::WRITEABLE
            | pte::EXECUTABLE
            | T::GART
    }

    fn leaf(&self, _level: Level, addr: u64, flags: u64, fragment: u32) -> u64 {
        (addr & pte::PTE_ADDR) | flags | pte::FRAG.put(u64::from(fragment))
    }

    fn table(&self, level: Level, addr: u64) -> u64 {
        (addr & pte::PDE_ADDR) | pte::VALID | T::table_flags(level)
    }

    fn empty(&self, level: Level) -> u64 {
        match level {
            // Works around the order in which the walker detects faults (`AMDGPU_PTE_EXECUTABLE`,
            // `amdgpu_vm_pt_clear`).
            0 => pte::EXECUTABLE,
            _ => T::empty_block(level),
        }
    }

    fn root(&self, addr: u64) -> u64 {
        addr | pte::VALID
    }
}
