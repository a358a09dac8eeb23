// SPDX-License-Identifier: GPL-2.0 OR MIT

//! GWS (global wave sync): barriers and semaphores across the waves of a dispatch.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Operation on a GWS resource (`ds_gws_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GwsOp {
    /// Sets the counter: number of waves at the barrier minus 1.
    Init,
    /// Waits until the counter is used up. The last wave resets it.
    Barrier,
    /// Increments the counter.
    SemaV,
    /// Adds the value to the counter.
    SemaBr,
    /// Waits until the counter is positive and decrements it.
    SemaP,
    /// Releases all waiting waves.
    SemaReleaseAll,
}

/// Request of a wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gws {
    /// Operation.
    pub op: GwsOp,
    /// Resource number, relative to the first resource of the process.
    pub resource: u8,
    /// Operand of the operation.
    pub value: u32,
}

/// Reply to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GwsReply {
    /// The wave continues.
    Go,
    /// The wave waits; it polls for the end of the wait with this ticket.
    Wait(u64),
}

#[derive(Clone, Copy, Debug, Default)]
struct Resource {
    counter: u32,
    /// Incremented when waiting waves are released.
    round: u32,
}

/// Tickets: round of the resource, its number, and this bit if the counter is to be decremented.
const TAKES: u64 = 1 << 63;
const NUMBER_SHIFT: u32 = 32;

/// GWS resources of a GPU.
#[derive(Debug)]
pub struct GwsResources(Mutex<[Resource; Self::COUNT]>);

impl GwsResources {
    /// Number of resources.
    pub const COUNT: usize = 64;

    fn lock(&self) -> MutexGuard<'_, [Resource; Self::COUNT]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes a request on resource `number` of the GPU. Returns `None` if it does not exist.
    pub fn execute(&self, number: usize, request: &Gws) -> Option<GwsReply> {
        let mut all = self.lock();
        let resource = all.get_mut(number)?;
        let ticket = (number as u64) << NUMBER_SHIFT | u64::from(resource.round);
        Some(match request.op {
            GwsOp::Init => {
                resource.counter = request.value;
                GwsReply::Go
            }
            GwsOp::Barrier if resource.counter == 0 => {
                resource.counter = request.value;
                resource.round = resource.round.wrapping_add(1);
                GwsReply::Go
            }
            GwsOp::Barrier => {
                resource.counter -= 1;
                GwsReply::Wait(ticket)
            }
            GwsOp::SemaV | GwsOp::SemaBr => {
                let more = if request.op == GwsOp::SemaV {
                    1
                } else {
                    request.value
                };
                resource.counter = resource.counter.wrapping_add(more);
                GwsReply::Go
            }
            GwsOp::SemaP if resource.counter > 0 => {
                resource.counter -= 1;
                GwsReply::Go
            }
            GwsOp::SemaP => GwsReply::Wait(ticket | TAKES),
            GwsOp::SemaReleaseAll => {
                resource.round = resource.round.wrapping_add(1);
                GwsReply::Go
            }
        })
    }

    /// Cancels the wait of this ticket. Returns `false` if it is over.
    pub fn cancel(&self, ticket: u64) -> bool {
        let mut all = self.lock();
        let number = (ticket & !TAKES) >> NUMBER_SHIFT;
        let Some(resource) = all.get_mut(number as usize) else {
            return false;
        };
        if resource.round != ticket as u32 {
            return false;
        }
        if ticket & TAKES == 0 {
            resource.counter += 1;
        }
        true
    }

    /// Returns whether the wait of this ticket is over.
    pub fn over(&self, ticket: u64) -> bool {
        let mut all = self.lock();
        let number = (ticket & !TAKES) >> NUMBER_SHIFT;
        let Some(resource) = all.get_mut(number as usize) else {
            return true;
        };
        if resource.round != ticket as u32 {
            return true;
        }
        let takes = ticket & TAKES != 0 && resource.counter > 0;
        if takes {
            resource.counter -= 1;
        }
        takes
    }
}

impl Default for GwsResources {
    fn default() -> Self {
        GwsResources(Mutex::new([Resource::default(); Self::COUNT]))
    }
}
