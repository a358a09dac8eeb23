// SPDX-License-Identifier: GPL-2.0

//! The kernel interface queue (KIQ), the only queue that is loaded through registers. It maps the
//! HIQ and invalidates TLBs by PASID.

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
    hw::{FlushType, MqdContext, MqdKind, QueueFormat, QueueSpec},
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
/// Timeout of a ring test.
const TEST_TIMEOUT_MS: i64 = 100;
/// Timeout of a fence. The C driver polls for 10 ms first and then for a second per try.
const FENCE_TIMEOUT_MS: i64 = 1000;

/// The KIQ of an XCC, mapped.
pub(crate) struct Kiq {
    xcc: Xcc,
    writer: Writer,
    fence: u32,
}

impl Kiq {
    /// Loads the KIQ and runs a ring test. `ETIMEDOUT` when it does not execute packets, `EIO` when
    /// the scratch register does not hold a value, `ENOMEM` without memory.
    pub(crate) fn start(card: &Card) -> Result<Self> {
        let g = card.generation();
        let hal = g.need_kiq()?;
        let mmio = card.mmio()?;
        let xcc = card.xccs().first();
        let buffer = card.system_buffer(TOTAL)?;
        let base = buffer.gpu_addr();
        let doorbell = hal.doorbell() * 2;
        let layout = Layout {
            ring: RING,
            dwords: RING_DWORDS,
            rptr: RPTR,
            wptr: WPTR,
        };
        let writer = Writer::new(
            c"KIQ",
            buffer,
            layout,
            Format::PM4,
            Wrap::Split,
            ALIGN_DWORDS,
            doorbell,
        )?;
        let spec = QueueSpec {
            format: QueueFormat::Pm4,
            sdma: None,
            ring_va: writer.ring_addr(),
            ring_size: writer.ring_bytes(),
            rptr_va: writer.rptr_addr(),
            wptr_va: writer.wptr_addr(),
            wptr_kernel: 0,
            eop_va: base + EOP as u64,
            eop_size: EOP_BYTES as u32,
            cwsr_va: 0,
            cwsr_size: 0,
            ctl_stack_size: 0,
            tba: 0,
            priority: 0,
            percent: 100,
            doorbell,
            gws: false,
            pm4_target_xcc: 0,
        };
        let mut image = KVec::from_elem(0u32, g.mqd.dwords(), GFP_KERNEL)?;
        let cx = MqdContext {
            kind: MqdKind::Kiq,
            addr: base + MQD as u64,
            xcc: 0,
            num_xcc: card.xccs().count(),
            stride: 0,
            pci_atomics: card.config().pci_atomics,
        };
        g.mqd.init(&cx, &spec, &mut image)?;
        hal.merge(mmio, xcc, &mut image)?;
        writer.buffer().write_dwords(MQD, &image)?;
        hal.start(mmio, xcc, doorbell, &image)?;
        let mut kiq = Self {
            xcc,
            writer,
            fence: 0,
        };
        let tested = kiq.declare(card).and_then(|()| kiq.test(card));
        if let Err(e) = tested {
            dev_err!(card.dev(), "KIQ does not execute packets: {e:?}\n");
            if kiq.stop(card).is_err() {
                card.wedge("the KIQ was not stopped");
            }
            return Err(e);
        }
        dev_dbg!(card.dev(), "KIQ started\n");
        Ok(kiq)
    }

    /// Unmaps the KIQ through registers. `ENODEV` when the device is unplugged, `ETIMEDOUT` when
    /// the queue stays active.
    pub(crate) fn stop(self, card: &Card) -> Result {
        let hal = card.generation().need_kiq()?;
        hal.stop(card.mmio()?, self.xcc)
    }

    /// Prints the ring, for debugfs.
    pub(crate) fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.writer.show("kiq", "KIQ", f)
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
    /// on success. `ETIMEDOUT` after 100 ms, `EIO` when the register does not hold a value.
    pub(crate) fn test(&mut self, card: &Card) -> Result {
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
        wait(TEST_TIMEOUT_MS, || {
            Ok(hal.read_scratch(mmio, self.xcc)? == TEST_AFTER)
        })
    }

    /// Sends packets with a fence and waits for it. `ETIMEDOUT` after a second.
    fn run(&mut self, card: &Card, mut batch: Batch) -> Result {
        let fence = self.fence.wrapping_add(1);
        batch.push(&WriteMemory {
            addr: self.writer.buffer().gpu_addr() + FENCE as u64,
            value: fence,
        })?;
        self.writer.submit(card, &batch)?;
        self.fence = fence;
        let buffer = self.writer.buffer();
        wait(FENCE_TIMEOUT_MS, || Ok(buffer.read32(FENCE)? == fence)).inspect_err(|_| {
            dev_err!(card.dev(), "KIQ fence {fence} timed out\n");
        })
    }

    /// Maps the HIQ. `ETIMEDOUT` when the KIQ does not respond.
    pub(crate) fn map_hiq(&mut self, card: &Card, map: &MapHiq) -> Result {
        let mut batch = Batch::new();
        batch.push(map)?;
        self.run(card, batch)
    }

    /// Unmaps the HIQ from its slot. `ETIMEDOUT` when the KIQ does not respond.
    pub(crate) fn unmap_hiq(&mut self, card: &Card, doorbell: u32) -> Result {
        let mut batch = Batch::new();
        batch.push(&UnmapQueues {
            filter: Filter::Doorbell(doorbell),
            reset: true,
        })?;
        self.writer.submit(card, &batch)?;
        self.test(card)
    }

    /// Invalidates the TLB entries of a PASID in all hubs; complete on return. `ETIMEDOUT` when the
    /// KIQ does not respond.
    pub(crate) fn invalidate_tlbs(&mut self, card: &Card, pasid: u32, kind: FlushType) -> Result {
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
        self.run(card, batch)
    }
}
