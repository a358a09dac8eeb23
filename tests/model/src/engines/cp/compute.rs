// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Dispatches by PM4 packets, from the `COMPUTE_*` registers of the queue.

use gpu_regs::{gc_12_0_0 as gc12, gc_9_4_3 as gc, Reg};
use gpu_wave::{Dispatch, Isa, Scratch};
use rkfd_abi::pm4;

use super::dispatch::{Job, Progress};
use super::engine::{Engine, Outcome};
use super::error::PacketError;
use super::exec::{pm4_state, COMPUTE};
use super::pm4::Packet;
use super::queue::{Pm4, Queue};
use crate::chips::Generation;
use crate::engines::gmc::VmFault;
use crate::{event, strict};

/// The `COMPUTE_*` registers of a generation.
struct Names {
    /// Base of GC segment 0, in dwords: packets use absolute register addresses.
    segment0: u32,
    start_x: Reg,
    num_thread_x: Reg,
    scratch_base_lo: Reg,
    tmpring_size: Reg,
    pgm_lo: Reg,
    rsrc1: Reg,
    rsrc2: Reg,
    rsrc3: Reg,
    user_data_0: Reg,
}

const GFX9: Names = Names {
    segment0: 0x2000,
    start_x: gc::regCOMPUTE_START_X,
    num_thread_x: gc::regCOMPUTE_NUM_THREAD_X,
    scratch_base_lo: gc::regCOMPUTE_DISPATCH_SCRATCH_BASE_LO,
    tmpring_size: gc::regCOMPUTE_TMPRING_SIZE,
    pgm_lo: gc::regCOMPUTE_PGM_LO,
    rsrc1: gc::regCOMPUTE_PGM_RSRC1,
    rsrc2: gc::regCOMPUTE_PGM_RSRC2,
    rsrc3: gc::regCOMPUTE_PGM_RSRC3,
    user_data_0: gc::regCOMPUTE_USER_DATA_0,
};

const GFX12: Names = Names {
    segment0: 0x1260,
    start_x: gc12::regCOMPUTE_START_X,
    num_thread_x: gc12::regCOMPUTE_NUM_THREAD_X,
    scratch_base_lo: gc12::regCOMPUTE_DISPATCH_SCRATCH_BASE_LO,
    tmpring_size: gc12::regCOMPUTE_TMPRING_SIZE,
    pgm_lo: gc12::regCOMPUTE_PGM_LO,
    rsrc1: gc12::regCOMPUTE_PGM_RSRC1,
    rsrc2: gc12::regCOMPUTE_PGM_RSRC2,
    rsrc3: gc12::regCOMPUTE_PGM_RSRC3,
    user_data_0: gc12::regCOMPUTE_USER_DATA_0,
};

crate::errors! {
    /// Invalid parameters of a PM4 dispatch.
    enum DispatchError {
        /// The shader is not enabled.
        NoShader { initiator: u32 } => "dispatch initiator {initiator:#x} has no COMPUTE_SHADER_EN",
        /// Invalid workgroup size.
        Workgroup { size: [u32; 3] } => "workgroup of {size:?} work-items",
        /// The scratch memory is too small for a workgroup.
        Scratch { slots: u64, wave: u64 } => "scratch of {slots} waves with {wave} bytes each",
        /// The grid size overflows.
        Grid { dim: [u32; 3], size: [u32; 3] } => "{dim:?} workgroups of {size:?}",
    }
}

impl Names {
    fn of(generation: Generation) -> &'static Self {
        match generation {
            Generation::Gfx9 => &GFX9,
            Generation::Gfx12 => &GFX12,
        }
    }

    fn get(&self, pm4: &Pm4, reg: Reg) -> u32 {
        let at = (self.segment0 + reg.off - COMPUTE.start) as usize;
        pm4.compute.get(at).copied().unwrap_or(0)
    }

    /// Returns the address in two registers, the lower one in units of 256 bytes.
    fn address(&self, pm4: &Pm4, low: Reg) -> u64 {
        u64::from(self.get(pm4, low)) << 8 | u64::from(self.get(pm4, low.at(1)) & 0xff) << 40
    }
}

