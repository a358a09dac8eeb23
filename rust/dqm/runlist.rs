// SPDX-License-Identifier: GPL-2.0

//! The runlist: MAP_PROCESS for each process, MAP_QUEUES for each of its active queues, and a jump
//! to the start when oversubscribed.

use kernel::{page::PAGE_SIZE, prelude::*};

use super::{queues::Queues, slots};
use crate::{
    card::gart::Buffer,
    gpu::Gpu,
    ring::{
        packet::{MapUserQueue, RunList},
        Packet, //
    },
};

/// Memory of a runlist, of fixed capacity.
pub(super) struct RunlistBuffer {
    buffer: Buffer,
    /// Dwords written last; has the capacity of the buffer.
    words: KVec<u32>,
    capacity: usize,
}

impl RunlistBuffer {
    /// Allocates memory for at least `words` dwords. `ENOMEM` without memory.
    pub(super) fn new(gpu: &Gpu, words: usize) -> Result<Self> {
        let bytes = (words * 4).next_multiple_of(PAGE_SIZE);
        let capacity = bytes / 4;
        Ok(Self {
            words: KVec::with_capacity(capacity, GFP_KERNEL)?,
            buffer: gpu.system_buffer(bytes)?,
            capacity,
        })
    }

    /// Returns whether a runlist of `words` dwords fits.
    pub(super) fn fits(&self, words: usize) -> bool {
        words <= self.capacity
    }

    /// Returns the GPU address of the runlist.
    pub(super) fn addr(&self) -> u64 {
        self.buffer.gpu_addr()
    }

    /// Returns the dwords of the runlist.
    pub(super) fn words(&self) -> &[u32] {
        &self.words
    }
}

/// Contents of a runlist.
pub(super) struct List {
    /// Length in dwords.
    pub(super) dwords: u32,
    /// Processes in it.
    pub(super) processes: u32,
    /// Queues in it.
    pub(super) queues: u32,
    /// The firmware has to use time slices.
    pub(super) oversubscribed: bool,
    too_many_processes: bool,
    too_many_queues: bool,
}

impl List {
    /// Returns the reason of oversubscription.
    pub(super) fn reason(&self) -> &'static str {
        match (self.too_many_processes, self.too_many_queues) {
            (true, true) => "too many processes and queues",
            (true, false) => "too many processes",
            (false, true) => "too many queues",
            (false, false) => "several processes use GWS or differ in XNACK mode",
        }
    }
}

fn append<P: Packet>(words: &mut KVec<u32>, packet: &P) -> Result {
    let at = words.len();
    words.resize(at + P::DWORDS, 0, GFP_KERNEL)?;
    packet.emit(&mut words[at..]);
    Ok(())
}

/// Returns the length of the runlist of all processes with a jump to its start, in dwords, if
/// `active` of their queues are active. `ENODEV` when the GPU is not scheduled by runlists.
pub(super) fn length(gpu: &Gpu, queues: &Queues, active: usize) -> Result<usize> {
    let process = gpu.generation().need_kiq()?.map_process_dwords();
    Ok(queues.processes.len() * process + active * MapUserQueue::DWORDS + RunList::DWORDS)
}

/// Writes the runlist of all processes, of which `max_processes` have a VMID at a time. `EINVAL` if
/// it does not fit.
pub(super) fn build(
    gpu: &Gpu,
    max_processes: u32,
    queues: &Queues,
    room: &mut RunlistBuffer,
) -> Result<List> {
    let caps = gpu.generation().caps;
    let hal = gpu.generation().need_kiq()?;
    if !room.fits(length(gpu, queues, queues.active)?) {
        return Err(EINVAL);
    }
    let addr = room.addr();
    let words = &mut room.words;
    words.clear();
    let mut num_processes = 0;
    let mut num_queues = 0;

    // Processes with the same fault mode (XNACK) are adjacent, those with the mode of the first
    // process first.
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
            map.num_queues = 0;
            let at = words.len();
            let end = at + hal.map_process_dwords();
            words.resize(end, 0, GFP_KERNEL)?;
            for queue in &state.queues {
                let Some(spec) = queue.active_spec() else {
                    continue;
                };
                map.num_queues += 1;
                if spec.gws {
                    map.num_gws = gpu.config().num_gws;
                }
                append(
                    words,
                    &MapUserQueue {
                        sdma_engine: spec.sdma.map(|place| place.engine),
                        doorbell: spec.doorbell,
                        mqd: queue.mqd.gpu_addr(),
                        wptr: spec.wptr_va,
                        gws: spec.gws,
                    },
                )?;
            }
            hal.map_process(&map, &mut words[at..end])?;
            num_processes += 1;
            num_queues += map.num_queues;
        }
    }

    // With a limit of 0 the firmware still maps one (`pm_calc_rlib_size`).
    let too_many_processes = num_processes > max_processes.max(1);
    // SDMA queues have slots of their own.
    let too_many_queues = queues.compute > slots::max_queues(caps) as usize;
    let oversubscribed = too_many_processes
        || too_many_queues
        || queues.gws > 1
        || (conflict && hal.xnack_chain(gpu.config()));
    if oversubscribed {
        let dwords = (words.len() + RunList::DWORDS) as u32;
        append(
            words,
            &RunList {
                addr,
                dwords,
                chain: true,
                processes: num_processes.min(max_processes),
            },
        )?;
    }
    room.buffer.write_dwords(0, words)?;
    Ok(List {
        dwords: words.len() as u32,
        processes: num_processes,
        queues: num_queues,
        oversubscribed,
        too_many_processes,
        too_many_queues,
    })
}
