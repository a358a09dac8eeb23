// SPDX-License-Identifier: GPL-2.0

//! The HSA interface queue (HIQ): sends runlists and UNMAP_QUEUES to the CP firmware scheduler.
//!
//! It has one ring and one doorbell, and an MQD for each XCC: every XCC executes all its packets.

use kernel::{fmt, page::PAGE_SIZE, prelude::*, sync::barrier};

use super::{
    kiq::Kiqs,
    packet::{MapHiq, QueryStatus, UnmapQueues},
    wait,
    writer::{Format, Layout, Wrap, Writer},
    Batch, Packet,
};
use crate::{
    asic::xcc::{Xcc, XccList},
    card::Card,
    hw::{MqdContext, MqdKind, QueueSpec},
};

/// Size of the ring in dwords.
const RING_DWORDS: usize = 512;
const RING: usize = 0;
const POINTERS: usize = PAGE_SIZE;
const RPTR: usize = POINTERS;
const WPTR: usize = POINTERS + 64;
const FENCE: usize = POINTERS + 128;
const EOP: usize = POINTERS + PAGE_SIZE;
const EOP_BYTES: usize = 4096;
/// MQD of the first XCC; those of the others follow.
const MQDS: usize = EOP + EOP_BYTES;
const MQD_STRIDE: usize = PAGE_SIZE;

/// Values of the fence before and after a QUERY_STATUS (`KFD_FENCE_*` of `kfd_priv.h`).
const FENCE_INIT: u64 = 10;
const FENCE_COMPLETED: u64 = 100;

/// The HIQ of a node.
pub(crate) struct Hiq {
    xccs: XccList,
    writer: Writer,
}

/// Returns the offset of the MQD of the XCC with this index in the node.
const fn mqd(index: usize) -> usize {
    MQDS + index * MQD_STRIDE
}

impl Hiq {
    /// Allocates the HIQ of node `index`, which has these XCCs, and builds its MQDs. `ENOMEM`
    /// without memory or space in the GART.
    pub(crate) fn new(card: &Card, index: u32, xccs: &XccList) -> Result<Self> {
        let g = card.generation();
        let buffer = card.system_buffer(mqd(xccs.len()))?;
        let doorbell = card.doorbells().hiq(index);
        let layout = Layout {
            ring: RING,
            dwords: RING_DWORDS,
            rptr: RPTR,
            wptr: WPTR,
        };
        let writer = Writer::new(c"HIQ", buffer, layout, Format::PM4, Wrap::Fill, 1, doorbell)?;
        let spec = QueueSpec {
            priority: 1,
            ..writer.queue_spec(EOP, EOP_BYTES)
        };
        let mut image = KVec::<u32>::zeroed(g.mqd.dwords(), GFP_KERNEL)?;
        for index in 0..xccs.len() {
            let cx = MqdContext {
                xcc: index as u32,
                num_xcc: xccs.count(),
                stride: MQD_STRIDE as u32,
                ..writer.mqd_context(card, MqdKind::Hiq, mqd(index))
            };
            g.mqd.init(&cx, &spec, &mut image)?;
            writer.buffer().write_dwords(mqd(index), &image)?;
            image.fill(0);
        }
        Ok(Self {
            xccs: *xccs,
            writer,
        })
    }

    /// Maps the HIQ on each XCC through its KIQ. `ETIMEDOUT` when a KIQ does not respond.
    pub(crate) fn map(&self, card: &Card, kiqs: &mut Kiqs) -> Result {
        let slot = card.generation().need_kiq()?.hiq_slot();
        for (index, xcc) in self.xccs.iter().enumerate() {
            let map = MapHiq {
                pipe: slot.pipe,
                queue: slot.queue,
                me: slot.me,
                doorbell: self.writer.doorbell(),
                mqd: self.writer.buffer().gpu_addr() + mqd(index) as u64,
                wptr: self.writer.wptr_addr(),
            };
            let mapped = kiqs.of(*xcc).and_then(|kiq| kiq.map_hiq(card, &map));
            if let Err(e) = mapped {
                // The KIQ may have mapped it despite the error, and the caller frees its memory.
                if self.unmap_first(card, kiqs, index + 1).is_err() {
                    card.wedge("the HIQ was not mapped");
                }
                return Err(e);
            }
        }
        Ok(())
    }

