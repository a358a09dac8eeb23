// SPDX-License-Identifier: GPL-2.0

//! The kernel interface queues (KIQ), the only queues that are loaded through registers. Each XCC
//! has one. They map the HIQ and invalidate TLBs by PASID.

use kernel::{fmt, page::PAGE_SIZE, prelude::*};

use super::{
    packet::{
        Filter, InvalidateTlbs, MapHiq, SetResources, SetUconfigReg, UnmapQueues, WriteMemory,
    },
    wait,
    writer::{Format, Layout, Wrap, Writer},
    Batch,
};
use crate::{
    asic::xcc::Xcc,
    card::Card,
    hw::{FlushType, MqdKind, KIQ_DYNAMIC_MASKS},
};

/// Size of the ring in dwords.
const RING_DWORDS: usize = 2048;
/// Submissions are padded to a multiple of this many dwords.
const ALIGN_DWORDS: usize = 256;
const RING: usize = 0;
const EOP: usize = RING_DWORDS * 4;
const EOP_BYTES: usize = 4096;
const POINTERS: usize = EOP + EOP_BYTES;
const RPTR: usize = POINTERS;
const WPTR: usize = POINTERS + 64;
const FENCE: usize = POINTERS + 128;
const MQD: usize = POINTERS + PAGE_SIZE;
const TOTAL: usize = MQD + PAGE_SIZE;

/// Values of the scratch register before and after a ring test (`gfx_v9_4_3_ring_test_ring()`).
const TEST_BEFORE: u32 = 0xcafe_dead;
const TEST_AFTER: u32 = 0xdead_beef;
/// Timeout of the ring test of a new KIQ: ten times that of the C driver
/// (`AMDGPU_MAX_USEC_TIMEOUT`), since a reset is not repeated after it.
const TEST_TIMEOUT_MS: i64 = 1000;
/// Timeout of a TLB invalidation. The C driver polls for 5 ms up to 1001 times, 5 ms apart
/// (`amdgpu_gmc_flush_gpu_tlb_pasid`).
const FLUSH_TIMEOUT_MS: i64 = 10_000;
/// Timeout of other fences.
const FENCE_TIMEOUT_MS: i64 = 1000;
/// Timeout of the ring test behind UNMAP_QUEUES, which waits for the HIQ. A card is reset if it
/// expires, so it is as long as that of a fence. The C driver's 100,000 polls of a register, 1 us
/// apart, are 100 ms and the time of the reads.
const UNMAP_TIMEOUT_MS: i64 = FENCE_TIMEOUT_MS;

/// Ring names in trace events and in debugfs, by the logical number of the XCC.
const NAMES: [(&CStr, &str); 8] = [
    (c"KIQ", "kiq"),
    (c"KIQ1", "kiq1"),
    (c"KIQ2", "kiq2"),
    (c"KIQ3", "kiq3"),
    (c"KIQ4", "kiq4"),
    (c"KIQ5", "kiq5"),
    (c"KIQ6", "kiq6"),
    (c"KIQ7", "kiq7"),
];

/// The KIQs of all XCCs of a card, in the order of the XCCs; empty while they do not run.
pub(crate) struct Kiqs(KVec<Kiq>);

impl Kiqs {
    /// Returns the state in which no KIQ runs.
    pub(crate) const fn stopped() -> Self {
        Self(KVec::new())
    }

    /// Starts the KIQ of each XCC. Errors as [`Kiq::start`]; none runs then.
    pub(crate) fn start(card: &Card) -> Result<Self> {
        let xccs = card.xccs();
        let mut all = Self(KVec::with_capacity(xccs.len(), GFP_KERNEL)?);
        let started = xccs.iter().try_for_each(|xcc| -> Result {
            let kiq = Kiq::start(card, *xcc)?;
            all.0.push_within_capacity(kiq)?;
            Ok(())
        });
        if let Err(e) = started {
            // Hangs the card if that fails.
            let _ = all.stop(card);
            return Err(e);
        }
        Ok(all)
    }

    /// Returns whether the KIQs run.
    pub(crate) fn is_running(&self) -> bool {
        !self.0.is_empty()
    }

    /// Takes the KIQs, and leaves the state in which no KIQ runs.
    pub(crate) fn take(&mut self) -> Self {
        core::mem::replace(self, Self::stopped())
    }

