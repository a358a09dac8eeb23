// SPDX-License-Identifier: GPL-2.0

//! The descriptor of a hardware generation.

use kernel::prelude::*;

use super::{
    df::DfHal,
    gfx::GfxHal,
    gmc::GmcHal,
    ih::IhHal,
    mqd::MqdHal,
    nbio::NbioHal,
    psp::PspHal,
    ras::RasHal,
    sched::{KiqHal, MesHal, SchedKind},
    sdma::SdmaHal,
    sdma_queue::SdmaQueueHal,
    smu::SmuHal,
};
use crate::asic::caps::Caps;

/// A hardware generation.
pub(crate) struct Generation {
    /// Name for log messages.
    pub(crate) name: &'static str,
    /// Numbers.
    pub(crate) caps: &'static Caps,
    /// How user queues are scheduled.
    pub(crate) sched: SchedKind,
    /// Compute MQDs.
    pub(crate) mqd: &'static dyn MqdHal,
    /// User SDMA queues. Register accesses return `ENODEV` after unbind or for a missing engine.
    pub(crate) sdma_queue: &'static dyn SdmaQueueHal,
    /// Memory hubs and page tables.
    pub(crate) gmc: &'static dyn GmcHal,
    /// Interrupt ring.
    pub(crate) ih: &'static dyn IhHal,
    /// Graphics core.
    pub(crate) gfx: &'static dyn GfxHal,
    /// SDMA engines.
    pub(crate) sdma: &'static dyn SdmaHal,
    /// Bus interface.
    pub(crate) nbio: &'static dyn NbioHal,
    /// Data fabric, if the driver sets it up.
    pub(crate) df: Option<&'static dyn DfHal>,
    /// PSP, which loads the firmware of all engines.
    pub(crate) psp: &'static dyn PspHal,
    /// SMU, if the driver manages power firmware.
    pub(crate) smu: Option<&'static dyn SmuHal>,
    /// RAS, if the memory of cards may have it.
    pub(crate) ras: Option<&'static dyn RasHal>,
    /// KIQ and HIQ, for [`SchedKind::Runlist`].
    pub(crate) kiq: Option<&'static dyn KiqHal>,
    /// MES, for [`SchedKind::Mes`].
    pub(crate) mes: Option<&'static dyn MesHal>,
}

impl Generation {
    /// Returns KIQ and HIQ; `ENODEV` if queues are not scheduled by runlist.
    pub(crate) fn need_kiq(&self) -> Result<&'static dyn KiqHal> {
        self.kiq.ok_or(ENODEV)
    }

    /// Returns MES; `ENODEV` if there is none.
    pub(crate) fn need_mes(&self) -> Result<&'static dyn MesHal> {
        self.mes.ok_or(ENODEV)
    }
}
