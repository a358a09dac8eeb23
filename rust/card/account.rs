// SPDX-License-Identifier: GPL-2.0

//! Limits of the memory of processes, and reservations within them.
//!
//! VRAM is accounted per memory partition and per node, independent of the current placement of a
//! BO. System memory is accounted once for all cards: GTT and userptr BOs have a common limit below
//! the size of RAM, and GTT BOs one of their own because they cannot be swapped out. Memory of the
//! driver itself is not limited here. The limits are those of `amdgpu_amdkfd_gpuvm.c`.
//!
//! A [`Reservation`] belongs to the memory, not to the handle. The locks are leaves; nothing is
//! allocated under them.

use kernel::{
    new_spinlock,
    prelude::*,
    sizes::*,
    sync::{
        atomic::{Atomic, AtomicFlag, Relaxed},
        Arc, SpinLock,
    },
};

use super::{
    memory::{MemoryPartition, Reserved, VRAM_BLOCK},
    vram::Vram,
};
use crate::kapi::{global::global_spinlock, log_limit::LogLimit, meminfo};

/// Bytes of system memory that are never reserved, or half of all memory if that is less.
const KEPT: u64 = 3 << 29;
/// Bytes of mapped memory per byte of page tables: an estimate between 2 MiB and 4 KiB pages
/// (`ESTIMATE_PT_SIZE`).
const BYTES_PER_TABLE_BYTE: u64 = 1 << 14;
/// Minimum of VRAM left to page tables, in bytes.
const TABLES_MIN: u64 = 8 << 20;

/// The memory of a BO for accounting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// VRAM, also while evicted.
    Vram,
    /// System memory owned by the BO.
    Gtt,
    /// Memory of the process (userptr).
    User,
}

/// System memory reserved, in bytes.
#[derive(Clone, Copy, Default)]
struct System {
    /// By BOs of all kinds.
    used: u64,
    /// By GTT BOs.
    gtt_used: u64,
    /// Limit of `used`.
    limit: u64,
    /// Limit of `gtt_used`.
    gtt_limit: u64,
}

global_spinlock! {
    SYSTEM: System = System {
        used: 0,
        gtt_used: 0,
        limit: 0,
        gtt_limit: 0,
    };
    init init_lock
}

impl System {
    /// Reserves `bytes`, of which GTT BOs have `gtt_bytes`; returns the limit that is exceeded.
    fn add(&mut self, bytes: u64, gtt_bytes: u64) -> Result<(), Limit> {
        let fits =
            |used: u64, more: u64, limit: u64| used.checked_add(more).filter(|sum| *sum <= limit);
        let used = fits(self.used, bytes, self.limit).ok_or(Limit::System)?;
        self.gtt_used = fits(self.gtt_used, gtt_bytes, self.gtt_limit).ok_or(Limit::Gtt)?;
        self.used = used;
        Ok(())
    }
}

/// A limit of system memory.
#[derive(Clone, Copy)]
enum Limit {
    /// Of BOs of all kinds.
    System,
    /// Of GTT BOs.
    Gtt,
}

global_spinlock! {
    /// Rate limits of the messages, by [`Limit`].
    LOG: [LogLimit; 2] = [LogLimit::new(), LogLimit::new()];
    init init_log
}

impl Limit {
    /// Reports that `bytes` more for the current process exceed the limit. Returns `ENOMEM`.
    fn refuse(self, bytes: u64) -> Error {
        let [all, gtt] = system();
        let (name, (used, limit)) = match self {
            Self::System => ("system memory", all),
            Self::Gtt => ("GTT", gtt),
        };
        let suppressed = LOG.lock().get_mut(self as usize).and_then(LogLimit::allows);
        if let Some(suppressed) = suppressed {
            if suppressed > 0 {
                pr_warn!("{suppressed} messages about the limit of {name} were suppressed\n");
            }
            pr_warn!(
                "process {}: {} KiB exceed the limit of {name}: {} of {} MiB are in use\n",
                kernel::current!().group_leader().pid(),
                bytes.div_ceil(SZ_1K as u64),
                used / SZ_1M as u64,
                limit / SZ_1M as u64
            );
        }
        ENOMEM
    }
}

