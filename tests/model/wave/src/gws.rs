// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Global wave sync: counters outside of the compute units at which waves of a whole dispatch meet.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a wave asks of a resource (`ds_gws_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GwsOp {
    /// Sets the counter: how many more waves than this one come to the barrier.
    Init,
    /// Waits until the counter is used up. The last wave sets it again.
    Barrier,
    /// Adds one to the counter.
    SemaV,
    /// Adds the value to the counter.
    SemaBr,
    /// Waits for the counter to be positive, and takes one from it.
    SemaP,
    /// Lets all who wait go.
    SemaReleaseAll,
}

/// A request of a wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gws {
    /// What to do.
    pub op: GwsOp,
    /// Number of the resource, counted from the first one of the process.
    pub resource: u8,
    /// The value that comes with it.
    pub value: u32,
}

/// What a wave hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GwsAnswer {
    /// It can go on.
    Go,
    /// It waits, and asks with this ticket whether that is over.
    Wait(u64),
}

#[derive(Clone, Copy, Debug, Default)]
struct Resource {
    counter: u32,
    /// Changes when those who wait are let go.
    round: u32,
}

/// Tickets: round of the resource, its number, and this bit if the counter is to be taken from.
const TAKES: u64 = 1 << 63;
const NUMBER_SHIFT: u32 = 32;

/// The resources of a GPU.
#[derive(Debug)]
pub struct GwsResources(Mutex<[Resource; Self::COUNT]>);

impl GwsResources {
    /// How many there are.
    pub const COUNT: usize = 64;

    fn lock(&self) -> MutexGuard<'_, [Resource; Self::COUNT]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out a request on resource `number` of the GPU. `None` if there is no such resource.
    pub fn ask(&self, number: usize, request: &Gws) -> Option<GwsAnswer> {
        let mut all = self.lock();
        let resource = all.get_mut(number)?;
        let ticket = (number as u64) << NUMBER_SHIFT | u64::from(resource.round);
        Some(match request.op {
            GwsOp::Init => {
                resource.counter = request.value;
                GwsAnswer::Go
            }
            GwsOp::Barrier if resource.counter == 0 => {
                resource.counter = request.value;
                resource.round = resource.round.wrapping_add(1);
                GwsAnswer::Go
            }
            GwsOp::Barrier => {
                resource.counter -= 1;
                GwsAnswer::Wait(ticket)
            }
            GwsOp::SemaV | GwsOp::SemaBr => {
                let more = if request.op == GwsOp::SemaV {
                    1
                } else {
                    request.value
                };
                resource.counter = resource.counter.wrapping_add(more);
                GwsAnswer::Go
            }
            GwsOp::SemaP if resource.counter > 0 => {
                resource.counter -= 1;
                GwsAnswer::Go
            }
            GwsOp::SemaP => GwsAnswer::Wait(ticket | TAKES),
            GwsOp::SemaReleaseAll => {
                resource.round = resource.round.wrapping_add(1);
                GwsAnswer::Go
            }
        })
    }

    /// Is the wait of this ticket over?
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