    /// Unmaps the KIQs through registers, all of them despite an error. Errors as [`Kiq::stop`].
    pub(crate) fn stop(self, card: &Card) -> Result {
        let mut result = Ok(());
        for kiq in self.0 {
            result = result.and(kiq.stop(card));
        }
        result
    }

    /// Returns the KIQ of an XCC. `ENODEV` when it does not run.
    pub(crate) fn of(&mut self, xcc: Xcc) -> Result<&mut Kiq> {
        self.0.iter_mut().find(|kiq| kiq.xcc == xcc).ok_or(ENODEV)
    }

    /// Invalidates the TLB entries of a PASID in all hubs of all XCCs; complete on return.
    /// `ETIMEDOUT` when a KIQ does not respond within 10 seconds, `EIO` when the card is hung.
    pub(crate) fn invalidate_tlbs(&mut self, card: &Card, pasid: u32, kind: FlushType) -> Result {
        // All KIQs flush at the same time, also after an error of one of them.
        let mut result = Ok(());
        for kiq in &mut self.0 {
            result = result.and(kiq.send_invalidate_tlbs(card, pasid, kind));
        }
        result.and(wait_fences(card, &self.0, FLUSH_TIMEOUT_MS))
    }

    /// Prints the rings, for debugfs.
    pub(crate) fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|kiq| kiq.show(f))
    }
}

/// Waits for the last fence of each KIQ. `ETIMEDOUT` after `timeout_ms`, `EIO` when the card is
/// hung.
fn wait_fences(card: &Card, mut kiqs: &[Kiq], timeout_ms: i64) -> Result {
    let done = || {
        while let [kiq, rest @ ..] = kiqs {
            if !kiq.is_idle(card)? {
                return Ok(false);
            }
            kiqs = rest;
        }
        Ok(true)
    };
    let waited = wait(timeout_ms, done);
    if waited == Err(ETIMEDOUT) {
        for kiq in kiqs {
            if !kiq.is_idle(card)? {
                let (fence, xcc) = (kiq.fence, kiq.xcc.logical);
                dev_err!(card.dev(), "KIQ fence {fence} of XCC {xcc} timed out\n");
            }
        }
    }
    waited
}

/// The KIQ of an XCC, mapped.
pub(crate) struct Kiq {
    xcc: Xcc,
    /// Name in debugfs.
    label: &'static str,
    writer: Writer,
    /// Value of the last fence sent.
    fence: u32,
}

impl Kiq {
    /// Loads the KIQ and runs a ring test. `ETIMEDOUT` when it does not execute packets, `EIO` when
    /// the scratch register does not hold a value, `ENOMEM` without memory.
    fn start(card: &Card, xcc: Xcc) -> Result<Self> {
        let g = card.generation();
        let hal = g.need_kiq()?;
        let mmio = card.mmio()?;
        let buffer = card.system_buffer(TOTAL)?;
        let doorbell = hal.doorbell(xcc) * 2;
        let (name, label) = *NAMES.get(usize::from(xcc.logical)).ok_or(EINVAL)?;
        let layout = Layout {
            ring: RING,
            dwords: RING_DWORDS,
            rptr: RPTR,
            wptr: WPTR,
        };
        let writer = Writer::new(
            name,
            buffer,
            layout,
            Format::PM4,
            Wrap::Split,
            ALIGN_DWORDS,
            doorbell,
        )?;
        let spec = writer.queue_spec(EOP, EOP_BYTES);
        let mut image = KVec::<u32>::zeroed(g.mqd.dwords(), GFP_KERNEL)?;
        let cx = writer.mqd_context(card, MqdKind::Kiq, MQD);
        g.mqd.init(&cx, &spec, &mut image)?;
        hal.merge(mmio, xcc, &mut image)?;
        writer.buffer().write_dwords(MQD, &image)?;
        // CUs and render backends.
        writer
            .buffer()
            .write_dwords(MQD + KIQ_DYNAMIC_MASKS, &[!0; 2])?;
        hal.start(mmio, xcc, doorbell, &image)?;
        let mut kiq = Self {
            xcc,
            label,
            writer,
            fence: 0,
        };
        let tested = kiq
            .declare(card)
            .and_then(|()| kiq.test(card, TEST_TIMEOUT_MS));
        if let Err(e) = tested {
            dev_err!(
                card.dev(),
                "the KIQ of XCC {} does not execute packets: {e:?}\n",
                xcc.logical
            );
            // Hangs the card if that fails.
            let _ = kiq.stop(card);
            return Err(e);
        }
        dev_dbg!(card.dev(), "KIQ of XCC {} started\n", xcc.logical);
        Ok(kiq)
    }

