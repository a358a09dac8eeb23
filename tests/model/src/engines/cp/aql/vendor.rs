// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Vendor packets: PM4 IBs in an AQL queue, barriers on a signal's value.

use rkfd_abi::aql::{signal, vendor};
use rkfd_abi::pm4;

use super::packet::{AqlError, Bytes};
use super::{aql_mut, poll_again, Flight, PacketStep};
use crate::engines::cp::engine::Engine;
use crate::engines::cp::pm4::Stream;
use crate::engines::cp::queue::{Queue, Step};
use crate::engines::gmc::VmFault;
use crate::event;

impl Engine<'_> {
    /// Processes a vendor packet.
    pub(super) fn vendor(
        &mut self,
        queue: &mut Queue,
        index: u64,
        p: &Bytes,
    ) -> Result<PacketStep, VmFault> {
        match p.0[vendor::FORMAT] {
            vendor::FORMAT_PM4_IB => {
                let ib = |n: usize| p.u32(vendor::IB_JUMP_CMD + 4 * n);
                let size = pm4::indirect_buffer::IB_SIZE.field.get(ib(3));
                let remain = p.u32(vendor::DW_CNT_REMAIN);
                if ib(0) != pm4::indirect_buffer::PACKET.header()
                    || remain != vendor::DW_CNT_REMAIN_VALUE
                    || size == 0
                {
                    let header = ib(0);
                    return Ok(PacketStep::Error(AqlError::Pm4Ib { header, remain }));
                }
                let base = rkfd_abi::bits::join(ib(1) & !3, ib(2));
                event!(
                    self.env.trace(),
                    "aql",
                    "pm4_ib",
                    "xcc={} queue={} pasid={} packet={index:#x} va={base:#x} dwords={size}",
                    self.env.xcc(),
                    queue.slot,
                    queue.pasid
                );
                let stream = Stream {
                    vmid: queue.config.vmid,
                    base,
                    wrap: None,
                    pos: 0,
                    end: size.into(),
                };
                self.acquire(queue, p.header());
                Self::begin(queue, Flight::instant(index, p));
                if let Some(aql) = aql_mut(queue) {
                    aql.pm4.ibs = vec![stream];
                    aql.in_vendor = true;
                }
                Ok(PacketStep::Taken)
            }
            vendor::FORMAT_BARRIER_VALUE => {
                let at = p.u64(vendor::BARRIER_SIGNAL);
                let reference = p.u64(vendor::BARRIER_VALUE) as i64;
                let mask = p.u64(vendor::BARRIER_MASK);
                let value = match at {
                    0 => reference,
                    _ => {
                        let value = self
                            .env
                            .read64(queue.config.vmid, at.wrapping_add(signal::VALUE as u64))?;
                        (value & mask) as i64
                    }
                };
                // hsa_signal_condition_t.
                let met = match p.u32(vendor::BARRIER_CONDITION) {
                    0 => value == reference,
                    1 => value != reference,
                    2 => value < reference,
                    3 => value >= reference,
                    condition => {
                        return Ok(PacketStep::Error(AqlError::BarrierCondition { condition }));
                    }
                };
                if !met {
                    return Ok(PacketStep::Later(poll_again(queue)));
                }
                self.acquire(queue, p.header());
                Self::begin(queue, Flight::instant(index, p));
                Ok(PacketStep::Taken)
            }
            format => Ok(PacketStep::Error(AqlError::VendorFormat { format })),
        }
    }

    /// Executes a PM4 packet of a vendor packet's IB.
    pub(super) fn step_vendor(&mut self, queue: &mut Queue) -> PacketStep {
        self.reap_pm4(queue);
        let Some(aql) = aql_mut(queue) else {
            return PacketStep::Later(Step::Idle);
        };
        let mut ibs = std::mem::take(&mut aql.pm4.ibs);
        if ibs.is_empty() {
            if !aql.pm4.jobs.is_empty() {
                return PacketStep::Later(Step::Idle);
            }
            // A flight without a job completes in the next `reap_aql`.
            aql.in_vendor = false;
            return PacketStep::Taken;
        }
        // The ring is never read: there is always an IB.
        let mut ring = Stream {
            vmid: queue.config.vmid,
            base: queue.config.base,
            wrap: None,
            pos: 0,
            end: 0,
        };
        let step = self.step_stream(queue, &mut ring, &mut ibs);
        if let Some(aql) = aql_mut(queue) {
            aql.pm4.ibs = ibs;
        }
        match step {
            Step::Busy => PacketStep::Taken,
            step => PacketStep::Later(step),
        }
    }
}
