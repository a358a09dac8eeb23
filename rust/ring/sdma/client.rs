// SPDX-License-Identifier: GPL-2.0

//! What the driver itself has the DMA engines do. Addresses are those of VMID 0.
//!
//! A request becomes as many jobs as it takes. All are put together before the first is
//! submitted, so that a request is executed as a whole or not at all.

use core::any::Any;

use kernel::{prelude::*, sync::aref::ARef};

use super::{packet::Words, ring::IB_DWORDS, Clients, Group, Job, Sdma};
use crate::{
    hw::{DmaPacket, DmaPacketHal},
    kapi::{
        fence::Fence,
        sched::{self, Entity},
    },
};

/// Kept until a request is done, then dropped in a work queue.
type Keep = KBox<dyn Any + Send>;

/// Bytes to copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move {
    /// From here.
    pub(crate) src: u64,
    /// To here.
    pub(crate) dst: u64,
    /// So many.
    pub(crate) len: u64,
}

/// Page table entries to write: entry i is `(addr + i * incr) | flags`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PteRun {
    /// Address of the first entry.
    pub(crate) pe: u64,
    /// Address in it.
    pub(crate) addr: u64,
    /// Everything but the address.
    pub(crate) flags: u64,
    /// From one entry's address to the next one's.
    pub(crate) incr: u64,
    /// Entries.
    pub(crate) count: u32,
}

/// Packets of a request, cut into what fits into a job.
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

    /// Appends a packet, to another job's list if it has to be.
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

    /// Submits. The last job's fence stands for all: they are executed in their order.
    fn submit(
        mut self,
        entity: &Entity<Job>,
        after: &[ARef<Fence>],
        keep: Keep,
    ) -> Result<ARef<Fence>> {
        // Nothing to do still comes after what it waits for.
        if self.jobs.is_empty() {
            self.jobs.push(Words::new(self.hal), GFP_KERNEL)?;
        }
        let group = Group::new()?;
        let mut keep = Some(keep);
        let count = self.jobs.len();
        let mut jobs = KVec::with_capacity(count, GFP_KERNEL)?;
        for (i, words) in self.jobs.into_iter().enumerate() {
            let keep = if i + 1 == count { keep.take() } else { None };
            let job = Job::kernel(words, group.clone(), keep)?;
            let mut job = sched::Job::new(entity, 1, job)?;
            for fence in after.iter().filter(|_| i == 0) {
                job.add_dependency(fence.clone())?;
            }
            jobs.push(job, GFP_KERNEL)?;
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

/// Bytes of a page table entry.
const PTE_BYTES: u64 = 8;

/// Cuts `len` bytes into pieces that a packet can do: offset and length of each.
fn pieces(len: u64, max: u32) -> impl Iterator<Item = (u64, u32)> {
    let max = u64::from(max);
    (0..len.div_ceil(max)).map(move |i| (i * max, (len - i * max).min(max) as u32))
}

impl Sdma {
    fn submit(
        &self,
        entity: impl FnOnce(&Clients) -> &Entity<Job>,
        request: Request,
        after: &[ARef<Fence>],
        keep: Keep,
    ) -> Result<ARef<Fence>> {
        // The lock keeps the jobs of a request together and in their order.
        let clients = self.clients.lock();
        let clients = clients.as_ref().ok_or(ENODEV)?;
        request.submit(entity(clients), after, keep)
    }

    /// Fills ranges of memory, address and bytes, with a 32-bit value. Both have to be multiples
    /// of 4. Starts when `after` are signaled.
    pub(crate) fn fill(
        &self,
        dst: &[(u64, u64)],
        value: u32,
        after: &[ARef<Fence>],
        keep: Keep,
    ) -> Result<ARef<Fence>> {
        let mut request = Request::new(self.packets);
        for (addr, len) in dst {
            if addr % 4 != 0 || len % 4 != 0 {
                return Err(EINVAL);
            }
            for (at, len) in pieces(*len, self.packets.max_bytes()) {
                let dst = addr + at;
                request.push(DmaPacket::Fill { dst, len, value })?;
            }
        }
        self.submit(|c| &c.fill, request, after, keep)
    }

    /// Copies bytes, one [`Move`] after the other.
    pub(crate) fn copy(
        &self,
        moves: &[Move],
        after: &[ARef<Fence>],
        keep: Keep,
    ) -> Result<ARef<Fence>> {
        let mut request = Request::new(self.packets);
        for m in moves {
            for (at, len) in pieces(m.len, self.packets.max_bytes()) {
                let (src, dst) = (m.src + at, m.dst + at);
                request.push(DmaPacket::Copy { src, dst, len })?;
            }
        }
        self.submit(|c| &c.copy, request, after, keep)
    }

    /// Writes page table entries.
    pub(crate) fn write_ptes(
        &self,
        runs: &[PteRun],
        after: &[ARef<Fence>],
        keep: Keep,
    ) -> Result<ARef<Fence>> {
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
        self.submit(|c| &c.ptes, request, after, keep)
    }
}