impl Engine<'_> {
    /// Executes DISPATCH_DIRECT.
    pub(super) fn dispatch_direct(&mut self, queue: &mut Queue, p: &Packet) -> Outcome {
        use pm4::dispatch_direct as dd;
        self.check(queue, p, &dd::PACKET, dd::FIELDS);
        let dim = [p.get(dd::DIM_X), p.get(dd::DIM_Y), p.get(dd::DIM_Z)];
        self.launch(queue, dim, p.get(dd::DISPATCH_INITIATOR))
    }

    /// Executes DISPATCH_INDIRECT: the dimensions are three dwords in memory.
    pub(super) fn dispatch_indirect(
        &mut self,
        queue: &mut Queue,
        p: &Packet,
    ) -> Result<Outcome, VmFault> {
        use pm4::dispatch_indirect as di;
        self.check(queue, p, &di::PACKET, di::FIELDS);
        let va = p.address(di::ADDR_LO, di::ADDR_HI);
        let dim = self.env.read_dwords(queue.config.vmid, va, 3)?;
        Ok(self.launch(
            queue,
            [dim[0], dim[1], dim[2]],
            p.get(di::DISPATCH_INITIATOR),
        ))
    }

    /// Starts a dispatch with the `COMPUTE_*` registers.
    fn launch(&mut self, queue: &mut Queue, dim: [u32; 3], initiator: u32) -> Outcome {
        let space = self.space(queue);
        let apertures = self.apertures(space);
        let generation = self.generation();
        let trap = self.trap_handler(queue, space);
        let doorbell = queue.config.doorbell_id();
        let Some(state) = pm4_state(queue) else {
            return Outcome::Bad(PacketError::Dispatch);
        };
        let names = Names::of(generation);
        let scratch = self.scratch_of(
            names.get(state, names.tmpring_size),
            names.address(state, names.scratch_base_lo),
        );
        let mut dispatch = match direct(generation, state, dim, initiator, scratch) {
            Ok(dispatch) => dispatch,
            Err(error) => {
                strict!(self.env.strict(), "cp", "queue {}: {error}", queue.slot);
                return Outcome::Bad(PacketError::DispatchState);
            }
        };
        if dispatch.workgroups().contains(&0) {
            return Outcome::Next;
        }
        dispatch.apertures = apertures;
        dispatch.trap = trap;
        dispatch.doorbell_id = doorbell;
        dispatch.xcc_id = self.env.xcc().into();
        let job = Job::new(
            self.new_job_id(),
            dispatch,
            queue.cus.clone(),
            queue.gws.clone(),
        );
        event!(
            self.env.trace(),
            "cp",
            "dispatch_begin",
            "xcc={} queue={} job={} workgroups={}",
            self.env.xcc(),
            queue.slot,
            job.id,
            job.total
        );
        let (sites, priority) = ([self.site(queue)], queue.config.priority);
        if let Some(state) = pm4_state(queue) {
            state.jobs.push_back(job.clone());
        }
        self.pool.submit(&job, &sites, priority);
        Outcome::Next
    }

    /// Removes completed dispatches of PM4 packets.
    pub(super) fn reap_pm4(&mut self, queue: &mut Queue) {
        loop {
            let job = match pm4_state(queue).and_then(|s| s.jobs.front().cloned()) {
                Some(job) => job,
                None => return,
            };
            let progress = job.progress();
            // All messages of a completed job are posted by now.
            self.shader_messages(queue);
            match progress {
                Progress::Going => return,
                Progress::Done => {
                    event!(
                        self.env.trace(),
                        "cp",
                        "dispatch_end",
                        "xcc={} queue={} job={}",
                        self.env.xcc(),
                        queue.slot,
                        job.id
                    );
                    if let Some(state) = pm4_state(queue) {
                        state.jobs.pop_front();
                    }
                }
                Progress::Failed(stop) => {
                    self.shader_failed(queue, &job, &stop);
                    return;
                }
            }
        }
    }
}

// `Dispatch` has a private field, so a struct expression is impossible here.
#[allow(clippy::field_reassign_with_default)]
fn direct(
    generation: Generation,
    state: &Pm4,
    dim: [u32; 3],
    initiator: u32,
    scratch: Scratch,
) -> Result<Dispatch, DispatchError> {
    if !gc::COMPUTE_DISPATCH_INITIATOR__COMPUTE_SHADER_EN.is_set(initiator) {
        return Err(DispatchError::NoShader { initiator });
    }
    let names = Names::of(generation);
    let reg = |r| names.get(state, r);
    let size = [0, 1, 2].map(|n| reg(names.num_thread_x.at(n)) & 0xffff);
    let items = size.iter().map(|&n| u64::from(n)).product::<u64>();
    if items == 0 || items > 1024 {
        return Err(DispatchError::Workgroup { size });
    }
    let rsrc2 = reg(names.rsrc2);
    let mut grid = dim;
    if !gc::COMPUTE_DISPATCH_INITIATOR__USE_THREAD_DIMENSIONS.is_set(initiator) {
        for (g, s) in grid.iter_mut().zip(size) {
            *g = g.checked_mul(s).ok_or(DispatchError::Grid { dim, size })?;
        }
    }
    let user =
        (0..gc::COMPUTE_PGM_RSRC2__USER_SGPR.get(rsrc2)).map(|n| reg(names.user_data_0.at(n)));
    let mut dispatch = Dispatch::default();
    if generation == Generation::Gfx12 {
        dispatch.isa = Isa::Gfx1201;
        dispatch.wave32 = gc12::COMPUTE_DISPATCH_INITIATOR__CS_W32_EN.is_set(initiator);
    }
    dispatch.grid = grid;
    dispatch.workgroup = size.map(|n| n as u16);
    dispatch.entry = names.address(state, names.pgm_lo);
    dispatch.rsrc1 = reg(names.rsrc1);
    dispatch.rsrc2 = rsrc2;
    dispatch.rsrc3 = reg(names.rsrc3);
    dispatch.user_sgprs = user.collect();
    dispatch.lds_bytes = gc::COMPUTE_PGM_RSRC2__LDS_SIZE.get(rsrc2) * 512;
    if !gc::COMPUTE_DISPATCH_INITIATOR__FORCE_START_AT_000.is_set(initiator) {
        dispatch.first = [0, 1, 2].map(|n| reg(names.start_x.at(n)));
    }
    if gc::COMPUTE_PGM_RSRC2__SCRATCH_EN.is_set(rsrc2) {
        let (slots, wave) = (scratch.slots, scratch.wave_stride);
        if wave == 0 || slots < dispatch.waves_per_workgroup().into() {
            return Err(DispatchError::Scratch { slots, wave });
        }
        dispatch.scratch = scratch;
    }
    Ok(dispatch)
}
