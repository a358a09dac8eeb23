// SPDX-License-Identifier: GPL-2.0

//! The descriptor of a hardware generation.

use kernel::prelude::*;

use super::{
    gfx::GfxHal,
    gmc::GmcHal,
    ih::IhHal,
    mqd::MqdHal,
    nbio::NbioHal,
    psp::PspHal,
    sched::{KiqHal, MesHal, SchedKind},
    sdma::SdmaHal,
    sdma_queue::SdmaQueueHal,
};
use crate::asic::caps::Caps;

/// A generation.
pub(crate) struct Generation {
    /// Its name for messages.
    pub(crate) name: &'static str,
    /// Its numbers.
    pub(crate) caps: &'static Caps,
    /// How queues are scheduled.
    pub(crate) sched: SchedKind,
    /// Queue images.
    pub(crate) mqd: &'static dyn MqdHal,
    /// User queues of the SDMA engines.
    pub(crate) sdma_queue: &'static dyn SdmaQueueHal,
    /// Memory hubs and page tables.
    pub(crate) gmc: &'static dyn GmcHal,
    /// Interrupts.
    pub(crate) ih: &'static dyn IhHal,
    /// Compute core.
    pub(crate) gfx: &'static dyn GfxHal,
    /// DMA engines.
    pub(crate) sdma: &'static dyn SdmaHal,
    /// Bus interface.
    pub(crate) nbio: &'static dyn NbioHal,
    /// The security processor, if the driver brings it up; else all firmware has to run already.
    pub(crate) psp: Option<&'static dyn PspHal>,
    /// What takes a runlist, if that is how queues are scheduled.
    pub(crate) kiq: Option<&'static dyn KiqHal>,
    /// The scheduler with a processor of its own, if it has one.
    pub(crate) mes: Option<&'static dyn MesHal>,
}

impl Generation {
    /// What takes a runlist; `ENODEV` if queues are scheduled in another way.
    pub(crate) fn need_kiq(&self) -> Result<&'static dyn KiqHal> {
        self.kiq.ok_or(ENODEV)
    }

    /// The scheduler with a processor of its own; `ENODEV` if there is none.
    pub(crate) fn need_mes(&self) -> Result<&'static dyn MesHal> {
        self.mes.ok_or(ENODEV)
    }
}
