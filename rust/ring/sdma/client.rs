// SPDX-License-Identifier: GPL-2.0

//! The driver's own SDMA jobs: clears, copies and PTE writes. Addresses are in VMID 0.
//!
//! A request is split into as many jobs as needed. All are built before the first is submitted, so
//! that a request is executed completely or not at all.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{aref::ARef, Arc, Mutex},
};

use super::{group::Group, job::Job, packet::Words, pte_run::PteRun, ring::IB_DWORDS};
use crate::{
    hw::{DmaPacket, DmaPacketHal},
    kapi::{
        fence::Fence,
        sched::{self, Entity, Priority, Scheduler},
    },
};

/// A copy of a contiguous range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move {
    /// Source address in VMID 0.
    pub(crate) src: u64,
    /// Destination address in VMID 0.
    pub(crate) dst: u64,
    /// Length in bytes.
    pub(crate) len: u64,
}

/// Packets of a request, split into jobs.
struct Request {
    hal: &'static dyn DmaPacketHal,
    jobs: KVec<Words>,
}

impl Request {
    fn new(hal: &'static dyn DmaPacketHal) -> Self {
        Self {
            hal,
            jobs: KVec::new(),
        }
    }

    /// Appends a packet, in a new job when the last one is full.
    fn push(&mut self, packet: DmaPacket) -> Result {
        if let Some(words) = self.jobs.last_mut() {
            if words.push_within(&packet, IB_DWORDS)? {
                return Ok(());
            }
        }
        let mut words = Words::new(self.hal);
        if !words.push_within(&packet, IB_DWORDS)? {
            return Err(EINVAL);
        }
        self.jobs.push(words, GFP_KERNEL)?;
        Ok(())
    }

    /// Submits the jobs and returns the fence of the last; they are executed in order.
    fn submit(mut self, entity: &Entity<Job>) -> Result<ARef<Fence>> {
        // An empty request signals after the earlier ones, too.
        if self.jobs.is_empty() {
            self.jobs.push(Words::new(self.hal), GFP_KERNEL)?;
        }
        let group = Group::new()?;
        let mut jobs = KVec::with_capacity(self.jobs.len(), GFP_KERNEL)?;
        for words in self.jobs {
            let job = Job::kernel(words, group.clone())?;
            jobs.push(sched::Job::new(entity, 1, job)?, GFP_KERNEL)?;
        }
        let mut last = Fence::stub();
        for job in jobs {
            let job = job.arm();
            last = job.finished();
            job.push();
        }
        Ok(last)
    }
}

/// Size of a PTE in bytes.
const PTE_BYTES: u64 = 8;

/// Splits `len` units into pieces of at most `max`; returns offset and length of each.
fn pieces(len: u64, max: u32) -> impl Iterator<Item = (u64, u32)> {
    let max = u64::from(max);
    (0..len.div_ceil(max)).map(move |i| (i * max, (len - i * max).min(max) as u32))
}

/// Scheduler entities, one per kind of work.
struct Entities {
    clear: Entity<Job>,
    copy: Entity<Job>,
    ptes: Entity<Job>,
}

/// Scheduler entities of the driver's own jobs: one per kind of work, so that dependencies of one
/// kind do not delay the others.
#[pin_data]
pub(crate) struct Clients {
    packets: &'static dyn DmaPacketHal,
    /// `None` after [`Clients::stop`].
    #[pin]
    entities: Mutex<Option<Entities>>,
}

impl Clients {
    /// Returns entities on all of `schedulers`. `ENOMEM` without memory.
    pub(super) fn new(
        schedulers: &[Arc<Scheduler<Job>>],
        packets: &'static dyn DmaPacketHal,
    ) -> Result<Pin<KBox<Self>>> {
        let entities = Entities {
            clear: Entity::new(Priority::Kernel, schedulers, 0)?,
            copy: Entity::new(Priority::Kernel, schedulers, 0)?,
            ptes: Entity::new(Priority::Kernel, schedulers, 0)?,
        };
        KBox::pin_init(
            pin_init!(Self {
                packets,
                entities <- new_mutex!(Some(entities)),
            }),
            GFP_KERNEL,
        )
    }

    /// Destroys the entities after their queued jobs. Later requests fail with `ENODEV`.
    pub(super) fn stop(&self) {
        let entities = self.entities.lock().take();
        drop(entities);
    }

    fn submit(
        &self,
        entity: impl FnOnce(&Entities) -> &Entity<Job>,
        request: Request,
    ) -> Result<ARef<Fence>> {
        // The lock keeps the jobs of a request together and in order.
        let entities = self.entities.lock();
        let entities = entities.as_ref().ok_or(ENODEV)?;
        request.submit(entity(entities))
    }

    /// Zeroes ranges (address in VMID 0 and length in bytes, both multiples of 4). Returns the
    /// fence. `EINVAL` for a misaligned range, `ENODEV` when the rings were stopped, `ENOMEM`
    /// without memory.
    pub(crate) fn clear(&self, dst: &[(u64, u64)]) -> Result<ARef<Fence>> {
        let mut request = Request::new(self.packets);
        for (addr, len) in dst {
            if addr % 4 != 0 || len % 4 != 0 {
                return Err(EINVAL);
            }
            for (at, len) in pieces(*len, self.packets.max_bytes()) {
                let dst = addr + at;
                let value = 0;
                request.push(DmaPacket::Fill { dst, len, value })?;
            }
        }
        self.submit(|c| &c.clear, request)
    }

    /// Copies the ranges of each [`Move`] in order. Errors as [`Clients::clear`].
    pub(crate) fn copy(&self, moves: &[Move]) -> Result<ARef<Fence>> {
        let mut request = Request::new(self.packets);
        for m in moves {
            for (at, len) in pieces(m.len, self.packets.max_bytes()) {
                let (src, dst) = (m.src + at, m.dst + at);
                request.push(DmaPacket::Copy { src, dst, len })?;
            }
        }
        self.submit(|c| &c.copy, request)
    }

    /// Writes page table entries. Errors as [`Clients::clear`].
    pub(crate) fn write_ptes(&self, runs: &[PteRun]) -> Result<ARef<Fence>> {
        let mut request = Request::new(self.packets);
        for run in runs {
            if run.pe % PTE_BYTES != 0 {
                return Err(EINVAL);
            }
            for (at, count) in pieces(u64::from(run.count), self.packets.max_ptes()) {
                request.push(DmaPacket::Ptes {
                    pe: run.pe + at * PTE_BYTES,
                    addr: run.addr + at * run.incr,
                    flags: run.flags,
                    incr: run.incr,
                    count,
                })?;
            }
        }
        self.submit(|c| &c.ptes, request)
    }
}