/// Bytes that processes may map: memory free at module load, and VRAM of all cards.
static MAPPABLE: Atomic<u64> = Atomic::new(0);

/// Sets the limits. Called once, at module load.
pub(crate) fn init() {
    init_lock();
    init_log();
    let memory = meminfo::memory();
    MAPPABLE.store(memory.free, Relaxed);
    let limit = memory.total - memory.total / 64;
    let mut system = SYSTEM.lock();
    system.limit = if limit < 2 * KEPT {
        limit / 2
    } else {
        limit - KEPT
    };
    if crate::module_parameters::no_system_mem_limit.value() {
        system.limit = u64::MAX;
    }
    system.gtt_limit = memory.total / 2 / SZ_4K as u64 * SZ_4K as u64;
}

/// Accounts for a card with `bytes` of VRAM that was added.
pub(crate) fn vram_added(bytes: u64) {
    MAPPABLE.fetch_add(bytes, Relaxed);
}

/// Undoes [`vram_added`].
pub(crate) fn vram_removed(bytes: u64) {
    MAPPABLE.fetch_sub(bytes, Relaxed);
}

/// Returns the VRAM reserved for the page tables of `mapped` bytes of memory, in bytes.
pub(crate) fn reserved_for_tables(mapped: u64) -> u64 {
    (mapped / BYTES_PER_TABLE_BYTE).max(TABLES_MIN)
}

/// Returns the VRAM of each card reserved for page tables, in bytes.
fn for_tables() -> u64 {
    reserved_for_tables(MAPPABLE.load(Relaxed))
}

/// The part of the VRAM of a card that the processes on one of its nodes may reserve.
#[pin_data]
pub(crate) struct Share {
    /// Bytes.
    size: u64,
    memory: Arc<MemoryPartition>,
    /// The processes may reserve all of the memory partition.
    uncapped: AtomicFlag,
    #[pin]
    reserved: SpinLock<Reserved>,
}

impl Share {
    /// Returns a share of `size` bytes of a memory partition. `ENOMEM` without memory.
    pub(crate) fn new(size: u64, memory: &Arc<MemoryPartition>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                size,
                memory: memory.clone(),
                uncapped: AtomicFlag::new(false),
                reserved <- new_spinlock!(Reserved::default(), "rkfd_share"),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Returns the memory partition.
    pub(crate) fn memory(&self) -> &MemoryPartition {
        &self.memory
    }

    /// Limits processes to this share from now on, or with `uncapped` to the memory partition.
    pub(crate) fn set_uncapped(&self, uncapped: bool) {
        self.uncapped.store(uncapped, Relaxed);
    }

    /// Returns the bytes that the processes may reserve of `vram`: without page tables, and without
    /// memory of driver and firmware.
    fn limit(&self, vram: &Vram) -> u64 {
        let size = if self.uncapped.load(Relaxed) {
            self.memory.size()
        } else {
            self.size
        };
        size.saturating_sub(vram.deducted())
            .saturating_sub(for_tables())
    }

    /// Returns the bytes that can still be reserved, in whole blocks.
    fn unreserved(&self, vram: &Vram) -> u64 {
        self.limit(vram)
            .saturating_sub(self.reserved.lock().in_blocks())
    }

    /// Reserves `bytes` for a BO. `ENOMEM` when less is left.
    fn reserve(&self, vram: &Vram, bytes: u64) -> Result {
        let limit = self.limit(vram);
        self.reserved.lock().add(bytes, limit)
    }

    /// Undoes [`Share::reserve`].
    fn unreserve(&self, bytes: u64) {
        self.reserved.lock().remove(bytes);
    }
}

/// Memory reserved for a BO. Dropping it returns it.
pub(crate) struct Reservation {
    share: Arc<Share>,
    kind: Kind,
    bytes: u64,
}

/// Reserves `bytes` for a BO on the node with a share of `vram`. `ENOMEM` when less is left, with a
/// message if it is system memory.
pub(crate) fn reserve(
    vram: &Arc<Vram>,
    share: &Arc<Share>,
    kind: Kind,
    bytes: u64,
) -> Result<Reservation> {
    match kind {
        Kind::Vram => {
            share.reserve(vram, bytes)?;
            vram.reserve(&share.memory, bytes, for_tables())
                .inspect_err(|_| share.unreserve(bytes))?;
        }
        Kind::Gtt | Kind::User => {
            let gtt_bytes = if kind == Kind::Gtt { bytes } else { 0 };
            let added = SYSTEM.lock().add(bytes, gtt_bytes);
            added.map_err(|limit| limit.refuse(bytes))?;
        }
    }
    Ok(Reservation {
        share: share.clone(),
        kind,
        bytes,
    })
}

impl Drop for Reservation {
    fn drop(&mut self) {
        match self.kind {
            Kind::Vram => {
                self.share.memory.reserved.lock().remove(self.bytes);
                self.share.unreserve(self.bytes);
            }
            Kind::Gtt | Kind::User => {
                let mut system = SYSTEM.lock();
                system.used -= self.bytes;
                if self.kind == Kind::Gtt {
                    system.gtt_used -= self.bytes;
                }
            }
        }
    }
}

/// System memory of a process that is reserved as a whole, as [`Kind::User`]. Dropping it returns
/// it.
pub(crate) struct UserBytes(u64);

impl UserBytes {
    /// Reserves nothing.
    pub(crate) const fn new() -> Self {
        Self(0)
    }