    /// Unmaps the HIQ from all XCCs. `ETIMEDOUT` when a KIQ does not respond.
    pub(crate) fn unmap_self(&self, card: &Card, kiqs: &mut Kiqs) -> Result {
        self.unmap_first(card, kiqs, self.xccs.len())
    }

    /// Unmaps the HIQ from the first `count` XCCs, from all of them despite an error. Errors as
    /// [`Hiq::unmap_self`].
    fn unmap_first(&self, card: &Card, kiqs: &mut Kiqs, count: usize) -> Result {
        let mut result = Ok(());
        for xcc in self.xccs.iter().take(count) {
            let unmapped = kiqs
                .of(*xcc)
                .and_then(|kiq| kiq.unmap_hiq(card, self.writer.doorbell()));
            result = result.and(unmapped);
        }
        result
    }

    /// Prints the ring, for debugfs.
    pub(crate) fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.writer.show("hiq", "HIQ", f)
    }

    /// Sends a packet. `ENOMEM` when the ring is full.
    pub(crate) fn send<P: Packet>(&mut self, card: &Card, packet: &P) -> Result {
        let mut batch = Batch::new();
        batch.push(packet)?;
        self.writer.submit(card, &batch)
    }

    /// Unmaps queues and waits for the fence behind that. `ETIME` when the scheduler does not
    /// respond within `timeout_ms`, `EIO` when the GPU hangs meanwhile, `ENOMEM` when the ring is
    /// full.
    pub(crate) fn unmap(&mut self, card: &Card, unmap: &UnmapQueues, timeout_ms: i64) -> Result {
        let mut batch = Batch::new();
        batch.push(unmap)?;
        self.send_fenced(card, batch, timeout_ms)
    }

    /// Waits until the scheduler has processed all packets sent before. Errors as [`Hiq::unmap`].
    pub(crate) fn fence(&mut self, card: &Card, timeout_ms: i64) -> Result {
        self.send_fenced(card, Batch::new(), timeout_ms)
    }

    /// Sends packets and QUERY_STATUS behind them, and waits for its fence. Errors as
    /// [`Hiq::unmap`].
    fn send_fenced(&mut self, card: &Card, mut batch: Batch, timeout_ms: i64) -> Result {
        self.writer.buffer().write64(FENCE, FENCE_INIT)?;
        barrier::mb(barrier::Full);
        batch.push(&QueryStatus {
            addr: self.writer.buffer().gpu_addr() + FENCE as u64,
            value: FENCE_COMPLETED,
        })?;
        self.writer.submit(card, &batch)?;
        self.wait_fence(card, timeout_ms)
    }

    fn wait_fence(&self, card: &Card, timeout_ms: i64) -> Result {
        let fence = self.writer.buffer();
        wait(timeout_ms, || {
            let done = fence.read64(FENCE)? == FENCE_COMPLETED;
            if !done {
                card.check_usable()?;
            }
            Ok(done)
        })
        .map_err(|e| if e == ETIMEDOUT { ETIME } else { e })
    }

    /// Calls `found` with each XCC and the doorbell of a queue that it did not preempt, which its
    /// firmware leaves in the XCC's MQD of the HIQ, and clears it there.
    pub(crate) fn take_hung_doorbells(
        &self,
        card: &Card,
        mut found: impl FnMut(Xcc, u32),
    ) -> Result {
        let dword = card.generation().need_kiq()?.hung_doorbell_dword();
        for (index, xcc) in self.xccs.iter().enumerate() {
            let at = mqd(index) + dword * 4;
            let doorbell = self.writer.buffer().read32(at)?;
            if doorbell != 0 {
                self.writer.buffer().write32(at, 0)?;
                found(*xcc, doorbell);
            }
        }
        Ok(())
    }

    /// Returns a copy of the MQD of the XCC with this index in the node, for debugfs. `ENOMEM`
    /// without memory.
    pub(crate) fn mqd_words(&self, card: &Card, index: usize) -> Result<KVec<u32>> {
        self.writer.mqd_words(card, mqd(index))
    }
}
