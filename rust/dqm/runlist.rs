// SPDX-License-Identifier: GPL-2.0

//! The runlist: MAP_PROCESS for each process, MAP_QUEUES for each of its active queues, and at
//! the end, when there is more than the hardware holds, a jump to the start.

use kernel::{prelude::*, sync::Arc};

use super::{cpsch, HwQueue, Queues};
use crate::{
    gpu::{gart::Buffer, Gpu},
    ring::{
        packet::{MapUserQueue, RunList},
        Packet, //
    },
};

/// A runlist in memory.
pub(super) struct List {
    /// The memory.
    pub(super) buffer: Buffer,
    /// Its content.
    pub(super) words: KVec<u32>,
    /// Processes in it.
    pub(super) processes: u32,
    /// Queues in it.
    pub(super) queues: u32,
    /// The firmware has to take turns.
    pub(super) oversubscribed: bool,
    too_many_processes: bool,
    too_many_queues: bool,
}

impl List {
    /// Why the firmware has to take turns.
    pub(super) fn reason(&self) -> &'static str {
        match (self.too_many_processes, self.too_many_queues) {
            (true, true) => "too many processes and queues",
            (true, false) => "too many processes",
            (false, true) => "too many queues",
            (false, false) => "several processes use cooperative launch or differ in fault mode",
        }
    }
}

fn append<P: Packet>(words: &mut KVec<u32>, packet: &P) -> Result {
    let at = words.len();
    words.resize(at + P::DWORDS, 0, GFP_KERNEL)?;
    packet.emit(&mut words[at..]);
    Ok(())
}

/// Writes the runlist of all processes.
pub(super) fn build(gpu: &Gpu, queues: &Queues) -> Result<List> {
    let caps = gpu.generation().caps;
    let hal = gpu.generation().packet;
    let mut words: KVec<u32> = KVec::new();
    let mut num_processes = 0;
    let mut num_queues = 0;

    // Processes with the same fault mode go together, those like the first process first.
    let first = queues.processes.first().map(|p| p.state.lock().xnack);
    let mut conflict = false;
    for turn in [true, false] {
        for process in queues.processes.iter() {
            let state = process.state.lock();
            if (Some(state.xnack) == first) != turn {
                continue;
            }
            conflict |= !turn;
            let mut map = state.map;
            let active = state.queues.iter().filter(|q| q.is_active());
            map.num_queues = active.clone().count() as u32;
            let at = words.len();
            words.resize(at + hal.map_process_dwords(), 0, GFP_KERNEL)?;
            hal.map_process(&map, &mut words[at..])?;
            num_processes += 1;
            for queue in active {
                let spec = queue.state.lock().spec.clone();
                append(
                    &mut words,
                    &MapUserQueue {
                        doorbell: spec.doorbell,
                        mqd: queue.mqd.gpu_addr(),
                        wptr: spec.wptr_va,
                        gws: spec.gws,
                    },
                )?;
                num_queues += 1;
            }
        }
    }

    let too_many_processes = num_processes > cpsch::max_processes(caps);
    let too_many_queues = num_queues > cpsch::max_queues(caps);
    let oversubscribed =
        too_many_processes || too_many_queues || queues.gws > 1 || (conflict && hal.xnack_chain());
    let total = words.len() + if oversubscribed { RunList::DWORDS } else { 0 };
    let buffer = gpu.system_buffer(total * 4)?;
    if oversubscribed {
        append(
            &mut words,
            &RunList {
                addr: buffer.gpu_addr(),
                dwords: total as u32,
                chain: true,
                processes: num_processes.min(cpsch::max_processes(caps)),
            },
        )?;
    }
    buffer.write_dwords(0, &words)?;
    Ok(List {
        buffer,
        words,
        processes: num_processes,
        queues: num_queues,
        oversubscribed,
        too_many_processes,
        too_many_queues,
    })
}

impl Queues {
    /// The queue with this doorbell.
    pub(super) fn find_doorbell(&self, doorbell: u32) -> Option<Arc<HwQueue>> {
        self.processes.iter().find_map(|p| {
            let state = p.state.lock();
            state
                .queues
                .iter()
                .find(|q| q.state.lock().spec.doorbell == doorbell)
                .cloned()
        })
    }
}

impl HwQueue {
    /// Notes that the queue is lost.
    pub(super) fn mark_reset(&self) {
        self.process.state.lock().has_reset_queue = true;
        self.state.lock().reset = true;
    }
}