    /// Unmaps the KIQ through registers. `ENODEV` when the device is unplugged, `ETIMEDOUT` when
    /// the queue stays active, which hangs the card: that cuts it off from the memory, which is
    /// freed.
    fn stop(self, card: &Card) -> Result {
        let hal = card.generation().need_kiq()?;
        hal.stop(card.mmio()?, self.xcc).inspect_err(|_| {
            card.wedge("the KIQ was not stopped");
        })
    }

    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.writer.show(self.label, "KIQ", f)
    }

    /// Sends SET_RESOURCES for the KIQ itself, without any VMIDs or queue slots.
    fn declare(&mut self, card: &Card) -> Result {
        let mut batch = Batch::new();
        batch.push(&SetResources {
            hiq: false,
            vmid_mask: 0,
            queue_mask: 0,
            unmap_latency_ms: 0,
            gws_mask: 0,
            xnack_chain: false,
        })?;
        self.writer.submit(card, &batch)
    }

    /// Ring test: writes a scratch register by a packet. All packets sent before have been executed
    /// on success. `ETIMEDOUT` after `timeout_ms`, `EIO` when the register does not hold a value.
    fn test(&mut self, card: &Card, timeout_ms: i64) -> Result {
        let hal = card.generation().need_kiq()?;
        let mmio = card.mmio()?;
        hal.write_scratch(mmio, self.xcc, TEST_BEFORE)?;
        if hal.read_scratch(mmio, self.xcc)? != TEST_BEFORE {
            return Err(EIO);
        }
        let mut batch = Batch::new();
        batch.push(&SetUconfigReg {
            reg: hal.scratch_packet_reg(mmio)?,
            value: TEST_AFTER,
        })?;
        self.writer.submit(card, &batch)?;
        wait(timeout_ms, || {
            Ok(hal.read_scratch(mmio, self.xcc)? == TEST_AFTER)
        })
    }

    /// Sends packets with a fence. `ENOMEM` when the ring is full.
    fn send(&mut self, card: &Card, batch: &mut Batch) -> Result {
        let fence = self.fence.wrapping_add(1);
        batch.push(&WriteMemory {
            addr: self.writer.buffer().gpu_addr() + FENCE as u64,
            value: fence,
        })?;
        self.writer.submit(card, batch)?;
        self.fence = fence;
        Ok(())
    }

    /// Returns whether the last fence sent is written. `EIO` when the card is hung.
    fn is_idle(&self, card: &Card) -> Result<bool> {
        match card.is_hung() {
            true => Err(EIO),
            false => Ok(self.writer.buffer().read32(FENCE)? == self.fence),
        }
    }

    /// Sends packets with a fence and waits for it. `ETIMEDOUT` after a second.
    fn run(&mut self, card: &Card, batch: &mut Batch) -> Result {
        self.send(card, batch)?;
        wait_fences(card, core::slice::from_ref(self), FENCE_TIMEOUT_MS)
    }

    /// Maps the HIQ. `ETIMEDOUT` when the KIQ does not respond.
    pub(crate) fn map_hiq(&mut self, card: &Card, map: &MapHiq) -> Result {
        let mut batch = Batch::new();
        batch.push(map)?;
        self.run(card, &mut batch)
    }

    /// Unmaps the HIQ from its slot. `ETIMEDOUT` when the KIQ does not respond.
    pub(crate) fn unmap_hiq(&mut self, card: &Card, doorbell: u32) -> Result {
        let mut batch = Batch::new();
        batch.push(&UnmapQueues {
            filter: Filter::Doorbell(doorbell),
            reset: true,
        })?;
        self.writer.submit(card, &batch)?;
        self.test(card, UNMAP_TIMEOUT_MS)
    }

    /// Sends the invalidation of the TLB entries of a PASID in all hubs, with a fence. `ENOMEM`
    /// when the ring is full.
    fn send_invalidate_tlbs(&mut self, card: &Card, pasid: u32, kind: FlushType) -> Result {
        let mut batch = Batch::new();
        if card.generation().caps.tlb_extra_flush {
            batch.push(&InvalidateTlbs {
                pasid,
                flush_type: FlushType::Heavyweight as u32,
            })?;
        }
        batch.push(&InvalidateTlbs {
            pasid,
            flush_type: kind as u32,
        })?;
        self.send(card, &mut batch)
    }
}