    /// Returns the bytes reserved.
    pub(crate) fn get(&self) -> u64 {
        self.0
    }

    /// Changes the bytes reserved. `ENOMEM` when less is left, with nothing changed but a message.
    pub(crate) fn set(&mut self, bytes: u64) -> Result {
        if let Some(more) = bytes.checked_sub(self.0) {
            let added = SYSTEM.lock().add(more, 0);
            added.map_err(|limit| limit.refuse(more))?;
        } else {
            SYSTEM.lock().used -= self.0 - bytes;
        }
        self.0 = bytes;
        Ok(())
    }
}

impl Drop for UserBytes {
    fn drop(&mut self) {
        SYSTEM.lock().used -= self.0;
    }
}

/// Returns the bytes of VRAM that the processes on a node may still reserve, in whole blocks of
/// 2 MiB. BOs of the render node do not count: they are evictable.
pub(crate) fn vram_available(vram: &Vram, share: &Share) -> u64 {
    let left = vram
        .unreserved(&share.memory, for_tables())
        .min(share.unreserved(vram));
    left / VRAM_BLOCK * VRAM_BLOCK
}

/// Bytes of system memory in BOs of the driver, those of the render node among them: their limit is
/// a part of the machine's memory.
static IN_BOS: Atomic<u64> = Atomic::new(0);

/// Counts system memory of a BO, until [`put_gtt`]. `ENOMEM` beyond `limit`.
pub(super) fn take_gtt(bytes: u64, limit: u64) -> Result {
    // Checked first: the sum of concurrent requests must not wrap.
    if bytes > limit {
        return Err(ENOMEM);
    }
    let before = IN_BOS.fetch_add(bytes, Relaxed);
    if before.saturating_add(bytes) > limit {
        put_gtt(bytes);
        return Err(ENOMEM);
    }
    Ok(())
}

/// Undoes [`take_gtt`].
pub(super) fn put_gtt(bytes: u64) {
    IN_BOS.fetch_sub(bytes, Relaxed);
}

/// Returns the limit of GTT BOs in bytes.
pub(crate) fn gtt_limit() -> u64 {
    SYSTEM.lock().gtt_limit
}

/// Returns the bytes of system memory that the BOs of a card may have together with those that were
/// evicted: BOs in GTT do not prevent evictions.
pub(crate) fn evicted_limit() -> u64 {
    gtt_limit() / 2 * 3
}

/// Returns bytes reserved and their limit: of system memory, then of GTT BOs.
pub(crate) fn system() -> [(u64, u64); 2] {
    let system = *SYSTEM.lock();
    [
        (system.used, system.limit),
        (system.gtt_used, system.gtt_limit),
    ]
}
