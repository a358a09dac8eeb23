// SPDX-License-Identifier: GPL-2.0

//! The queues of a process.

use kernel::{prelude::*, sync::Arc};

use super::Queue;
use crate::{
    dqm::{GpuDqm, ProcessSlot},
    gpu::Gpu,
    kapi::id_table,
};

/// Queues that a process may have on all GPUs.
const MAX: usize = 1024;

/// The queues of a process, by id.
pub(crate) struct Table(id_table::Table<Option<Queue>>);

/// An id whose queue is being made. Dropping it gives the id back.
pub(super) struct Vacancy<'a> {
    table: &'a mut Table,
    id: u32,
}

impl Vacancy<'_> {
    pub(super) fn id(&self) -> u32 {
        self.id
    }

    pub(super) fn fill(self, queue: Queue) {
        if let Some(slot) = self.table.0.get_mut(self.id) {
            *slot = Some(queue);
        }
    }
}

impl Drop for Vacancy<'_> {
    fn drop(&mut self) {
        if matches!(self.table.0.get(self.id), Some(None)) {
            self.table.0.remove(self.id);
        }
    }
}

impl Table {
    pub(crate) const fn new() -> Self {
        Self(id_table::Table::new(MAX))
    }

    /// Takes the lowest free id; `ENOMEM` when there is none.
    pub(super) fn reserve(&mut self) -> Result<Vacancy<'_>> {
        let id = self.0.insert(None).map_err(|_| ENOMEM)?;
        Ok(Vacancy { table: self, id })
    }

    pub(crate) fn get(&self, id: u32) -> Option<&Queue> {
        self.0.get(id)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut Queue> {
        self.0.get_mut(id)?.as_mut()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// All queues with their ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Queue)> {
        self.0
            .iter()
            .filter_map(|(id, queue)| Some((id, queue.as_ref()?)))
    }

    /// How many queues are on a GPU.
    pub(super) fn count_on(&self, gpu: &Gpu) -> usize {
        self.iter()
            .filter(|(_, q)| q.gpu().id() == gpu.id())
            .count()
    }

    /// Destroys a queue; `EINVAL` if there is none with this id.
    ///
    /// With any other error it is gone although the hardware did not confirm it.
    pub(crate) fn destroy(&mut self, id: u32) -> Result {
        let queue = self.get(id).ok_or(EINVAL)?;
        let is_last = self.count_on(queue.gpu()) == 1;
        let stopped = queue.stop(is_last);
        let queue = self.0.remove(id);
        drop(queue);
        stopped
    }

    /// Takes a process off a GPU with all its queues, whether the GPU answers or not.
    pub(crate) fn remove_all(&mut self, gpu: &Gpu, slot: &Arc<ProcessSlot>) {
        let has_queues = self.count_on(gpu) > 0;
        let left = gpu.dqm().and_then(|dqm| {
            let stopped = if has_queues {
                dqm.unregister(slot)
            } else {
                Ok(())
            };
            stopped.and(dqm.leave(slot))
        });
        if let Err(e) = left {
            pr_err!(
                "process {} did not leave GPU {:#x}: {e:?}\n",
                slot.pid(),
                gpu.id()
            );
        }
        for id in 0..MAX as u32 {
            if self.get(id).is_some_and(|q| q.gpu().id() == gpu.id()) {
                let queue = self.0.remove(id);
                drop(queue);
            }
        }
    }
}
