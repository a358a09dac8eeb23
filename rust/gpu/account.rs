// SPDX-License-Identifier: GPL-2.0

//! How much memory processes may have: what is set aside for their buffers, and how much that may be.
//!
//! Buffers in VRAM are counted for each GPU, wherever they are at the moment. System memory is counted
//! once for all GPUs: GTT buffers with the memory of processes that GPUs map, which together leave
//! the machine enough to live, and GTT buffers alone, which the kernel cannot swap out. Memory that
//! rkfd needs for itself is not limited here.
//!
//! A [`Reservation`] belongs to the memory, not to the handle: it is given back when the last who
//! shares the memory lets it go. The locks are leaves, nothing is allocated under them.

use kernel::{
    prelude::*,
    sizes::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
    },
};

use super::Gpu;
use crate::kapi::{global::global_spinlock, numa};

/// What the machine keeps for itself, if it has twice as much; else it keeps half of all.
const KEPT: u64 = 3 << 29;
/// Of memory that GPUs map so many bytes need one byte of page tables, as an estimate between what
/// large and small pages need.
const BYTES_PER_TABLE_BYTE: u64 = 1 << 14;
/// VRAM that buffers leave to page tables at least.
const TABLES_MIN: u64 = 8 << 20;
/// What is available of VRAM is counted in blocks: the rest of a block that a buffer needs part of
/// is of use to small buffers only.
pub(crate) const VRAM_BLOCK: u64 = SZ_2M as u64;

/// What a buffer consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// VRAM, though it may be elsewhere for a while.
    Vram,
    /// System memory of the buffer's own.
    Gtt,
    /// Memory of the process.
    User,
}

/// System memory that is set aside.
#[derive(Clone, Copy, Default)]
struct System {
    /// For buffers of all kinds.
    used: u64,
    /// For GTT buffers.
    gtt_used: u64,
    /// What these may become.
    limit: u64,
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

/// Bytes of memory that processes may map on GPUs: what was free at the start, and VRAM of all GPUs.
static MAPPABLE: Atomic<u64> = Atomic::new(0);

/// Sets the limits; called once, at module load.
pub(crate) fn init() {
    init_lock();
    let memory = numa::memory();
    MAPPABLE.store(memory.free, Relaxed);
    let limit = memory.total - memory.total / 64;
    let mut system = SYSTEM.lock();
    system.limit = if limit < 2 * KEPT {
        limit / 2
    } else {
        limit - KEPT
    };
    system.gtt_limit = memory.total / 2 / SZ_4K as u64 * SZ_4K as u64;
}

/// A GPU with `bytes` of VRAM has come.
pub(super) fn vram_came(bytes: u64) {
    MAPPABLE.fetch_add(bytes, Relaxed);
}

/// It goes.
pub(super) fn vram_went(bytes: u64) {
    MAPPABLE.fetch_sub(bytes, Relaxed);
}

/// VRAM of each GPU that is not for buffers, because page tables may need it.
fn for_tables() -> u64 {
    (MAPPABLE.load(Relaxed) / BYTES_PER_TABLE_BYTE).max(TABLES_MIN)
}

/// Memory that was set aside for a buffer. Dropping it gives it back.
pub(crate) struct Reservation {
    gpu: Arc<Gpu>,
    kind: Kind,
    bytes: u64,
}

/// Sets `bytes` aside for a buffer of `gpu`; `ENOMEM`, with nothing counted, if that is more than there
/// is left.
pub(crate) fn reserve(gpu: &Arc<Gpu>, kind: Kind, bytes: u64) -> Result<Reservation> {
    match kind {
        Kind::Vram => gpu.vram().promise(bytes, for_tables())?,
        Kind::Gtt | Kind::User => {
            let gtt_bytes = if kind == Kind::Gtt { bytes } else { 0 };
            let mut system = SYSTEM.lock();
            let fits = |used: u64, more: u64, limit: u64| {
                used.checked_add(more).filter(|sum| *sum <= limit)
            };
            let used = fits(system.used, bytes, system.limit).ok_or(ENOMEM)?;
            let gtt_used = fits(system.gtt_used, gtt_bytes, system.gtt_limit).ok_or(ENOMEM)?;
            system.used = used;
            system.gtt_used = gtt_used;
        }
    }
    Ok(Reservation {
        gpu: gpu.clone(),
        kind,
        bytes,
    })
}

impl Drop for Reservation {
    fn drop(&mut self) {
        match self.kind {
            Kind::Vram => self.gpu.vram().take_promise_back(self.bytes),
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

/// Bytes of VRAM of `gpu` that processes may still set aside, in whole blocks. What the buffers of
/// the render node take does not count: they can be moved away.
pub(crate) fn vram_available(gpu: &Gpu) -> u64 {
    gpu.vram().unpromised(for_tables()) / VRAM_BLOCK * VRAM_BLOCK
}

/// System memory that GTT buffers may take.
pub(crate) fn gtt_limit() -> u64 {
    SYSTEM.lock().gtt_limit
}

/// Bytes that are set aside, and may be: of system memory, then of that for GTT buffers.
pub(crate) fn system() -> [(u64, u64); 2] {
    let system = *SYSTEM.lock();
    [
        (system.used, system.limit),
        (system.gtt_used, system.gtt_limit),
    ]
}
